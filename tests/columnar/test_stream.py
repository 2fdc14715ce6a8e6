"""A stream cut into pieces, anywhere and in any order within the skew, gives what the whole gives."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import BatchRules, Measurement
from batchline.columnar.assign import ADDED, answer, with_answers
from batchline.columnar.names import Names
from batchline.columnar.stream import Held, Move, take_rows
from batchline.core.moment import AFTER_ALL_US, BEFORE_ALL_US
from tests.columnar.test_agreement import long_stream, table_of
from tests.core.streams import batch_rules, streams, us

NAMES = Names(size="size", order=("number",))


def shown(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.sort_by("number").to_pylist()
    return rows


def whole(rules: BatchRules, table: pa.Table) -> pa.Table:
    """All at once, complete up to the last row received."""
    until = pc.max(table.column("receive_time").cast(pa.int64())).as_py()
    view = NAMES.view(table)
    return with_answers(table, answer(view, rules, NAMES, BEFORE_ALL_US if until is None else until))


def in_pieces(rules: BatchRules, table: pa.Table, cuts: list[int], skew: int) -> pa.Table:
    """Piece by piece; after the last one the input has ended."""
    held, out, before = Held.nothing(table.schema), [], BEFORE_ALL_US
    highest, opened = BEFORE_ALL_US, 0
    for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        piece = table.slice(begin, end - begin)
        if piece.num_rows:
            highest = max(highest, pc.max(piece.column("receive_time").cast(pa.int64())).as_py())
        watermark = max(before, highest - skew) if highest > BEFORE_ALL_US else BEFORE_ALL_US
        taken = take_rows(rules, NAMES, held, piece, Move(before, watermark))
        assert taken.behind == 0
        check_held(taken.held, watermark)
        opened += taken.opened
        assert opened == len(open_batches(taken.held))
        out.append(taken.rows)
        held, before = only_kept(taken.held), watermark
    taken = take_rows(rules, NAMES, held, table.slice(0, 0), Move(before, highest, flush=True))
    assert taken.held.rows.num_rows == 0
    assert opened + taken.opened == 0
    return pa.concat_tables([*out, taken.rows])


def open_batches(held: Held) -> set[tuple[Any, ...]]:
    names = (held.rows.column(name).to_pylist() for name in ("key", "open_start", "open_ordinal"))
    return {(key, start, ordinal) for key, start, ordinal in zip(*names, strict=True) if start is not None}


def only_kept(held: Held) -> Held:
    """Without the keys that are held no more."""
    ends = held.keys.column("end").to_pylist()
    live = [end > begin for begin, end in zip([0, *ends], ends, strict=False)]
    return Held(held.keys.filter(pa.array(live, pa.bool_())), held.rows)


def check_held(held: Held, watermark: int) -> None:
    """Whatever is held has something to do later, and each key's rows are its own."""
    begin = 0
    for row in held.keys.to_pylist():
        keys = set(held.rows.slice(begin, row["end"] - begin).column("key").to_pylist())
        assert keys <= {row["key"]}
        assert row["wake"] > watermark
        begin = row["end"]
    assert begin == held.rows.num_rows
    assert held.keys.column("hash").to_pylist() == sorted(held.keys.column("hash").to_pylist())


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[Measurement], list[int], int]:
    """Messages in the order in which they come, at most `skew` out of receive order, and where they are cut."""
    messages = draw(streams(keys="ABC", in_order=True))
    skew = draw(st.sampled_from([0, 3, 40]))
    late = draw(st.lists(st.integers(0, skew), min_size=len(messages), max_size=len(messages)))
    comes = sorted(range(len(messages)), key=lambda at: messages[at].receive_us + late[at])
    cuts = sorted(draw(st.lists(st.integers(0, len(messages)), max_size=8)))
    return [messages[at] for at in comes], cuts, skew


@given(batch_rules(), cut_streams())
def test_the_cut_cannot_be_told_from_the_result(
    rules: BatchRules, stream: tuple[list[Measurement], list[int], int]
) -> None:
    messages, cuts, skew = stream
    table = table_of(messages)
    assert shown(in_pieces(rules, table, cuts, skew)) == shown(whole(rules, table))


@pytest.mark.parametrize("max_bytes", [None, 25])
@pytest.mark.parametrize(("anchor", "split"), [("arrival", "later"), ("lookback", "later"), ("event", "midpoint")])
@pytest.mark.parametrize("keys", [1, 300])
def test_long_streams_in_many_pieces(keys: int, anchor: str, split: str, max_bytes: int | None) -> None:
    rules = BatchRules(us(700), us(900), us(200), max_bytes, anchor, split)
    table = table_of(long_stream(keys, 20_000, keys, 40, 1_500, 9))
    cuts = list(range(0, 20_000, 1_234))
    assert shown(in_pieces(rules, table, cuts, 0)) == shown(whole(rules, table))


def test_rows_behind_the_watermark_are_taken_at_it_and_counted() -> None:
    rules = BatchRules(us(50), us(40), us(40))
    stream = [Measurement.from_us("A", "x", 1000, 1000, 0, 1), Measurement.from_us("A", "y", 1001, 1001, 1, 1)]
    first = take_rows(
        rules, NAMES, Held.nothing(table_of(stream).schema), table_of(stream[:1]), Move(BEFORE_ALL_US, 1020)
    )
    second = take_rows(rules, NAMES, first.held, table_of(stream[1:]), Move(1020, 1020))
    assert second.behind == 1
    last = take_rows(rules, NAMES, second.held, table_of([]), Move(1020, AFTER_ALL_US))
    assert last.rows.column("batch_id").to_pylist() == ["A@960", "A@960"]
    assert last.rows.column_names[-len(ADDED) :] == list(ADDED)
