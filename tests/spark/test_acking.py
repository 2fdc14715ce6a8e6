"""Acks from Spark: combined per group before they touch the database, and told as the library tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from batchline import Tracker, open_store
from batchline.errors import (
    FanoutExpired,
    ForeignGroup,
    InvalidInput,
    InvalidStore,
    InvalidTable,
    MalformedItem,
    UnknownFanout,
    UnknownGroup,
    UnknownItem,
)
from batchline.spark import ack
from batchline.spark.acking import AckTask, _combined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from batchline.stores import Store
    from tests.spark.conftest import RunPython


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'batchline.db'}") as opened:
        yield opened


def frame(spark: SparkSession, items: Sequence[str | None], column: str = "item") -> DataFrame:
    return spark.createDataFrame([(item,) for item in items], f"`{column}` string").repartition(3)


def items_of(tracker: Tracker, fanout: str, count: int) -> list[str]:
    return [item for group in tracker.add(fanout, count) for item in group.items()]


def test_every_item_counts_once_and_completion_is_told_once(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    tracker.open("import")
    items = items_of(tracker, "import", 1000)
    tracker.seal("import")
    outcome = ack(frame(spark, items[1:] + items[1:50]), store)
    assert (outcome.changed, outcome.repeated, outcome.completed, outcome.errors) == (999, 49, (), ())
    assert tracker.pending_items("import") == items[:1]
    outcome = ack(frame(spark, items[:2]), store)
    assert (outcome.changed, outcome.repeated, outcome.completed) == (1, 1, ("import",))


def test_a_group_reaches_the_database_as_one_mask(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    tracker.open("import")
    items = items_of(tracker, "import", 64 * 5 + 1)
    masks = {row["group"]: row["mask"] for row in _combined(frame(spark, items + items), "item").collect()}
    assert sorted(masks.values()) == [-1] * 5 + [1]


def test_what_is_no_item_is_told_by_name_and_the_rest_counts(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    for fanout in ("a", "b", "gone"):
        tracker.open(fanout)
    (ours,), (theirs,), (gone,) = (tracker.add(fanout, 3) for fanout in ("a", "b", "gone"))
    tracker.expire("gone")
    wrong: dict[str | None, type] = {
        None: MalformedItem,
        "": MalformedItem,
        "nonsense": MalformedItem,
        f"a:{ours.id}:01": MalformedItem,
        "a:nonsense:1": MalformedItem,
        f"a:{ours.id}:64": UnknownItem,
        f"a:{ours.id}:3": UnknownItem,
        f"a:{theirs.id}:0": ForeignGroup,
        f"nobody:{ours.id}:0": UnknownFanout,
        "a:00000000-0000-4000-8000-000000000000:0": UnknownGroup,
        f"gone:{gone.id}:0": FanoutExpired,
    }
    outcome = ack(frame(spark, [*wrong, *ours.items()]), store)
    assert {error.item: type(error.error) for error in outcome.errors} == wrong
    assert len(outcome.errors) == len(wrong)
    assert (outcome.changed, tracker.status("a").pending, tracker.status("b").pending) == (3, 0, 3)


def test_items_fail_for_a_reason(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    tracker.open("import", tolerate=1)
    items = items_of(tracker, "import", 100)
    assert ack(frame(spark, items[:1]), store, fail="broken").failed == ()
    assert ack(frame(spark, items[60:70]), store, fail="broken").failed == ("import",)
    assert [item.id for item in tracker.failed_items("import")] == items[:1] + items[60:70]
    assert {item.reason for item in tracker.failed_items("import")} == {"broken"}


def test_who_repeats_a_call_is_told_the_same_and_nobody_else_is(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    tracker.open("import")
    items = items_of(tracker, "import", 200)
    tracker.seal("import")
    rows = frame(spark, items)
    assert [ack(rows, store, call_id=call).completed for call in ("epoch 1", "epoch 1", "epoch 2")] == [
        ("import",),
        ("import",),
        (),
    ]


def test_a_task_that_died_half_way_and_is_repeated_is_told_all_it_would_have_been(store: Store) -> None:
    """Spark repeats a task whose worker died; its batches may be cut otherwise then."""
    tracker = Tracker(store)
    rows: list[dict[str, object]] = []
    for fanout in ("a", "b", "c"):
        tracker.open(fanout)
        (group,) = tracker.add(fanout, 2)
        tracker.seal(fanout)
        rows.append({"group": f"{fanout}:{group.id}", "item": None, "mask": 3, "named": 2})
    schema = pa.schema([("group", pa.string()), ("item", pa.string()), ("mask", pa.int64()), ("named", pa.int64())])

    def completed(parts: list[list[dict[str, object]]]) -> list[str]:
        batches = (pa.RecordBatch.from_pylist(part, schema=schema) for part in parts)
        told = [row for batch in AckTask(store.address, None, "call")(batches) for row in batch.to_pylist()]
        return sorted({row["name"] for row in told if row["kind"] == "completed"})

    assert completed([rows[:1]]) == ["a"]
    assert completed([rows]) == ["a", "b", "c"]
    assert completed([rows[2:], rows[:2]]) == ["a", "b", "c"]


def test_columns_by_any_name_and_no_rows_at_all(spark: SparkSession, store: Store) -> None:
    tracker = Tracker(store)
    tracker.open("import")
    items = items_of(tracker, "import", 2)
    assert ack(frame(spark, [*items], "the item.id"), store, item="the item.id").changed == 2
    assert ack(frame(spark, []), store).changed == 0


def test_wrong_input_is_answered_before_anything_runs(spark: SparkSession, store: Store) -> None:
    rows = frame(spark, ["x"])
    with pytest.raises(InvalidTable, match="no column of that name; it has item; did you mean 'item'"):
        ack(rows, store, item="itme")
    with pytest.raises(InvalidTable, match="must hold item ids, got bigint"):
        ack(spark.range(3), store, item="id")
    with pytest.raises(InvalidStore, match="do not see memory://"):
        ack(rows, open_store("memory://"))
    with pytest.raises(InvalidStore, match="expected a store or its address, got 5"):
        ack(rows, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="takes a batch DataFrame"):
        ack(spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS item"), store)


def test_executors_of_a_cluster_ack_on_one_database(postgresql_database: str, run_on_cluster: RunPython) -> None:
    with open_store(postgresql_database) as store:
        tracker = Tracker(store)
        for fanout in ("a", "b"):
            tracker.open(fanout)
            tracker.add(fanout, 10_000)
            tracker.seal(fanout)
        script = """
from batchline import Tracker, open_store
from batchline.spark import ack
store = sys.argv[1]
with open_store(store) as opened:
    tracker = Tracker(opened)
    items = [item for fanout in "ab" for item in tracker.pending_items(fanout, limit=10_000)]
rows = spark.createDataFrame([(item,) for item in items], "item string").repartition(4)
outcome = ack(rows, store)
assert outcome.changed == 20_000 and set(outcome.completed) == {"a", "b"} and not outcome.errors, outcome
"""
        run = run_on_cluster(script, postgresql_database)
        assert run.returncode == 0, run.stderr
        assert [tracker.status(fanout).state for fanout in ("a", "b")] == ["complete", "complete"]
