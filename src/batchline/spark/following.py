"""Stage 1 on a streaming DataFrame: `stream_frame` to go on with it, `follow` to end in a sink of one's own.

micro-batch ──► lanes by key ──► LaneTask ──► rows whose fate is known ──► each(rows, epoch)
     ▲               ▲               └──► what is held, in files beside the checkpoint
     └── ticks ──────┴── a mark for every lane: those without rows move on too
"""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from batchline.columnar.assign import ADDED, check_rules
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.epoch import StreamState
from batchline.core.moment import span_us
from batchline.core.watermark import watermark_us
from batchline.errors import InvalidInput, InvalidTable, check_choice
from batchline.spark import checkpoint as checkpoints
from batchline.spark.batching import ASSIGNED
from batchline.spark.epoch_files import LAST_EPOCH, Directory, EpochFiles, place_of
from batchline.spark.frames import TIE, check_lanes, check_span, checked_names, fields_of, quoted, tied
from batchline.spark.lane_state import Left
from batchline.spark.lanes import LANE, MARKED, LaneTask, Time
from batchline.spark.marks import by_lane, every_lane, marked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = [
    "ABOUT",
    "EVERY_SECOND",
    "NO_VERDICTS",
    "Each",
    "Following",
    "Pace",
    "Pack",
    "Stopped",
    "about_batches",
    "stream_frame",
]

#: Counts of a stream that are of no row's fate.
NO_VERDICTS: Final = ("read", "batches", "behind_watermark")
#: Given the rows whose fate an epoch has decided, and its number. A repeated epoch brings the same rows.
Each = Callable[["DataFrame", int], None]
#: Makes parcels of the rows of an epoch: given them, where to hold the rest, the epoch, whether it is the last, and
#: what the clock shows, where that counts.
Pack = Callable[["DataFrame", str, int, bool, int | None], "DataFrame"]
CLOCKS: Final = ("data", "wall")
#: What is asked of a stream's trigger unless somebody asks for something else.
EVERY_SECOND: Final = {"processingTime": "1 second"}
NO_SPAN: Final = timedelta(0)
BETWEEN_CHECKS_S: Final = 0.02
WATERMARK: Final = "watermark"
#: The name of what stage 2 must know, in the metadata of a column.
ABOUT: Final = "batchline"


class Stopped(Exception):
    """Raised by `each`: somebody has asked to stop before this epoch began."""


class Pace:
    """How a stream's time moves on: by its rows, by the clock on the wall, by partitions of its source."""

    def __init__(
        self,
        skew: timedelta = NO_SPAN,
        idle: timedelta | None = None,
        clock: str = "data",
        partition: str | None = None,
    ) -> None:
        check_span("skew", skew)
        if idle is not None:
            check_span("idle", idle)
        check_choice("clock", clock, CLOCKS, InvalidInput)
        if idle is not None and partition is None:
            raise InvalidInput("idle is about partitions of the source: name the column that tells them, partition=…")
        self.skew_us, self.idle_us = span_us(skew), None if idle is None else span_us(idle)
        self.clock, self.partition = clock, partition


def stream_frame(
    df: "DataFrame", rules: BatchRules, names: Names, pace: Pace, state: str, lanes: int | None
) -> "DataFrame":
    """The rows of a stream, each once its fate is known, as a streaming DataFrame to go on with."""
    if pace.partition is not None:
        raise InvalidInput("partition= needs follow(…): a streaming DataFrame has nobody who knows all its partitions")
    lanes = _agree(df, rules, names, state, lanes)
    rows, names = tied(df, names)
    task = LaneTask(rules, names, Directory(state).uri, Time(pace.skew_us))
    every = marked(rows, names.key, names.receive_time, lanes, pace.clock)
    return by_lane(every, lanes).mapInArrow(task.__call__, _schema(df, rules, names.key, lanes))


def _agree(df: "DataFrame", rules: BatchRules, names: Names, state: str, lanes: int | None) -> int:
    """Check what is asked for, also against what the state was made with; the number of lanes."""
    check_rules(rules)
    checked_names(df, names, rules.max_bytes, (*ADDED, LANE, TIE))
    check_lanes(lanes)
    columns = {field.name: field.dataType.simpleString() for field in df.schema}
    settings = {"rules": rules.as_data(), "names": names.as_data(), "columns": columns}
    default = df.sparkSession.sparkContext.defaultParallelism
    return checkpoints.agree(Directory(state), settings, lanes, default)


def _schema(df: "DataFrame", rules: BatchRules, key: str, lanes: int) -> "StructType":
    """The columns of the rows whose fate is known; on `batch_id` stands what stage 2 must know of how they came."""
    from pyspark.sql.types import StructField, StructType

    about = about_batches(rules, key, lanes)
    added = [
        StructField(field.name, field.dataType, True, about if field.name == "batch_id" else None)
        for field in fields_of(ASSIGNED)
    ]
    own = [StructField(field.name, field.dataType, True, field.metadata) for field in df.schema]
    return StructType([*own, *added])


def about_batches(rules: BatchRules, key: str, lanes: int) -> dict[str, Any]:
    """What stage 2 must know of how rows come, as the metadata of their `batch_id`."""
    return {ABOUT: {"lag_us": rules.window_us + rules.max_delay_us, "lanes": lanes, "key": key}}


