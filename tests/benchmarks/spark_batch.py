"""Stage 1 as a Spark job, beside what Spark alone needs for the same shuffle and sort, and what a user would write.

`python -m tests.benchmarks.spark_batch` for this table alone; ROWS is the number of rows, PAYLOAD the bytes of another
column that nobody looks at, which has to be carried along.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.spark_case import ANY, Cost, Costs, best_of, run_all

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CASES", "run"]

KEYS = (10_000, 1_000_000)
ROWS = 20_000_000
ORDER = ("key", "receive_time", "event_time", "type")
MODULE = "tests.benchmarks.spark_batch"  # not __name__, which is another when run alone
BASELINE = "shuffle and sort in the JVM"


@dataclass(frozen=True)
class BatchCase:
    """A DataFrame made of the messages, all of whose rows are wanted."""

    made: "Callable[[DataFrame], DataFrame]"
    most_keys: int = ANY

    def cost(self, spark: "SparkSession", files: Sequence[Path]) -> Cost:
        """Make all rows and throw them away; once before, because Java compiles what it has seen often enough."""
        paths = [str(file) for file in files]
        self._consume(spark, paths)
        return best_of(lambda: self._consume(spark, paths))

    def _consume(self, spark: "SparkSession", paths: Sequence[str]) -> int:
        import pyarrow.parquet as pq

        self.made(spark.read.parquet(*paths)).write.format("noop").mode("overwrite").save()
        return sum(pq.read_metadata(path).num_rows for path in paths)


def scan(df: "DataFrame") -> "DataFrame":
    """Nothing but reading."""
    return df


def shuffle(df: "DataFrame") -> "DataFrame":
    """The rows of a key in one place."""
    return df.repartition("key")


def shuffle_and_sort(df: "DataFrame") -> "DataFrame":
    """The least that any such job has to do: the rows of a key in one place and in receive order."""
    return df.repartition("key").sortWithinPartitions(*ORDER)


def identity(df: "DataFrame") -> "DataFrame":
    """The same, and every row to Python and back."""
    return shuffle_and_sort(df).mapInArrow(_same, df.schema)


def _same(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    return batches


def ours(df: "DataFrame") -> "DataFrame":
    """What this library does."""
    from batchline import BatchRules
    from batchline.spark import assign_batches

    return assign_batches(df, BatchRules())


def session_windows(df: "DataFrame") -> "DataFrame":
    """What a user would write with Spark's own functions; knows neither delay nor conflict nor duplicate."""
    from pyspark.sql import functions as sf

    window = sf.session_window("event_time", "500 milliseconds")
    kept = sf.struct(*(name for name in df.columns if name != "key"))
    return df.groupBy("key", window).agg(sf.collect_list(kept).alias("messages"))


def pandas_per_key(df: "DataFrame") -> "DataFrame":
    """What a user would write in Python: each key's messages as a pandas frame."""
    return df.groupBy("key").applyInPandas(_windows, f"{_columns(df)}, batch bigint, accepted boolean")


def _columns(df: "DataFrame") -> str:
    return ", ".join(f"{name} {type}" for name, type in df.dtypes)


def _windows(messages: "pd.DataFrame") -> "pd.DataFrame":
    """Windows of half a second, first come first taken; late messages and duplicates are told apart."""
    messages = messages.sort_values(["receive_time", "event_time", "type"])
    batch = messages["event_time"].astype("int64") // 500_000_000
    late = (messages["receive_time"] - messages["event_time"]).dt.total_seconds() > 0.4
    twice = messages.assign(batch=batch).duplicated(["batch", "type"])
    return messages.assign(batch=batch, accepted=~(late | twice))


CASES = {
    "scan": BatchCase(scan),
    "shuffle by key": BatchCase(shuffle),
    BASELINE: BatchCase(shuffle_and_sort),
    "the same, then identity mapInArrow": BatchCase(identity),
    "assign_batches": BatchCase(ours),
    "session_window, collect_list": BatchCase(session_windows),
    "applyInPandas per key": BatchCase(pandas_per_key, most_keys=4_000),
}


def run(rows: int, payload_bytes: int = 0) -> Costs:
    """All figures of the batch job."""
    costs = Costs("Spark batch: a job over Parquet files", BASELINE, "cpu")
    run_all(MODULE, rows, KEYS, payload_bytes, costs)
    return costs


if __name__ == "__main__":
    run(int(os.environ.get("ROWS", ROWS)), int(os.environ.get("PAYLOAD", "0"))).show()
