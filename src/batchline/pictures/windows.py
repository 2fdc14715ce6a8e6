"""What one key's picture shows: its windows, their messages and the rejected ones, as plain numbers to be drawn."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import MOMENT
from batchline.core.batch import Verdict
from batchline.errors import InvalidInput, InvalidTable

__all__ = ["Bar", "Counts", "Dot", "Hidden", "Rejected", "WindowsPicture", "picture_of", "reach_us", "typical_us"]

TEXTS = ("key", "type", "verdict", "batch_id", "close_reason")
TIMES = ("event_time", "receive_time", "batch_start", "batch_end", "closed_at")
REASONS = tuple(verdict.value for verdict in Verdict if not verdict.accepted)
#: One batch rarely has more; a picture of thousands of dots would show nothing but ink.
DOTS_PER_BAR = 200
#: A broken device may have every message rejected: as many as tell the story, the rest is counted.
REJECTED_PER_BATCH = 10
#: Where there is no batch: the axis around a single rejected message, and how many median distances are far away.
LONE_AXIS_US = 1_000_000
FAR = 5


@dataclass(frozen=True, slots=True)
class Dot:
    """A message in its batch."""

    type: str
    event_us: int
    receive_us: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message in no batch, and the reason."""

    type: str
    event_us: int
    receive_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A batch: its window `[start_us, end_us)`, when and why it closed, and its messages."""

    id: str
    start_us: int
    end_us: int
    closed_at_us: int
    close_reason: str
    #: All its messages are counted; the dots are the first `DOTS_PER_BAR` of them, in order of event time, then type.
    members: int
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the key has in all, shown or not."""

    batches: int
    batched: int
    #: (reason, messages), in order of the reason's name.
    rejected: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What was left out of the picture."""

    batches: int
    batched: int
    rejected: int


@dataclass(frozen=True, slots=True)
class WindowsPicture:
    """One key's windows on a time axis, before anything is drawn."""

    key: str
    #: The axis follows the batches: a rejected message may lie far outside.
    first_us: int
    last_us: int
    #: In order of start.
    bars: tuple[Bar, ...]
    #: In order of receipt.
    rejected: tuple[Rejected, ...]
    counts: Counts
    hidden: Hidden


def picture_of(table: pa.Table, key: str, *, limit: int = 40) -> WindowsPicture:
    """The picture of a key after `assign_batches`: its first `limit` batches, and what was rejected meanwhile."""
    if limit < 1:
        raise InvalidInput(f"expected a limit of at least 1 batch, got {limit}")
    rows = _rows_of(table, key)
    in_batch = pc.is_in(rows["verdict"], value_set=pa.array([Verdict.BATCHED.value]))
    batched, others = rows.filter(in_batch), rows.filter(pc.invert(in_batch))
    batches = _batches_of(batched)
    bars = tuple(_bars_of(batched, batches.slice(0, limit)))
    every_batch = batches.num_rows == len(bars)
    rejected = _rejected_of(others, None if every_batch else _axis_of(bars, ())[1], limit * REJECTED_PER_BATCH)
    first_us, last_us = _axis_of(bars, rejected)
    counts = Counts(batches.num_rows, batched.num_rows, _reasons_of(others))
    shown = sum(len(bar.dots) for bar in bars)
    hidden = Hidden(counts.batches - len(bars), counts.batched - shown, others.num_rows - len(rejected))
    return WindowsPicture(key, first_us, last_us, bars, rejected, counts, hidden)


def typical_us(bars: Iterable[Bar]) -> int:
    """The length of a typical window: the one to be drawn readably. At least 1."""
    return max(1, median_low([bar.end_us - bar.start_us for bar in bars]))


