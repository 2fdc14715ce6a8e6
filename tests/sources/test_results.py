"""What a pipeline has left is read back key by key, whichever way it was left."""

from pathlib import Path

import pytest

from batchline.cli.live_tables import LiveTables
from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.measurement import Measurement
from batchline.errors import StoreUnavailable
from batchline.local import Batched, batch_table, write_batched
from batchline.sources.results import KeyCounts, Results
from batchline.sources.sample import Fleet, sample_fleet

SECOND_US = 1_000_000


@pytest.fixture(scope="module")
def batched() -> Batched:
    return batch_table(sample_fleet(Fleet(devices=12, minutes=0.5)), BatchRules())


@pytest.mark.parametrize("below", [".", "b5257d2b36", "results/b5257d2b36"])
def test_what_a_batch_has_left_is_found_in_its_directory_or_below(tmp_path: Path, batched: Batched, below: str) -> None:
    write_batched(batched, {}, tmp_path / below)
    results = Results(tmp_path)
    keys = results.keys("PUMP", 100)
    assert {one.key for one in keys} == {key for key in batched.assigned["key"].to_pylist() if key.startswith("pump")}
    for one in keys:
        rows = results.of(one.key)
        assert (len(rows.batches), len(rows.rejected)) == (one.batches, one.rejected)
        members = results.members(one.key, [row["batch_id"] for row in rows.batches])
        assert len(members) == sum(row["messages"] for row in rows.batches)


def test_batches_stand_in_order_of_time_and_keys_with_most_to_tell_come_first(tmp_path: Path, batched: Batched) -> None:
    write_batched(batched, {}, tmp_path)
    results = Results(tmp_path)
    keys = results.keys("", 100)
    with_batches = [one for one in keys if one.batches]
    assert keys[: len(with_batches)] == with_batches
    assert [one.rejected for one in with_batches] == sorted((one.rejected for one in with_batches), reverse=True)
    starts = [row["batch_start"] for row in results.of(with_batches[0].key).batches]
    assert starts == sorted(starts)
    assert len(results.keys("", 2)) == 2


def test_a_stream_that_has_forgotten_members_still_has_its_batches(tmp_path: Path) -> None:
    tables = LiveTables(tmp_path)
    for second in (0, 40):
        tables.write([batch_at(second)], [(rejected_at(second), Verdict.LATE)], second * SECOND_US)
    results = Results(tmp_path)
    assert results.keys("", 10) == [KeyCounts("pump-1", 2, 2)]
    for file in (tmp_path / "batched").rglob("*.parquet"):
        file.unlink()
    rows = results.of("pump-1")
    assert [row["batch_start"] for row in rows.batches] == [0, 40 * SECOND_US]
    assert [row["verdict"] for row in rows.rejected] == ["late", "late"]
    assert results.members("pump-1", [row["batch_id"] for row in rows.batches]) == []


def test_where_nothing_is_yet_there_are_no_keys(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "not there"):
        results = Results(directory)
        assert (results.keys("", 10), results.of("pump-1").batches, results.members("pump-1", ["x"])) == ([], [], [])


def test_a_table_that_cannot_be_read_is_named_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "batches.parquet").write_bytes(b"no parquet")
    for read in (lambda: Results(tmp_path).keys("", 1), lambda: Results(tmp_path).of("pump-1")):
        with pytest.raises(StoreUnavailable, match=r"^the table batches of the pipeline cannot be read now$"):
            read()


def batch_at(second: int) -> Batch:
    start_us = second * SECOND_US
    message = Measurement.from_us("pump-1", "flow", start_us + 1, start_us + 2)
    return Batch(
        "pump-1",
        start_us,
        start_us + 500_000,
        start_us + 900_000,
        start_us + 900_000,
        CloseReason.TIMEOUT,
        0,
        (message,),
    )


def rejected_at(second: int) -> dict[str, object]:
    return {"key": "pump-1", "type": "flow", "event_time": 0, "receive_time": second * SECOND_US, "value": 1.0}


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    tables, results = LiveTables(tmp_path), Results(tmp_path)
    tables.write([batch_at(0)], [], 0)
    first = results.of("pump-1").batches
    assert results.of("pump-1").batches[0] is first[0]
    tables.write([batch_at(1)], [], 1)
    assert len(results.of("pump-1").batches) == 2


def test_of_a_long_stream_the_last_epochs_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchline.sources.results.MOST_EPOCHS", 3)
    tables = LiveTables(tmp_path)
    for second in range(0, 300, 30):
        tables.write([batch_at(second)], [], second * SECOND_US)
    starts = [row["batch_start"] // SECOND_US for row in Results(tmp_path).of("pump-1").batches]
    assert starts == [210, 240, 270]
