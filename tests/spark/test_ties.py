"""Rows that tie in everything receive order compares: their other columns decide, not the order in which they come."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from batchline import BatchRules
from batchline.spark import assign_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 11, 15, tzinfo=UTC)
COLUMNS = "key string, type string, event_time timestamp, receive_time timestamp, offset long, size long, value string"


@pytest.mark.parametrize("order", [[], ["offset"]], ids=["without-order", "tied-in-order-too"])
@pytest.mark.parametrize("differ", ["size", "value"])
def test_of_two_copies_the_same_is_kept_in_whatever_order_they_come(
    spark: SparkSession, order: list[str], differ: str
) -> None:
    copies = [("k", "t", AT, AT, 7, *((size, "v") if differ == "size" else (5, str(size)))) for size in range(8)]
    kept = set()
    for rows in (copies, copies[::-1], copies[3:] + copies[:3]):
        df = spark.createDataFrame(rows, COLUMNS).coalesce(1)
        batched = assign_batches(df, BatchRules(), size="size", order=order).where("verdict = 'batched'")
        kept.add(tuple(tuple(row) for row in batched.select("size", "value").collect()))
    assert len(kept) == 1
    assert len(kept.pop()) == 1


def test_of_copies_that_have_one_value_in_different_columns_the_same_is_kept(spark: SparkSession) -> None:
    copies = [("k", "t", AT, AT, 5, None), ("k", "t", AT, AT, None, 5)]
    kept = set()
    for rows in (copies, copies[::-1]):
        columns = "key string, type string, event_time timestamp, receive_time timestamp, low long, high long"
        batched = assign_batches(spark.createDataFrame(rows, columns).coalesce(1), BatchRules())
        kept.add(tuple(tuple(row) for row in batched.where("verdict = 'batched'").select("low", "high").collect()))
    assert len(kept) == 1