def reach_us(bar: Bar, typical: int) -> int:
    """How far a batch wants to be drawn: to its close; of a wait longer than a window only the beginning."""
    wait = bar.closed_at_us - bar.end_us
    return bar.end_us + max(0, wait if wait <= typical else typical // 4)


def _rows_of(table: pa.Table, key: str) -> pa.Table:
    missing = [name for name in (*TEXTS, *TIMES) if name not in table.column_names]
    if missing:
        raise InvalidTable(f"expected a table after assign_batches, without the columns {', '.join(missing)}")
    texts = {name: table[name].cast(pa.string()) for name in TEXTS}
    times = {name: table[name].cast(MOMENT).cast(pa.int64()) for name in TIMES}
    rows = pa.table({**texts, **times})
    return rows.filter(pc.equal(rows["key"], pa.scalar(key)))


def _batches_of(batched: pa.Table) -> pa.Table:
    """One row per batch in order of start; batches of one start differ in the number behind it, .2 before .10."""
    named = batched.append_column("id_length", pc.utf8_length(batched["batch_id"]))
    names = ["batch_id", "id_length", "batch_start", "batch_end", "closed_at", "close_reason"]
    batches = named.group_by(names, use_threads=False).aggregate([([], "count_all")])
    return batches.sort_by([(name, "ascending") for name in ("batch_start", "id_length", "batch_id")])


def _bars_of(batched: pa.Table, batches: pa.Table) -> Iterator[Bar]:
    members = batched.filter(pc.is_in(batched["batch_id"], value_set=batches["batch_id"].combine_chunks()))
    dots: defaultdict[str, list[Dot]] = defaultdict(list)
    for row in members.sort_by([("event_time", "ascending"), ("type", "ascending")]).to_pylist():
        dots[row["batch_id"]].append(Dot(row["type"], row["event_time"], row["receive_time"]))
    for batch in batches.to_pylist():
        yield _bar_of(batch, dots[batch["batch_id"]])


def _bar_of(batch: dict[str, Any], dots: Sequence[Dot]) -> Bar:
    return Bar(
        id=batch["batch_id"],
        start_us=batch["batch_start"],
        end_us=batch["batch_end"],
        closed_at_us=batch["closed_at"],
        close_reason=batch["close_reason"],
        members=len(dots),
        dots=tuple(dots[:DOTS_PER_BAR]),
    )


def _rejected_of(others: pa.Table, until_us: int | None, most: int) -> tuple[Rejected, ...]:
    """A rejected message belongs to the moment of its receipt: its event time may be anything."""
    if until_us is not None:
        others = others.filter(pc.less_equal(others["receive_time"], pa.scalar(until_us)))
    rows = others.sort_by("receive_time").slice(0, most).to_pylist()
    return tuple(Rejected(row["type"], row["event_time"], row["receive_time"], row["verdict"]) for row in rows)


def _reasons_of(others: pa.Table) -> tuple[tuple[str, int], ...]:
    counts = others.group_by("verdict", use_threads=False).aggregate([([], "count_all")]).sort_by("verdict")
    reasons = {row["verdict"]: row["count_all"] for row in counts.to_pylist()}
    if unknown := set(reasons) - set(REASONS):
        raise InvalidTable(f"expected the verdict batched, {', '.join(REASONS)}, got {', '.join(map(str, unknown))}")
    return tuple(reasons.items())


def _axis_of(bars: Sequence[Bar], rejected: Sequence[Rejected]) -> tuple[int, int]:
    if bars:
        typical = typical_us(bars)
        return bars[0].start_us, max(reach_us(bar, typical) for bar in bars)
    if rejected:
        return _fence([message.event_us for message in rejected])
    return 0, 0


def _fence(values: Sequence[int]) -> tuple[int, int]:
    """Where most values lie, without the far outliers; never empty."""
    middle = median_low(values)
    # The median distance tells how wide "most" is, however far away the others are.
    slack = max(FAR * median_low([abs(value - middle) for value in values]), LONE_AXIS_US // 2)
    near = [value for value in values if abs(value - middle) <= slack]
    room = (max(near) - min(near)) // 20 or LONE_AXIS_US // 2
    return min(near) - room, max(near) + room
