import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from batchline.columnar.columns import MOMENT
from batchline.errors import InvalidFile
from batchline.sources.files import Reading, read_measurements
from tests.sources.measured import NOON, reasons

NOON_US = 1_794_744_000_000_000
COLUMNS: dict[str, Any] = {
    "key": pa.array(["a", "b", "c"]),
    "type": pa.array(["flow"] * 3),
    "event_time": pa.array([NOON_US] * 3, MOMENT),
    "receive_time": pa.array([NOON_US] * 3, MOMENT),
    "size": pa.array([1, 2, 3], pa.int64()),
}


def read(directory: Path, rows_in_group: int = 1_000, **changes: Any) -> Reading:
    columns = {name: column for name, column in (COLUMNS | changes).items() if column is not ...}
    path = directory / "a.parquet"
    pa_parquet.write_table(pa.table(columns), path, row_group_size=rows_in_group)
    return read_measurements([path])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": pa.array(["a", None, "c"])}, "key is missing"),
        ({"type": pa.array(["a", None, "c"])}, "type is missing"),
        ({"event_time": pa.array([0, None, 0], MOMENT)}, "event_time is missing"),
        (
            {"receive_time": pa.array([0, -31_000_000_000, 0], pa.timestamp("s", "UTC"))},
            "receive_time must lie in the years 1000 to 9000, got 0987-08-25 16:53:20+00:00",
        ),
        (
            {"event_time": pa.array([0, 2**62, 0], pa.timestamp("ms", "UTC"))},
            "event_time must lie in the years 1 to 9999, got '4611686018427387904 ms since 1970'",
        ),
        ({"event_time": pa.array([NOON, "noon", NOON])}, "event_time: expected a time with a zone such as "),
        ({"size": pa.array([1, -1, 1])}, "size must be a whole number of bytes from 0 to 2**62, got -1"),
        ({"size": pa.array([1, 2**63, 1], pa.uint64())}, f"size must be a whole number .* got {2**63}"),
    ],
)
@pytest.mark.parametrize("rows_in_group", [1, 2, 3])
def test_a_malformed_row_is_kept_with_its_number_reason_and_values(
    changes: dict[str, Any], reason: str, rows_in_group: int, tmp_path: Path
) -> None:
    reading = read(tmp_path, rows_in_group, **changes)
    assert reading.table["key"].to_pylist() == ["a", "c"]
    assert list(reasons(reading)) == [2]
    head, _, tail = reason.partition(".*")
    assert reasons(reading)[2].startswith(head)
    assert tail in reasons(reading)[2]
    text = json.loads(reading.malformed["text"][0].as_py())
    assert set(text) == set(COLUMNS)
    assert text["key"] == (None if "key" in changes else "b")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": pa.array([1, 2, 3])}, "column key must hold strings; it holds int64"),
        ({"type": pa.array([b"a"] * 3)}, "column type must hold strings; it holds binary"),
        (
            {"event_time": pa.array([0] * 3, pa.timestamp("us"))},
            r"column event_time must hold timestamps with a time zone, .* it holds timestamp\[us\], naive times",
        ),
        ({"receive_time": pa.array([0] * 3)}, "column receive_time must hold timestamps .* it holds int64"),
        ({"size": pa.array([0.5] * 3)}, "column size must hold whole numbers of bytes; it holds double"),
        ({"receive_time": ...}, r"a\.parquet has no column receive_time; its columns are key, type, event_time, size"),
    ],
)
def test_a_column_of_another_type_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=message):
        read(tmp_path, **changes)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_strings_are_read_in_any_form(kind: pa.DataType, tmp_path: Path) -> None:
    times = pa.array([NOON] * 3).cast(kind)
    table = read(tmp_path, key=COLUMNS["key"].cast(kind), event_time=times, size=...).table
    assert table.schema.types == [pa.string(), pa.string(), MOMENT, MOMENT]
    assert table["key"].to_pylist() == ["a", "b", "c"]
    assert table["event_time"].to_pylist() == [datetime(2026, 11, 15, 12, tzinfo=UTC)] * 3


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_and_zone_are_moments(unit: Any, tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 11, 15, 12, tzinfo=UTC)] * 3, pa.timestamp(unit, "Europe/Berlin"))
    table = read(tmp_path, receive_time=times).table
    assert table["receive_time"].equals(table["event_time"])


def test_other_columns_are_kept_as_they_are(tmp_path: Path) -> None:
    others = {
        "nested": pa.array([{"a": [1]}] * 3),
        "word": pa.array(["x", "y", "x"]).dictionary_encode(),
        "raw": pa.array([b"\xff"] * 3),
    }
    table = read(tmp_path, 2, **others).table
    assert table.select(list(others)).to_pydict() == {name: column.to_pylist() for name, column in others.items()}
    assert table["word"].type == others["word"].type


def test_a_file_without_rows_has_columns(tmp_path: Path) -> None:
    reading = read(tmp_path, **{name: column.slice(0, 0) for name, column in COLUMNS.items()})
    assert reading.table.schema.names == list(COLUMNS)
    assert reading.table.num_rows == 0


@pytest.mark.parametrize("content", [b"", b"PAR1 or not"])
def test_a_file_that_is_no_parquet_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"a\.parquet cannot be read: .*Parquet"):
        read_measurements([path])


def test_times_as_spark_writes_them_by_default_are_in_utc(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 15, 12, 0, 0, 123_456, tzinfo=UTC)
    table = pa.table({"key": ["a"], "type": ["t"], "event_time": [moment], "receive_time": [moment], "note": [moment]})
    pa_parquet.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    reading = read_measurements([tmp_path / "old.parquet"])
    for name in ("event_time", "receive_time", "note"):
        assert reading.table.column(name).to_pylist() == [moment]
