"""Stage 1 on a streaming DataFrame: `stream_frame` to go on with it, `follow` to end in a sink of one's own.

    micro-batch ──► lanes by key ──► LaneTask ──► rows whose fate is known ──► each(rows, epoch)
         ▲               ▲               └──► what is held, in files beside the checkpoint
         └── ticks ──────┴── a mark for every lane: those without rows move on too
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from batchline.columnar.assign import ADDED, check_rules
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import span_us
from batchline.core.watermark import watermark_us
from batchline.errors import InvalidInput, InvalidTable, did_you_mean
from batchline.spark import checkpoint as checkpoints
from batchline.spark.batching import ASSIGNED
from batchline.spark.frames import checked_names, lane_of
from batchline.spark.epoch_files import Directory, EpochFiles
from batchline.spark.lane_state import Left
from batchline.spark.lanes import LANE, MARK, LaneTask, Time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Each", "Following", "Pace", "follow_frame", "stream_frame"]

#: Given the rows whose fate an epoch has decided, and its number. A repeated epoch brings the same rows.
Each = Callable[["DataFrame", int], None]
CLOCKS: Final = ("data", "wall")
#: What is asked of a stream's trigger unless somebody asks for something else.
EVERY_SECOND: Final = {"processingTime": "1 second"}
NO_SPAN: Final = timedelta(0)
WATERMARK: Final = "watermark"
LAST_EPOCH: Final = 2**31


class Pace:
    """How a stream's time moves on: by its rows, by the clock on the wall, by partitions of its source."""

    def __init__(
        self, skew: timedelta = NO_SPAN, idle: timedelta | None = None, clock: str = "data", partition: str | None = None
    ) -> None:
        for name, span in (("skew", skew), ("idle", idle)):
            if span is not None and (not isinstance(span, timedelta) or span < NO_SPAN):
                raise InvalidInput(f"{name} must be a timedelta of 0 or longer, got {span!r}")
        if clock not in CLOCKS:
            known = ", ".join(map(repr, CLOCKS))
            raise InvalidInput(f"clock must be one of {known}, got {clock!r}{did_you_mean(str(clock), CLOCKS)}")
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
    task = LaneTask(rules, names, Directory(state).uri, Time(pace.skew_us))
    return _in_lanes(_marked(df, names, pace, lanes), lanes, task, df)


def _agree(df: "DataFrame", rules: BatchRules, names: Names, state: str, lanes: int | None) -> int:
    """Check what is asked for, also against what the state was made with; the number of lanes."""
    check_rules(rules)
    checked_names(df, names, rules.max_bytes, (*ADDED, LANE, MARK))
    if lanes is not None and (not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes <= 9999):
        raise InvalidInput(f"lanes must be a whole number from 1 to 9999, got {lanes!r}")
    columns = {field.name: field.dataType.simpleString() for field in df.schema}
    settings = {"rules": rules.as_data(), "names": names.as_data(), "columns": columns}
    default = df.sparkSession.sparkContext.defaultParallelism
    return checkpoints.agree(Directory(state), settings, lanes, default)


def _marked(df: "DataFrame", names: Names, pace: Pace, lanes: int) -> "DataFrame":
    """The rows with their lanes; with the clock on the wall, a tick for each lane every second."""
    from pyspark.sql import functions as sf

    rows = df.withColumn(LANE, lane_of(df[_quoted(names.key)], lanes)).withColumn(MARK, sf.lit(False))
    if pace.clock == "data":
        return rows
    ticks = df.sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
    every_lane = sf.explode(sf.sequence(sf.lit(0), sf.lit(lanes - 1)))
    return rows.unionByName(_marks(ticks.select("timestamp", every_lane.alias("lane")), df, names, "timestamp"))


def _marks(frame: "DataFrame", df: "DataFrame", names: Names, at: str | None) -> "DataFrame":
    """A mark for each row of a frame of lanes: all columns null, but for the receive time of a tick."""
    from pyspark.sql import functions as sf

    nulls = {field.name: sf.lit(None).cast(field.dataType) for field in df.schema}
    if at is not None:
        nulls[names.receive_time] = sf.col(at)
    columns = [column.alias(name) for name, column in nulls.items()]
    return frame.select(*columns, sf.col("lane").cast("int").alias(LANE), sf.lit(True).alias(MARK))


