"""What is asked of a DataFrame is answered before anything runs, and what a shuffle does cannot be seen."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from batchline import BatchRules, Measurement, PackRules
from batchline.errors import BatchlineError, InvalidInput, InvalidRules, InvalidTable
from batchline.spark import assign_batches, collect_batches, follow, pack_parcels
from tests.columnar.test_agreement import table_of
from tests.spark.streams import RULES, land, landing, stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

RULE = BatchRules()


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table_of(stream(1, 200, 5)))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"key": "devise"}, InvalidTable, "key='devise': the DataFrame has no column of that name; it has key, type"),
        ({"event_time": "event_tim"}, InvalidTable, "did you mean 'event_time'?"),
        ({"key": "number"}, InvalidTable, "column number must hold strings, got bigint"),
        ({"receive_time": "type"}, InvalidTable, "column type must hold timestamps with a time zone, got string"),
        ({"size": "type"}, InvalidTable, "column type must hold whole numbers of bytes, got string"),
        ({"order": "number"}, InvalidInput, "order must be a list of column names, got the one word 'number'"),
        ({"order": ["missing"]}, InvalidTable, "the DataFrame has no column of that name"),
        ({"partitions": 0}, InvalidInput, "partitions must be 1 or more, got 0"),
        ({"until": "tomorrow"}, InvalidInput, "until expects a datetime with a time zone, got 'tomorrow'"),
        ({"key": 3}, InvalidTable, "key must be the name of a column, got 3"),
    ],
)
def test_a_wrong_option_is_named(
    df: DataFrame, options: dict[str, Any], error: type[BatchlineError], words: str
) -> None:
    with pytest.raises(error) as raised:
        assign_batches(df, RULE, **options)
    assert words in str(raised.value)


def test_naive_times_columns_taken_and_rules_that_are_none_are_named(df: DataFrame) -> None:
    naive = df.withColumn("event_time", sf.col("event_time").cast("timestamp_ntz"))
    with pytest.raises(InvalidTable, match="column event_time holds naive times"):
        assign_batches(naive, RULE)
    with pytest.raises(InvalidTable, match="already has a column verdict"):
        assign_batches(df.withColumn("verdict", sf.lit("")), RULE)
    with pytest.raises(InvalidTable, match="more than one column of that name"):
        assign_batches(df.select("*", "key"), RULE)
    with pytest.raises(InvalidTable, match="max_bytes is set"):
        assign_batches(df, RULES[1])
    with pytest.raises(InvalidRules, match="expected BatchRules, got 500"):
        assign_batches(df, 500)  # type: ignore[arg-type]
    with pytest.raises(InvalidTable, match="missing column verdict, batch_id"):
        collect_batches(df)
    with pytest.raises(InvalidTable, match="key='device': the DataFrame has no column"):
        pack_parcels(df, PackRules(), subject="device")
    with pytest.raises(InvalidTable, match="together='batch' expects what assign_batches gives"):
        pack_parcels(df, PackRules(together="batch"))


def test_a_stream_says_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    land(stream(1, 10, 2), [0, 10], tmp_path / "in")
    rows = landing(spark, tmp_path / "in")
    state = str(tmp_path / "state")
    with pytest.raises(InvalidInput, match="a streaming DataFrame needs a directory for its open batches: state="):
        assign_batches(rows, RULE)
    with pytest.raises(InvalidInput, match="clock must be one of 'data', 'wall', got 'wal'; did you mean 'wall'"):
        assign_batches(rows, RULE, state=state, clock="wal")
    with pytest.raises(InvalidInput, match="skew must be a timedelta of 0 or longer"):
        assign_batches(rows, RULE, state=state, skew=timedelta(-1))
    with pytest.raises(InvalidInput, match="lanes must be a whole number from 1 to 9999, got 0"):
        assign_batches(rows, RULE, state=state, lanes=0)
    with pytest.raises(InvalidInput, match="idle is about partitions"):
        follow(rows, RULE, lambda *_: None, checkpoint=state, idle=timedelta(1))
    with pytest.raises(InvalidTable, match="partition='shard': the DataFrame has no such column"):
        follow(rows, RULE, lambda *_: None, checkpoint=state, partition="shard")
    with pytest.raises(InvalidTable, match="in a stream, pack_parcels expects what assign_batches gives"):
        pack_parcels(rows, PackRules(), state=state)
    batched = assign_batches(rows, RULE, state=state, lanes=2)
    with pytest.raises(InvalidInput, match="the subject must be the key of assign_batches, 'key', got subject='type'"):
        pack_parcels(batched, PackRules(), subject="type", state=state)
    with pytest.raises(InvalidInput, match="has the lanes of its assign_batches"):
        pack_parcels(batched, PackRules(), state=state, lanes=3)


def test_a_row_without_a_key_is_named_by_the_job(df: DataFrame) -> None:
    holed = df.withColumn("key", sf.when(sf.col("number") != 7, sf.col("key")))
    with pytest.raises(Exception, match="column key must have a value in every row; 1 are null"):
        assign_batches(holed, RULE).toArrow()


def test_which_of_two_values_of_one_moment_comes_first_does_not_depend_on_the_shuffle(spark: SparkSession) -> None:
    """Ten messages of one type and moment, received at once: one is batched, always the same, the rest duplicates."""
    messages = [Measurement.from_us("A", "x", 1_000_000, 1_000_000, number, 1) for number in range(10)]
    winners = set()
    for turn in range(10):
        rotated = messages[turn:] + messages[:turn]
        answered = assign_batches(spark.createDataFrame(table_of(rotated)), RULE).where("verdict = 'batched'").collect()
        winners |= {row["number"] for row in answered}
    assert len(winners) == 1
