"""Parcels and collected batches: on Spark, in batches and in streams, what the library makes of the same messages."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
import pytest

from batchline import BatchRules, EventTimeBatcher, Measurement, PackRules, pack
from batchline.spark import assign_batches, collect_batches, follow, pack_parcels
from tests.columnar.test_agreement import table_of
from tests.core.streams import us
from tests.spark.streams import RULES, arriving, cuts_of, end_of, land, landing, stream
from tests.spark.test_following import ONCE, Sink, at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LANES = 3
MESSAGES = stream(5, 2_000, 25)
SKEW_US = 150
PACKS = [
    PackRules(max_items=7),
    PackRules(max_items=9, together="batch"),
    PackRules(max_items=12, max_bytes=60, order="subject"),
    PackRules(max_items=12, max_bytes=60, order="subject", together="batch"),
]


def by_library(rules: BatchRules, pack_rules: PackRules, messages: list[Measurement]) -> list[tuple[Any, ...]]:
    """The parcels of each lane."""
    batcher = EventTimeBatcher(rules)
    for message in messages:
        batcher.add(message)
    batcher.advance(end_of(messages))
    batcher.flush()
    lanes = defaultdict(list)
    for batch in batcher.closed():
        lanes[crc32(batch.key.encode()) % LANES].append(batch)
    parcels: list[tuple[Any, ...]] = []
    for lane, batches in lanes.items():
        given: Any = batches if pack_rules.together == "batch" else [m for batch in batches for m in batch.messages]
        for one in pack(given, pack_rules):
            numbers = tuple(message.payload for message in one.measurements)
            times = (one.first_time, one.last_time)
            parcels.append((lane, one.number, one.id, one.items, one.bytes, *times, one.subjects, numbers))
    return sorted(parcels)


def shown(parcels: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The same of rows."""
    names = ("lane", "parcel_number", "parcel_id", "items", "bytes", "first_time", "last_time")
    return sorted(
        (
            *(row[name] for name in names),
            tuple(row["subjects"]),
            tuple(message["number"] for message in row["measurements"]),
        )
        for row in parcels
    )


@pytest.mark.parametrize("pack_rules", PACKS, ids=lambda rules: f"{rules.order}-{rules.together}")
def test_a_batch_job_packs_what_the_library_packs(spark: SparkSession, pack_rules: PackRules) -> None:
    df = spark.createDataFrame(table_of(arriving(MESSAGES, 1, 10**9)))
    batched = assign_batches(df, RULES[0], order=["number"], until=end_of(MESSAGES))
    parcels = pack_parcels(batched, pack_rules, size="size", lanes=LANES)
    assert shown(parcels.toArrow().to_pylist()) == by_library(RULES[0], pack_rules, MESSAGES)


@pytest.mark.parametrize("pack_rules", PACKS, ids=lambda rules: f"{rules.order}-{rules.together}")
def test_a_stream_packs_what_the_library_packs(spark: SparkSession, tmp_path: Path, pack_rules: PackRules) -> None:
    land(arriving(MESSAGES, 2, SKEW_US), cuts_of(6, len(MESSAGES), 4), tmp_path / "in")
    sink = Sink()
    following = follow(
        landing(spark, tmp_path / "in"),
        RULES[0],
        sink,
        checkpoint=str(tmp_path / "checkpoint"),
        size="size",
        order=["number"],
        lanes=LANES,
        skew=us(SKEW_US),
        pack=pack_rules,
        linger=None,
        trigger=ONCE,
    )
    following.finish()
    rows = pa.concat_tables(sink.epochs.values()).to_pylist()
    assert shown(rows) == by_library(RULES[0], pack_rules, MESSAGES)
    # Most of it went out before the end: what is held is the last parcel of a lane, and what waits for older ones.
    assert sink.epochs[max(sink.epochs)].num_rows < len(rows) // 2


def test_a_streaming_dataframe_hands_out_parcels_as_they_fill_or_linger(spark: SparkSession, tmp_path: Path) -> None:
    """One row a second: with a linger of ten seconds a parcel of 500 is never full, but never older than that."""
    messages = [at(second, f"key-{second % 3}", second) for second in range(100)]
    land(messages, [*range(0, 100, 20), 100], tmp_path / "in")
    batched = assign_batches(landing(spark, tmp_path / "in"), BatchRules(), lanes=1, state=str(tmp_path / "batches"))
    parcels = pack_parcels(batched, PackRules(), state=str(tmp_path / "parcels"), linger=timedelta(seconds=10))
    query = parcels.writeStream.format("memory").queryName("lingered").trigger(**ONCE)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    told = spark.table("lingered").toArrow().to_pylist()
    assert [row["parcel_number"] for row in told] == list(range(1, len(told) + 1))
    numbers = [message["number"] for row in told for message in row["measurements"]]
    assert numbers == list(range(len(numbers)))
    assert 5 >= len(told) >= 3
    assert all(row["items"] >= 10 for row in told)


def test_what_is_too_large_for_any_parcel_is_a_row_of_its_own(spark: SparkSession) -> None:
    df = spark.createDataFrame(table_of([*MESSAGES[:50], Measurement.from_us("A", "x", 0, 0, 50, 1_000)]))
    parcels = pack_parcels(df, PackRules(max_bytes=100), size="size", lanes=2).toArrow().to_pylist()
    [large] = [row for row in parcels if row["parcel_id"] is None]
    assert [message["number"] for message in large["measurements"]] == [50]
    assert (large["parcel_number"], large["items"], large["bytes"]) == (None, 1, 1_000)
    assert sum(row["items"] for row in parcels) == 51


def test_ids_without_a_subject_share_one(spark: SparkSession) -> None:
    kinds = ["pump$flow", "pump$heat", "valve$flow", "alone", "other"]
    messages = [Measurement.from_us("gateway", kind, 5, 5, number, 1) for number, kind in enumerate(kinds)]
    parcels = pack_parcels(spark.createDataFrame(table_of(messages)), PackRules(split="$"), lanes=1).toArrow()
    assert parcels.column("subjects").to_pylist() == [["", "pump", "valve"]]


def collected(rows: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    return {row["batch_id"]: [message["number"] for message in row["messages"]] for row in rows}


def test_collected_batches_have_their_messages_in_order(spark: SparkSession, tmp_path: Path) -> None:
    batcher = EventTimeBatcher(RULES[0])
    for message in MESSAGES:
        batcher.add(message)
    batcher.flush()
    expected = {batch.id: [message.payload for message in batch.messages] for batch in batcher.closed()}
    df = spark.createDataFrame(table_of(MESSAGES))
    assert collected(collect_batches(assign_batches(df, RULES[0], order=["number"])).toArrow().to_pylist()) == expected
    land(MESSAGES, cuts_of(9, len(MESSAGES), 3), tmp_path / "in")
    batched: DataFrame = assign_batches(
        landing(spark, tmp_path / "in"), RULES[0], order=["number"], lanes=2, state=str(tmp_path / "state")
    )
    query = collect_batches(batched).writeStream.format("memory").queryName("collected").trigger(**ONCE)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    told = collected(spark.table("collected").toArrow().to_pylist())
    assert told.items() <= expected.items()
    assert len(told) > len(expected) // 2
