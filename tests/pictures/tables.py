"""Tables as `assign_batches` leaves them, made by hand: the use cases of the spec, and any others."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

#: 2023-11-14 22:13:20 UTC
BASE_US = 1_700_000_000_000_000
MS = 1_000
SECOND = 1_000_000
KEY = "pump"

TIME = pa.timestamp("us", tz="UTC")
FIELDS: list[tuple[str, pa.DataType]] = [
    ("key", pa.string()),
    ("type", pa.string()),
    ("event_time", TIME),
    ("receive_time", TIME),
    ("verdict", pa.string()),
    ("batch_id", pa.string()),
    ("batch_start", TIME),
    ("batch_end", TIME),
    ("closed_at", TIME),
    ("close_reason", pa.string()),
    ("payload", pa.int64()),
]
SCHEMA = pa.schema(FIELDS)

Row = dict[str, Any]
#: (type, event, receive)
Message = tuple[str, int, int]

#: The spec's five, in ms: batches (start, end, timeout, members), and rejected messages with their reason.
USE_CASES: dict[str, tuple[list[tuple[int, int, int, str]], list[tuple[str, str]]]] = {
    "UC1": (
        [
            (105, 155, 175, "b:120@125 a:115@135 c:142@150"),
            (155, 205, 225, "d:160@165 e:175@190"),
            (230, 280, 300, "g:240@250"),
        ],
        [("f:215@260", "late")],
    ),
    "UC2": ([(100, 150, 170, "a:120@130 b:130@140 c:142@150"), (160, 210, 230, "d:180@190 e:190@210")], []),
    "UC3": (
        [
            (100, 140, 160, "a:120@125 b:130@140"),
            (140, 170, 190, "a:140@150 c:150@170"),
            (170, 220, 240, "a:170@180"),
        ],
        [],
    ),
    "UC4": (
        [(100, 150, 170, "a:120@130 b:130@140 c:140@150"), (170, 220, 240, "d:190@210 e:210@230")],
        [("c:140@160", "duplicate"), ("c:140@220", "late")],
    ),
    "UC5": (
        [(100, 150, 170, "a:120@130 b:130@140 c:140@150"), (160, 210, 230, "a:180@190 b:200@205")],
        [("d:145@215", "late")],
    ),
}


def batch(
    start_us: int,
    end_us: int,
    closed_us: int,
    messages: Iterable[Message],
    *,
    key: str = KEY,
    close_reason: str = "timeout",
    ordinal: int = 0,
) -> list[Row]:
    """The rows of a batch."""
    id = f"{key}@{start_us}" + (f".{ordinal}" if ordinal else "")
    window = {"batch_id": id, "batch_start": start_us, "batch_end": end_us}
    closing = {"closed_at": closed_us, "close_reason": close_reason}
    return [{**_row(message, key, "batched"), **window, **closing} for message in messages]


def rejected(message: Message, reason: str, *, key: str = KEY) -> Row:
    """The row of a rejected message."""
    return _row(message, key, reason)


def table_of(rows: Iterable[Row], chunks: int = 1) -> pa.Table:
    """A table of the rows, in as many chunks as asked for."""
    rows = list(rows)
    cuts = [len(rows) * cut // chunks for cut in range(chunks + 1)]
    parts = [pa.Table.from_pylist(rows[a:b], SCHEMA) for a, b in pairwise(cuts)]
    return pa.concat_tables(parts)


def use_case(name: str) -> pa.Table:
    """A use case of the spec, its numbers taken as milliseconds after `BASE_US`."""
    batches, others = USE_CASES[name]
    rows = []
    for start, end, timeout, members in batches:
        messages = [_message(member) for member in members.split()]
        rows += batch(BASE_US + start * MS, BASE_US + end * MS, BASE_US + timeout * MS, messages)
    return table_of([*rows, *(rejected(_message(text), reason) for text, reason in others)])


def steady(count: int, *, window_ms: int = 500, delay_ms: int = 400, members: int = 3) -> list[Row]:
    """The rows of one window after the other."""
    rows = []
    for start in range(BASE_US, BASE_US + count * window_ms * MS, window_ms * MS):
        times = [start + window_ms * MS * member // members for member in range(members)]
        messages = [(f"type-{place}", time, time + 20 * MS) for place, time in enumerate(times)]
        rows += batch(start, start + window_ms * MS, start + (window_ms + delay_ms) * MS, messages)
    return rows


#: From a clock that was never set to one that is centuries ahead.
anywhere = st.one_of(
    st.integers(BASE_US - 2 * SECOND, BASE_US + 20 * SECOND),
    st.integers(0, 100 * SECOND),
    st.integers(-(2**62), 2**62),
)
types = st.sampled_from(["temperature", "flow", "<&\">'", "温度", "b\x00\x1b[31m", ""])
#: Letters that a terminal or a parser may take for more than letters.
texts = st.text("ab<>&\"'[]@ é温😀\x00\x1b\n\u202e\ufffe", max_size=20)
reasons = st.sampled_from(["late", "future", "duplicate", "oversize"])
soon = st.integers(BASE_US, BASE_US + 20 * SECOND)


#: A window: how long after the one before, how long, closed how long after its end, and why.
windows = st.tuples(
    st.sampled_from([0, 1, 7, 400 * MS, 500 * MS, 3 * SECOND, 3_600 * SECOND]),
    st.sampled_from([1, 900, 120 * MS, 500 * MS, 500 * MS, 60 * SECOND]),
    st.sampled_from([-61 * SECOND, -100 * MS, 0, 400 * MS, 9_000 * SECOND]),
    st.sampled_from(["timeout", "full", "flush"]),
)
#: A message: its type, where it lies in its window (of 100), and its delay in ms.
members = st.lists(st.tuples(types, st.integers(0, 99), st.integers(-400, 400)), min_size=1, max_size=5)


def _batches(drawn: list[tuple[tuple[int, int, int, str], list[tuple[str, int, int]]]]) -> list[Row]:
    rows: list[Row] = []
    start = BASE_US
    starts: Counter[int] = Counter()
    for (after, length, wait, reason), inside in drawn:
        start += after
        times = [(type, start + length * part // 100, delay) for type, part, delay in inside]
        messages = [(type, event, event + delay * MS) for type, event, delay in times]
        end = start + length
        rows += batch(start, end, end + wait, messages, close_reason=reason, ordinal=starts[start])
        starts[start] += 1
    return rows


#: Windows after each other, overlapping, of one start, of 1 µs or of a minute, closed at any time.
batches = st.lists(st.tuples(windows, members), max_size=8).map(_batches)
some_batches = st.lists(st.tuples(windows, members), min_size=1, max_size=8).map(_batches)
rejections: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(st.tuples(types, anywhere, soon), reasons).map(lambda drawn: rejected(*drawn)), max_size=8
)


def _row(message: Message, key: str, verdict: str) -> Row:
    type, event, receive = message
    return {"key": key, "type": type, "event_time": event, "receive_time": receive, "verdict": verdict}


def _message(text: str) -> Message:
    type, times = text.split(":")
    event, receive = times.split("@")
    return type, BASE_US + int(event) * MS, BASE_US + int(receive) * MS
