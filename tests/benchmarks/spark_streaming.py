"""Stage 1 on a Spark stream, beside a micro-batch that only takes its rows to Python, and what a user would write.

The files of a directory, one in each micro-batch, until all are read. The first micro-batches start what has to be
started and are left out. `python -m tests.benchmarks.spark_streaming` for this table alone; ROWS is the number of rows.
"""

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.process_tree import cpu_seconds
from tests.benchmarks.spark_case import ANY, ROUNDS, Cost, Costs, run_all

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

__all__ = ["CASES", "run"]

MODULE = "tests.benchmarks.spark_streaming"  # not __name__, which is another when run alone
KEYS = (10_000, 1_000_000)
ROWS = 4_000_000
BASELINE = "foreachBatch, identity mapInArrow"
#: Micro-batches left out of the figures; they are what Java compiles the most in.
WARM = 3
LANES = 64
ONCE = {"availableNow": True}
PENDING_S = 1.0


@dataclass(frozen=True)
class StreamCase:
    """A query over the stream of messages, with a directory for its checkpoint."""

    started: "Callable[[DataFrame, str], StreamingQuery]"
    most_keys: int = ANY

    def cost(self, spark: "SparkSession", files: Sequence[Path]) -> Cost:
        """The better of the rounds, each with a checkpoint of its own, in its micro-batches after the first ones."""
        source = files[0].parent
        return min((self._round(spark, source) for _ in range(ROUNDS)), key=lambda cost: cost.wall_s)

    def _round(self, spark: "SparkSession", source: Path) -> Cost:
        schema = spark.read.parquet(str(source)).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
        with tempfile.TemporaryDirectory(prefix="batchline-bench-") as checkpoint:
            cpu = cpu_seconds(os.getpid())
            query = self.started(stream, checkpoint)
            query.awaitTermination()
            cpu = cpu_seconds(os.getpid()) - cpu
        return steady([progress for progress in query.recentProgress if progress["numInputRows"]], cpu)


def steady(progress: Sequence[Any], cpu: float) -> Cost:
    """What the micro-batches after the first ones took; CPU time is known of all of them only, and shared out."""
    counted = progress[WARM:] or progress[-1:]
    rows = sum(one["numInputRows"] for one in counted)
    share = rows / sum(one["numInputRows"] for one in progress)
    return Cost(rows, cpu * share, sum(one["durationMs"]["triggerExecution"] for one in counted) / 1000)


def throw_away(rows: "DataFrame", _epoch: int) -> None:
    """Make all rows, for nobody."""
    rows.write.format("noop").mode("append").save()


def identity(stream: "DataFrame", checkpoint: str) -> "StreamingQuery":
    """The least that any such stream has to do: the rows of a key in one place, and in Python."""

    def step(rows: "DataFrame", epoch: int) -> None:
        throw_away(rows.repartition("key").mapInArrow(_same, rows.schema), epoch)

    writer = stream.writeStream.foreachBatch(step).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def _same(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    return batches


def ours(stream: "DataFrame", checkpoint: str) -> "StreamingQuery":
    """What this library does."""
    from batchline import BatchRules
    from batchline.spark import follow

    following = follow(stream, BatchRules(), throw_away, checkpoint=checkpoint, trigger=ONCE)
    assert following.query is not None
    return following.query


def in_lanes(stream: "DataFrame", checkpoint: str) -> "StreamingQuery":
    """What a user would write: keys folded into a few lanes, each with a state of Spark's."""
    from pyspark.sql import functions as sf

    return _with_state(stream.withColumn("lane", sf.expr(f"pmod(xxhash64(key), {LANES})")), "lane", checkpoint)


def per_key(stream: "DataFrame", checkpoint: str) -> "StreamingQuery":
    """What a user would write first: a state of Spark's for each key."""
    return _with_state(stream, "key", checkpoint)


def _with_state(stream: "DataFrame", by: str, checkpoint: str) -> "StreamingQuery":
    from pyspark.sql.streaming.state import GroupStateTimeout

    columns = ", ".join(f"{name} {type}" for name, type in stream.dtypes)
    grouped = stream.groupBy(by)
    handed = grouped.applyInPandasWithState(
        _hand_out, f"{columns}, batch bigint", "pending binary", "append", GroupStateTimeout.NoTimeout
    )
    writer = handed.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def _hand_out(_key: tuple[Any, ...], frames: "Iterator[pd.DataFrame]", state: "GroupState") -> "Iterator[pd.DataFrame]":
    """Keep the rows of the last second, and hand out the older ones with their half second."""
    import pandas as pd

    before = [pickle.loads(state.get[0])] if state.exists else []  # noqa: S301 - it is our own
    rows = pd.concat([*before, *frames], ignore_index=True)
    young = rows["receive_time"] > rows["receive_time"].max() - pd.Timedelta(seconds=PENDING_S)
    state.update((pickle.dumps(rows[young]),))
    old = rows[~young]
    yield old.assign(batch=old["event_time"].astype("int64") // 500_000_000)


CASES = {
    BASELINE: StreamCase(identity),
    "follow": StreamCase(ours),
    f"applyInPandasWithState, {LANES} lanes": StreamCase(in_lanes),
    "applyInPandasWithState per key": StreamCase(per_key, most_keys=1_000),
}


def run(rows: int) -> Costs:
    """All figures of the stream."""
    costs = Costs("Spark streaming: micro-batches of one Parquet file", BASELINE, "wall")
    run_all(MODULE, rows, KEYS, 0, costs)
    return costs


if __name__ == "__main__":
    run(int(os.environ.get("ROWS", ROWS))).show()