class Following:
    """A stream that is being followed, into a sink."""

    def __init__(
        self,
        df: "DataFrame",
        rules: BatchRules,
        names: Names,
        pace: Pace,
        each: Each,
        checkpoint: str,
        lanes: int | None,
        pack: "Pack | None" = None,
    ) -> None:
        if pace.partition is not None and pace.partition not in df.columns:
            raise InvalidTable(f"partition={pace.partition!r}: the DataFrame has no such column")
        self.rules, self.pace, self.each, self.pack = rules, pace, each, pack
        self.checkpoint = Directory(checkpoint).uri
        self.state = Directory(f"{self.checkpoint}/batchline")
        self.lanes = _agree(df, rules, names, self.state.uri, lanes)
        self.rows, self.names = tied(df, names)
        # The same in every epoch, and dear to make.
        self.every_lane = every_lane(self.rows, self.lanes)
        self.schema = _schema(df, rules, names.key, self.lanes)
        self.query: StreamingQuery | None = None

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Start the query, or go on from its checkpoint; not if the input has ended before."""
        if checkpoints.is_finished(self.state) is not None:
            return
        stream = self._marked(self.rows, self.pace.clock)
        writer = stream.writeStream.foreachBatch(self._step).option("checkpointLocation", self.checkpoint)
        self.query = writer.trigger(**trigger).start()

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until the query has ended, or so many seconds; whether it has. An error in it is raised here."""
        if self.query is None:
            return True
        ended = self.query.awaitTermination(timeout)
        return timeout is None or bool(ended)

    def stop(self) -> None:
        """Stop following; what is open stays in the state, and the next start goes on from there."""
        if self.query is not None:
            self.query.stop()

    def stop_between_epochs(self) -> None:
        """Stop while nothing runs: interrupted, Spark 4.3 can overflow its stack on its way out, and print it.

        An epoch that begins all the same is to be refused by `each`, with Stopped; it is run at the next start.
        """
        query, pause = self.query, threading.Event()
        while query is not None and query.isActive:
            if not query.status["isTriggerActive"]:
                query.stop()
            pause.wait(BETWEEN_CHECKS_S)
        failed = query.exception() if query is not None else None
        if failed is not None and Stopped.__name__ not in str(failed):
            self.wait()

    def finish(self) -> None:
        """Wait until the query has ended and hand out all that is open: the input has ended, nothing follows."""
        self.wait()
        epoch = checkpoints.is_finished(self.state)
        if epoch is None:
            epoch = max(files.before for files in self._files()) + 1
            checkpoints.finish(self.state, epoch)
        nothing = self.rows.sparkSession.createDataFrame([], self.rows.schema)
        time = Time(highest_us=self._highest(self._left(epoch)), flush=True)
        self._hand_out(self._marked(nothing, "data"), epoch, time)

    def summary(self) -> dict[str, int]:
        """What has come since the stream began, and what became of it."""
        counts: dict[str, int] = {}
        for left in self._left():
            for name, count in left.counts.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def held(self) -> StreamState:
        """What it holds now: open batches, their rows, and the files that all of it is in."""
        left, counts = self._left(), self.summary()
        decided = sum(count for name, count in counts.items() if name not in NO_VERDICTS)
        return StreamState(
            counts.get("read", 0) - decided,
            sum(one.open_batches for one in left),
            sum(one.size for one in left),
            self.state.size(),
        )

    def _step(self, batch: "DataFrame", epoch: int) -> None:
        left = self._left(epoch)
        time = Time(self.pace.skew_us, self._highest(left), self._watermark(batch, epoch))
        self._hand_out(batch, epoch, time)

    def _marked(self, df: "DataFrame", clock: str) -> "DataFrame":
        return marked(df, self.names.key, self.names.receive_time, self.lanes, clock)

    def _hand_out(self, rows: "DataFrame", epoch: int, time: Time) -> None:
        task = LaneTask(self.rules, self.names, self.state.uri, time, epoch)
        every = by_lane(rows.unionByName(self.every_lane), self.lanes)
        rows = every.mapInArrow(task.__call__, self.schema)
        state = Directory(f"{self.state.uri}/parcels")
        if self.pack is not None:
            rows = self.pack(rows, state.uri, epoch, time.flush, None)
        self.each(rows, epoch)
        written = self._files(epoch + 1)
        if self.pack is not None:
            written += [EpochFiles(state, place_of(lane), epoch + 1) for lane in range(self.lanes)]
        if any(files.before != epoch for files in written):
            # What it was given was not read to the end, by a `take` for instance: the state must go on all the same.
            rows.write.format("noop").mode("overwrite").save()

    def _files(self, before: int = LAST_EPOCH) -> list[EpochFiles]:
        """What the last epoch before this one left of each lane."""
        return [EpochFiles(self.state, place_of(lane), before) for lane in range(self.lanes)]

    def _left(self, before: int = LAST_EPOCH) -> list[Left]:
        return [Left.read(files.notes) for files in self._files(before)]

    def _highest(self, left: list[Left]) -> int:
        return max(one.highest_us for one in left)

    def _watermark(self, batch: "DataFrame", epoch: int) -> int | None:
        """The watermark over the source's partitions, where they are told apart."""
        if self.pace.partition is None:
            return None
        from pyspark.sql import functions as sf

        files = EpochFiles(self.state, WATERMARK, epoch)
        largest = sf.unix_micros(sf.max(quoted(self.names.receive_time)))
        is_mark = (sf.col(LANE) >= MARKED).alias("mark")
        found = batch.groupBy(is_mark, sf.col(quoted(self.pace.partition)).cast("string")).agg(largest).collect()
        highest: dict[str, int] = dict(files.notes.get("highest", {}))
        for _, partition, at in (row for row in found if not row[0] and row[2] is not None):
            highest[str(partition)] = max(at, highest.get(str(partition), at))
        # A tick speaks for all partitions: what is stamped on the spot has come.
        ticked = max((row[2] for row in found if row[0] and row[2] is not None), default=None)
        if ticked is not None:
            highest = {partition: max(at, ticked) for partition, at in highest.items()}
        files.write({}, {"highest": highest})
        return watermark_us(highest, self.pace.skew_us, self.pace.idle_us)