def _in_lanes(marked: "DataFrame", lanes: int, task: LaneTask, df: "DataFrame") -> "DataFrame":
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    added = _parse_datatype_string(ASSIGNED)
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in (*df.schema, *added)]
    return marked.repartitionById(lanes, LANE).mapInArrow(task.__call__, StructType(fields))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class Following:
    """A stream that is being followed, into a sink."""

    def __init__(
        self, df: "DataFrame", rules: BatchRules, names: Names, pace: Pace, each: Each, checkpoint: str, lanes: int | None
    ) -> None:
        if pace.partition is not None and pace.partition not in df.columns:
            raise InvalidTable(f"partition={pace.partition!r}: the DataFrame has no such column")
        self.df, self.rules, self.names, self.pace, self.each = df, rules, names, pace, each
        self.checkpoint = Directory(checkpoint).uri
        self.state = Directory(f"{self.checkpoint}/batchline")
        self.lanes = _agree(df, rules, names, self.state.uri, lanes)
        self.query: StreamingQuery | None = None

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Start the query, or go on from its checkpoint; not if the input has ended before."""
        if checkpoints.is_finished(self.state) is not None:
            return
        stream = _marked(self.df, self.names, self.pace, self.lanes)
        writer = stream.writeStream.foreachBatch(self._step).option("checkpointLocation", self.checkpoint)
        self.query = writer.trigger(**trigger).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended, or so many seconds; whether it has. An error in it is raised here."""
        if self.query is None:
            return True
        ended = self.query.awaitTermination(timeout)
        return timeout is None or bool(ended)

    def stop(self) -> None:
        """Stop following; what is open stays in the state, and the next start goes on from there."""
        if self.query is not None:
            self.query.stop()

    def finish(self) -> None:
        """Wait until the query has ended and hand out all that is open: the input has ended, nothing follows."""
        self.wait()
        epoch = checkpoints.is_finished(self.state)
        if epoch is None:
            epoch = max(files.before for files in self._files()) + 1
            checkpoints.finish(self.state, epoch)
        nothing = self.df.sparkSession.createDataFrame([], self.df.schema)
        marked = _marked(nothing, self.names, Pace(), self.lanes)
        self._hand_out(marked, epoch, Time(highest_us=self._highest(self._left(epoch)), flush=True))

    def summary(self) -> dict[str, int]:
        """What has come since the stream began, and what became of it."""
        counts: dict[str, int] = {}
        for left in self._left():
            for name, count in left.counts.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def _step(self, batch: "DataFrame", epoch: int) -> None:
        left = self._left(epoch)
        time = Time(self.pace.skew_us, self._highest(left), self._watermark(batch, epoch))
        self._hand_out(batch, epoch, time)

    def _hand_out(self, marked: "DataFrame", epoch: int, time: Time) -> None:
        spark = marked.sparkSession
        lanes = spark.range(0, self.lanes, 1, 1).withColumnRenamed("id", "lane")
        marked = marked.unionByName(_marks(lanes, self.df, self.names, None))
        task = LaneTask(self.rules, self.names, self.state.uri, time, epoch)
        rows = _in_lanes(marked, self.lanes, task, self.df)
        self.each(rows, epoch)
        if any(files.before != epoch for files in self._files(epoch + 1)):
            # What it was given was not read to the end, by a `take` for instance: the state must go on all the same.
            rows.write.format("noop").mode("overwrite").save()

    def _files(self, before: int = LAST_EPOCH) -> list[EpochFiles]:
        """What the last epoch before this one left of each lane."""
        return [EpochFiles(self.state, lane, before) for lane in range(self.lanes)]

    def _left(self, before: int = LAST_EPOCH) -> list[Left]:
        return [Left.read(files.notes) for files in self._files(before)]

    def _highest(self, left: list[Left]) -> int:
        return max(one.highest_us for one in left)

    def _watermark(self, batch: "DataFrame", epoch: int) -> int | None:
        """The watermark over the source's partitions, where they are told apart."""
        if self.pace.partition is None:
            return None
        from pyspark.sql import functions as sf

        before = _highest_before(self.state, epoch)
        largest = sf.unix_micros(sf.max(_quoted(self.names.receive_time)))
        found = batch.groupBy(MARK, sf.col(_quoted(self.pace.partition)).cast("string")).agg(largest).collect()
        highest = dict(before)
        for _, partition, at in (row for row in found if not row[0] and row[2] is not None):
            highest[str(partition)] = max(at, highest.get(str(partition), at))
        # A tick speaks for all partitions: what is stamped on the spot has come.
        ticked = max((row[2] for row in found if row[0] and row[2] is not None), default=None)
        if ticked is not None:
            highest = {partition: max(at, ticked) for partition, at in highest.items()}
        _write_highest(self.state, epoch, highest)
        return watermark_us(highest, self.pace.skew_us, self.pace.idle_us)


def _highest_before(state: Directory, epoch: int) -> dict[str, int]:
    """The largest receive time of each partition of the source, as an earlier epoch left it."""
    epochs = [int(name[:-5]) for name in state.names(WATERMARK) if name.endswith(".json") and name[0] != "."]
    before = max((one for one in epochs if one < epoch), default=None)
    text = None if before is None else state.read_text(f"{WATERMARK}/{before:06}.json")
    highest: dict[str, int] = {} if text is None else json.loads(text)
    for old in epochs:
        if before is not None and old < before:
            state.delete(f"{WATERMARK}/{old:06}.json")
    return highest


def _write_highest(state: Directory, epoch: int, highest: dict[str, int]) -> None:
    state.write_text(f"{WATERMARK}/{epoch:06}.json", json.dumps(highest, sort_keys=True))
