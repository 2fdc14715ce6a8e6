"""A stream in lanes: what runs in a Python worker when a micro-batch has come.

    rows of a lane ──┐
    what it holds ───┼──► take_rows ──► rows whose fate is known ──► on
    ticks ───────────┘         └──► what it holds now ──► files (lane_state)

A lane is told by its rows, by a tick or by a mark, never by the partition it happens to run in: whoever goes on with
the DataFrame may coalesce, union or take of it what they like.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import MOMENT, codes_of
from batchline.columnar.hashing import hash_keys
from batchline.columnar.names import Names
from batchline.columnar.stream import Held, Move, Outcome, take_rows
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import BEFORE_ALL_US
from batchline.spark.epoch_files import Directory, EpochFiles, place_of
from batchline.spark.frames import TIE
from batchline.spark.lane_state import LaneState, Left

__all__ = ["LANE", "MARKED", "LaneTask", "Time", "epoch_of_task", "lanes_of_epoch"]

#: The lane of a row.
LANE: Final = "batchline_lane"
#: So much is added where there is no row but a mark: that the lane is there, or, by its receive time, a tick.
MARKED: Final = 10_000
#: What Spark tells the tasks of a micro-batch about it.
EPOCH_PROPERTY: Final = "streaming.sql.batchId"
QUERY_PROPERTY: Final = "sql.streaming.queryId"


class Time(NamedTuple):
    """What is known of a stream's time beside its rows."""

    #: How far out of receive order rows may come.
    skew_us: int = 0
    #: The largest receive time that any lane had seen before this epoch; None if each goes by its own.
    highest_us: int | None = None
    #: The watermark, where the driver knows it.
    watermark_us: int | None = None
    #: Whether the input has ended.
    flush: bool = False


class LaneTask(NamedTuple):
    """What is done with the rows of a lane in an epoch; sent to the workers."""

    rules: BatchRules
    names: Names
    state: str
    time: Time
    #: The epoch; None where Spark tells it, in a streaming DataFrame that somebody goes on with.
    epoch: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the rows of a partition in and give out those whose fate is known, with ADDED."""
        for _, files, marks, rows in lanes_of_epoch(batches, self.state, self.epoch):
            taken = self._step(LaneState(files), marks, rows)
            yield from _as_they_came(taken.rows).to_batches(max_chunksize=65_536)

    def _step(self, state: LaneState, marks: pa.Table, rows: pa.Table) -> Outcome:
        highest_us, move = self._move(state.left, marks, rows)
        held, rows = self._held(state, rows, move)
        taken = take_rows(self.rules, self.names, held, rows, move)
        counts = _counted(state.left.counts, rows.num_rows, taken)
        # A state from before they were counted has more than it says.
        opened = max(state.left.open_batches + taken.opened, 0)
        left = Left(watermark_us=move.watermark_us, highest_us=highest_us, counts=counts, open_batches=opened)
        state.write(taken.held, left)
        return taken

    def _held(self, state: LaneState, rows: pa.Table, move: Move) -> tuple[Held, pa.Table]:
        """What is held of the rows' keys and of those that are due; and the rows, with their keys as a dictionary."""
        codes, keys = codes_of(self.names.view(rows), "key")
        held = state.held(hash_keys(keys), keys, move, rows.schema)
        words = pa.DictionaryArray.from_arrays(pa.array(codes), keys)
        return held, rows.set_column(rows.column_names.index(self.names.key), self.names.key, words)

    def _move(self, left: Left, marks: pa.Table, rows: pa.Table) -> tuple[int, Move]:
        """The largest receive time so far, ticks included, and how the watermark moves."""
        seen = (_latest(table.column(self.names.receive_time)) for table in (marks, rows))
        known = (left.highest_us, self.time.highest_us, *seen)
        highest_us = max(at for at in known if at is not None)
        watermark_us = self.time.watermark_us
        if self.time.flush:
            watermark_us = highest_us
        elif watermark_us is None:
            watermark_us = max(highest_us - self.time.skew_us, BEFORE_ALL_US)
        return highest_us, Move(left.watermark_us, max(watermark_us, left.watermark_us), self.time.flush)


def _as_they_came(rows: pa.Table) -> pa.Table:
    """The rows without the column that decided ties."""
    return rows.drop_columns([TIE]) if TIE in rows.column_names else rows


def _latest(times: pa.ChunkedArray) -> int | None:
    latest: int | None = pc.max(times.cast(pa.int64())).as_py()
    return latest


def _counted(counts: dict[str, int], came: int, taken: Outcome) -> dict[str, int]:
    """The counts of before and those of this step."""
    new = {"read": came, "behind_watermark": taken.behind, "batches": taken.closed}
    for row in pc.value_counts(taken.rows.column("verdict")).to_pylist():
        new[row["values"]] = row["counts"]
    return {name: counts.get(name, 0) + new.get(name, 0) for name in sorted(counts | new)}


def lanes_of_epoch(
    batches: Iterator[pa.RecordBatch], state: str, epoch: int | None
) -> Iterator[tuple[int, EpochFiles, pa.Table, pa.Table]]:
    """Each lane of a partition: its number, its files, its marks and its rows. Where no epoch is given, Spark's."""
    parts = list(batches)
    if parts:
        directory = Directory(state)
        epoch, query = (epoch, None) if epoch is not None else epoch_of_task()
        for lane, marks, rows in _in_lanes(pa.Table.from_batches(parts)):
            yield lane, EpochFiles(directory, place_of(lane), epoch, query), marks, rows


def _in_lanes(table: pa.Table) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Lanes, their marks and their rows, without the column that tells them."""
    table = pa.table({name: _in_utc(table.column(name)) for name in table.column_names})
    told = table.column(LANE).to_numpy()
    rows = table.drop_columns([LANE])
    for lane in np.unique(told % MARKED).tolist():
        yield lane, rows.filter(pa.array(told == lane + MARKED)), rows.filter(pa.array(told == lane))


def _in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Moments in UTC, whatever the zone of the session that runs today."""
    return column.cast(MOMENT) if pa.types.is_timestamp(column.type) and column.type.tz else column


def epoch_of_task() -> tuple[int, str | None]:
    """The epoch and the query that the task at hand belongs to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    epoch = context.getLocalProperty(EPOCH_PROPERTY) if context else None
    if context is None or epoch is None:
        raise RuntimeError("a stream's lanes run in a streaming query only; outside one there is no epoch")
    return int(epoch), context.getLocalProperty(QUERY_PROPERTY)
