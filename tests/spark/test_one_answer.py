"""One answer: the library, the columns, Spark in batches and Spark in streams, however cut, say the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from batchline.columnar import assign_batches as assign_columns
from batchline.columnar.names import Names
from batchline.spark import assign_batches, follow
from batchline.spark.batching import batch_frame
from tests.columnar.test_agreement import table_of
from tests.core.streams import us
from tests.spark.streams import RULES, arriving, by_library, cuts_of, end_of, land, landing, shown, stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from batchline import BatchRules, Measurement

FULL = os.environ.get("BATCHLINE_TEST_PROFILE") == "full"
#: Rows and keys of a stream, and pieces that it is cut into.
ROWS, KEYS, PIECES = (20_000, 400, 25) if FULL else (3_000, 60, 5)
SKEW_US = 150


@pytest.fixture(params=range(len(RULES)), ids=lambda at: f"{RULES[at].anchor}-{RULES[at].max_bytes}")
def case(request: pytest.FixtureRequest) -> tuple[BatchRules, list[Measurement]]:
    return RULES[request.param], stream(request.param, ROWS, KEYS)


def test_columns_and_batches_of_one_and_many_partitions_say_what_the_library_says(
    spark: SparkSession, case: tuple[BatchRules, list[Measurement]]
) -> None:
    rules, messages = case
    expected, until = by_library(rules, messages), end_of(messages)
    assert shown(assign_columns(table_of(messages), rules, until)) == expected
    df = spark.createDataFrame(table_of(arriving(messages, 1, 10**9)))
    names = Names(size="size", order=("number",))
    for partitions, most_rows in ((1, ROWS), (7, ROWS), (1, 100)):
        frame = batch_frame(df, rules, names, until, partitions, most_rows)
        assert shown(frame.toArrow()) == expected


def test_a_stream_cut_anywhere_says_what_the_library_says(
    spark: SparkSession, case: tuple[BatchRules, list[Measurement]], tmp_path: Path
) -> None:
    rules, messages = case
    land(arriving(messages, 2, SKEW_US), cuts_of(3, len(messages), PIECES), tmp_path / "in")
    handed_out: dict[int, pa.Table] = {}

    def each(rows: DataFrame, epoch: int) -> None:
        handed_out[epoch] = rows.toArrow()

    following = follow(
        landing(spark, tmp_path / "in"),
        rules,
        each,
        checkpoint=str(tmp_path / "checkpoint"),
        size="size",
        order=["number"],
        lanes=3,
        skew=us(SKEW_US),
        trigger={"availableNow": True},
    )
    following.finish()
    assert shown(pa.concat_tables(handed_out.values())) == by_library(rules, messages)
    counts = following.summary()
    assert counts["read"] == len(messages)
    assert counts["behind_watermark"] == 0
    verdicts = pa.concat_tables(handed_out.values()).column("verdict")
    assert counts["batched"] == pc.sum(pc.equal(verdicts, "batched")).as_py()


def test_a_streaming_dataframe_says_what_the_library_says_of_all_that_has_closed(
    spark: SparkSession, case: tuple[BatchRules, list[Measurement]], tmp_path: Path
) -> None:
    rules, messages = case
    land(messages, cuts_of(4, len(messages), PIECES), tmp_path / "in")
    batched = assign_batches(
        landing(spark, tmp_path / "in"), rules, size="size", order=["number"], state=str(tmp_path / "state"), lanes=2
    )
    query = batched.writeStream.format("memory").queryName("closed").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    told = shown(spark.table("closed").toArrow())
    expected = by_library(rules, messages)
    assert set(told) <= set(expected)
    assert len(told) > len(messages) // 2
    # The rest is open, in lanes whose last row came before the whole stream's last.
    last = [row for row in expected if row not in set(told)]
    assert all(row[-1] is None or row[3] > told_until(messages) for row in last)


def told_until(messages: list[Measurement]) -> object:
    """Before this every lane has come, for each has a row in the last tenth of the stream."""
    return end_of(messages[: len(messages) * 9 // 10]) - us(2_000)
