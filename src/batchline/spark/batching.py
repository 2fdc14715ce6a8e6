"""Stage 1 on a DataFrame: each row, and what became of it.

rows ──► partitioned by key ──► the needed columns, to Python and sorted there ──► the kernel ──┐
                 └────────────── every other column stays in Java ───────────────────────────────┴──► rows, answered
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from batchline.columnar.assign import ADDED, answer, check_rules, columns_of, us_until
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.errors import InvalidInput
from batchline.spark.frames import checked_names, quoted, tied
from batchline.spark.spill import MOST_ROWS, Spill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ASSIGNED", "batch_frame"]

#: What is added to each row, as Spark's types.
ASSIGNED = (
    "verdict string, batch_id string, batch_start timestamp, batch_end timestamp, closed_at timestamp, "
    "close_reason string"
)
ASSIGNMENT = "batchline_assignment"


def batch_frame(
    df: "DataFrame",
    rules: BatchRules,
    names: Names,
    until: datetime | None = None,
    partitions: int | None = None,
    most_rows: int = MOST_ROWS,
) -> "DataFrame":
    """Each row of a batch DataFrame with what became of it; the input ends with a flush."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.functions import arrow_udf

    check_rules(rules)
    checked_names(df, names, rules.max_bytes, ADDED)
    if partitions is not None and partitions < 1:
        raise InvalidInput(f"partitions must be 1 or more, got {partitions}")
    kept = [sf.col(quoted(name)) for name in df.columns]
    df, names = tied(df, names)
    needed = names.needed()
    until_us, ours = us_until(until), tuple(needed)

    # By its annotations Spark knows it for an iterator of columns.
    def assign(parts: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        tables = (pa.table(dict(zip(ours, part, strict=True))) for part in parts)
        return Spill(most_rows).answered(tables, answers_of)

    def answers_of(table: pa.Table) -> pa.Table:
        return pa.table(dict(zip(ADDED, columns_of(answer(table, rules, names, until_us)), strict=True)))

    # Not deterministic as far as Spark may know: it must neither be moved nor run twice.
    udf = arrow_udf(assign, ASSIGNED).asNondeterministic()  # type: ignore[call-overload] # its stub knows no tuples
    by_key = df.repartition(names.key) if partitions is None else df.repartition(partitions, names.key)
    answered = by_key.withColumn(ASSIGNMENT, udf(*(sf.col(quoted(theirs)) for theirs in needed.values())))
    return answered.select(*kept, *(sf.col(f"{ASSIGNMENT}.{name}") for name in ADDED))


def named(key: str, type: str, event_time: str, receive_time: str, size: str | None, order: Sequence[str]) -> Names:
    """The names as given in a call."""
    if isinstance(order, str):
        raise InvalidInput(f"order must be a list of column names, got the one word {order!r}")
    return Names(key, type, event_time, receive_time, size, tuple(order))
