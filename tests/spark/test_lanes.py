"""What runs in a worker, without Spark around it: epochs, replays and crashes of one lane and of several."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import BatchRules, Measurement
from batchline.columnar.assign import ADDED
from batchline.columnar.names import Names
from batchline.columnar.stream import KEYS
from batchline.errors import InvalidCheckpoint
from batchline.spark.epoch_files import Directory, EpochFiles, place_of
from batchline.spark.frames import TIE
from batchline.spark.lane_state import LaneState
from batchline.spark.lanes import LANE, MARKED, LaneTask, Time
from tests.columnar.test_agreement import table_of
from tests.columnar.test_stream import NAMES, cut_streams, shown, whole
from tests.core.streams import batch_rules, us

LANES = 2
WORDS = ("verdict", "batch_id", "close_reason")
FULL = os.environ.get("BATCHLINE_TEST_PROFILE") == "full"


def lane(key: str) -> int:
    return ord(key[0]) % LANES


def in_lane(rows: pa.Table, number: int) -> pa.RecordBatch:
    """The rows of a lane, and its mark."""
    own = rows.filter(pa.array([lane(key) == number for key in rows.column("key").to_pylist()], pa.bool_()))
    mark = pa.table({field.name: pa.nulls(1, field.type) for field in rows.schema})
    both = pa.concat_tables([own, mark])
    marked = both.append_column(LANE, pa.array([number] * own.num_rows + [number + MARKED], pa.int32()))
    return marked.combine_chunks().to_batches()[0]


class Stream:
    """Epochs of a stream, with as little around them as can be."""

    def __init__(self, rules: BatchRules, state: Path, skew: int = 0, names: Names = NAMES) -> None:
        self.rules, self.state, self.skew, self.names = rules, str(state), skew, names

    def epoch(self, number: int, rows: pa.Table, flush: bool = False) -> pa.Table:
        """What an epoch hands out."""
        highest = max(self.state_of(at, number).left.highest_us for at in range(LANES))
        task = LaneTask(self.rules, self.names, self.state, Time(self.skew, highest, None, flush), number)
        return pa.concat_tables(
            pa.Table.from_batches(task(iter([in_lane(rows, at)])), schema_of(rows)) for at in range(LANES)
        )

    def state_of(self, at: int, before: int) -> LaneState:
        return LaneState(EpochFiles(Directory(self.state), place_of(at), before))


def schema_of(rows: pa.Table) -> pa.Schema:
    moment, text = pa.timestamp("us", "UTC"), pa.string()
    came = [field for field in rows.schema if field.name != TIE]
    return pa.schema([*came, *(pa.field(name, text if name in WORDS else moment) for name in ADDED)])


def pieces(table: pa.Table, cuts: list[int]) -> Iterator[pa.Table]:
    for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        yield table.slice(begin, end - begin)


@given(batch_rules(), cut_streams(), st.data())
def test_a_stream_in_epochs_some_of_them_replayed_gives_what_the_whole_gives(
    tmp_path_factory: pytest.TempPathFactory,
    rules: BatchRules,
    stream: tuple[list[Measurement], list[int], int],
    data: st.DataObject,
) -> None:
    messages, cuts, skew = stream
    table = table_of(messages)
    lived = Stream(rules, tmp_path_factory.mktemp("state"), skew)
    out, number = [], 0
    for number, rows in enumerate(pieces(table, cuts)):
        handed_out = lived.epoch(number, rows)
        if data.draw(st.booleans(), label="replayed"):
            # The driver died before it had noted that the epoch was done: it comes again, in another order.
            back = rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
            files = written(lived.state)
            assert shown(lived.epoch(number, back)) == shown(handed_out)
            assert written(lived.state) == files
        out.append(handed_out)
    out.append(lived.epoch(number + 1, table.slice(0, 0), flush=True))
    assert shown(pa.concat_tables(out)) == shown(whole(rules, table))


def written(state: str) -> dict[str, bytes]:
    """All files, byte by byte."""
    return {str(path): path.read_bytes() for path in Path(state).rglob("*") if path.is_file()}


def fleet(keys: range, at: int) -> pa.Table:
    return table_of([Measurement.from_us(f"A{key}", "x", at, at, key, 1) for key in keys])


def test_the_state_follows_the_keys_that_are_active_not_those_that_were(tmp_path: Path) -> None:
    """So many keys at a time, and other ones each time: what is on disk stays as large as it was in the beginning."""
    stream, sizes = Stream(BatchRules(), tmp_path), []
    active, epochs = (1_000, 1_000) if FULL else (100, 200)
    for epoch in range(epochs):
        at = 1_800_000_000_000_000 + epoch * 1_000_000
        stream.epoch(epoch, fleet(range(epoch * active, epoch * active + active), at))
        sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
    assert max(sizes[epochs // 2 :]) <= 1.1 * max(sizes[: epochs // 4])


def test_an_epoch_writes_the_keys_that_changed_and_not_all_that_are_held(tmp_path: Path) -> None:
    long_open = BatchRules(window=us(10**12))
    stream = Stream(long_open, tmp_path)
    stream.epoch(0, fleet(range(10_000), 1_800_000_000_000_000))
    for epoch in range(1, 40):
        at = 1_800_000_000_000_000 + epoch
        stream.epoch(epoch, table_of([Measurement.from_us("A7", f"t{epoch}", at, at, 0, 1)]))
        # In the first of these the 10,000 rows, which waited, are taken in.
        newest = tmp_path / "lane-0001" / f"{epoch:06}.rows.arrow"
        assert epoch == 1 or newest.stat().st_size < 20_000
    segments = stream.state_of(1, 40).segments
    assert len(segments) < 10
    assert segments[0].held.rows.num_rows >= 10_000
    assert segments[0].held.keys.schema == KEYS


def test_what_is_left_behind_by_a_crash_is_neither_read_nor_in_the_way(tmp_path: Path) -> None:
    stream = Stream(BatchRules(), tmp_path)
    stream.epoch(0, fleet(range(10), 1_800_000_000_000_000))
    # A segment whose json was never written, and a file half written.
    for name in ("000001.rows.arrow", "000001.keys.arrow", ".000001.json.ab12cd34"):
        (tmp_path / "lane-0001" / name).write_bytes(b"half")
    assert stream.state_of(1, 2).files.before == 0
    handed_out = stream.epoch(1, fleet(range(10, 20), 1_800_000_002_000_000))
    assert sorted(handed_out.column("number").to_pylist()) == list(range(10))


def test_a_state_from_before_ties_had_a_column_is_continued(tmp_path: Path) -> None:
    stream = Stream(BatchRules(), tmp_path)
    stream.epoch(0, fleet(range(10), 1_800_000_000_000_000))
    stream.names = replace(NAMES, last=(TIE,))
    handed_out = []
    for epoch, at in ((1, 1_800_000_000_000_001), (2, 1_800_000_002_000_000)):
        rows = fleet(range(epoch * 5, epoch * 5 + 10), at)
        handed_out += stream.epoch(epoch, rows.append_column(TIE, pa.array(range(10), pa.int64()))).to_pylist()
    # Of A5 to A9 epoch 1 brings a second reading, a microsecond younger.
    assert sorted(row["number"] for row in handed_out) == sorted([*range(10), *range(5, 15)])


def test_the_state_of_another_query_is_refused(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    state = LaneState(EpochFiles(directory, place_of(0), 0, query="first"))
    state.write(state.held(*nothing_asked()), state.left)
    with pytest.raises(InvalidCheckpoint, match="belongs to the query first, not to second"):
        EpochFiles(directory, place_of(0), 1, query="second")


def nothing_asked() -> Any:
    import numpy as np

    from batchline.columnar.stream import Move

    return np.empty(0, np.uint64), pa.array([], pa.string()), Move(0, 0), pa.schema([("key", pa.string())])
