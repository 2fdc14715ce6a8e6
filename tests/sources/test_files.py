import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from batchline.errors import InvalidFile, InvalidInput
from batchline.sinks.files import write_table
from batchline.sources.files import files_of, read_measurements
from batchline.sources.sample import Fleet, sample_fleet
from tests.sources.measured import NOON, in_blocks, line, put, row

SMALL = Fleet(devices=20, minutes=0.2)


def many(directory: Path, **contents: str) -> list[Path]:
    return [put(directory, content, f"{name}.jsonl") for name, content in contents.items()]


# The sample fleet there and back


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
@pytest.mark.parametrize("block_size", [10_000, 4 << 20])
def test_the_sample_fleet_reads_back_as_it_was_written(suffix: str, block_size: int, tmp_path: Path) -> None:
    table = sample_fleet(SMALL)
    with in_blocks(block_size):
        reading = read_measurements([write_table(table, tmp_path / f"sample{suffix}")])
    assert reading.table.equals(table)
    assert reading.malformed.num_rows == 0


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_empty_fleet_reads_back_too(suffix: str, tmp_path: Path) -> None:
    table = sample_fleet(Fleet(devices=0))
    assert (
        read_measurements([write_table(table, tmp_path / f"sample{suffix}")]).table.schema.names == table.schema.names
    )


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_texts_and_numbers_of_all_sorts_read_back(suffix: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "key": ["a,b", 'c"d', "e\nf", "größer"],
            "type": ["x"] * 4,
            "event_time": pa.array([0, -1, 1, 2**50], pa.timestamp("us", "UTC")),
            "receive_time": pa.array([0] * 4, pa.timestamp("us", "UTC")),
            "size": [0, None, 2**62, 1],
            "whole": [1.0, 2.0, None, -0.0],
            "text": ["", None, "\r\n", '""'],
            "truth": [True, None, False, True],
        }
    )
    assert read_measurements([write_table(table, tmp_path / f"a{suffix}")]).table.equals(table)


# Which files


def test_a_file_is_itself_whatever_the_case_of_its_suffix(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.ndjson", "a.json", "a.csv", "a.PARQUET"):
        path = put(tmp_path, "", name)
        assert files_of(path) == [path]


def test_a_directory_is_its_files_of_known_formats_in_order_of_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.jsonl", ".hidden.csv", "_SUCCESS", "_part.csv", "c.parquet", "notes.txt", "c.parquet.crc"):
        put(tmp_path, "", name)
    (tmp_path / "d.csv").mkdir()
    assert [path.name for path in files_of(tmp_path)] == ["a.jsonl", "b.csv", "c.parquet"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("measurement.csv", r"measurement\.csv is not there; did you mean 'measurements\.csv'\?"),
        ("elsewhere/a.csv", r"elsewhere/a\.csv is not there$"),
        (
            "empty",
            r"empty has no measurements in it: no file that ends with \.jsonl, \.ndjson, \.json, \.csv, \.parquet",
        ),
        ("a.jsonnl", r"unknown format '\.jsonnl'; the known ones are \.jsonl, .*; did you mean '\.jsonl'\?"),
        ("a.xyz", r"unknown format '\.xyz'; the known ones are \.jsonl, \.ndjson, \.json, \.csv, \.parquet$"),
        ("plain", r"plain has no suffix to tell its format; the known ones are"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(name: str, message: str, tmp_path: Path) -> None:
    for there in ("measurements.csv", "a.jsonnl", "a.xyz", "plain"):
        put(tmp_path, "", there)
    (tmp_path / "empty").mkdir()
    put(tmp_path / "empty", "", ".hidden.csv")
    with pytest.raises(InvalidFile, match=message):
        files_of(tmp_path / name)


def test_a_file_that_went_away_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"gone\.jsonl cannot be read: .*No such file") as caught:
        read_measurements([tmp_path / "gone.jsonl"])
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_format_is_refused_when_read_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="unknown format"):
        read_measurements([put(tmp_path, "", "a.txt")])


# Names

OTHER_NAMES = {"key": "device", "type": "sensor", "event_time": "t", "receive_time": "T", "size": "bytes"}


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_columns_may_have_other_names(suffix: str, tmp_path: Path) -> None:
    table = sample_fleet(SMALL)
    renamed = table.rename_columns([OTHER_NAMES.get(name, name) for name in table.column_names])
    assert read_measurements([write_table(renamed, tmp_path / f"a{suffix}")], OTHER_NAMES).table.equals(table)


def test_columns_may_change_places(tmp_path: Path) -> None:
    [path] = many(tmp_path, a=line(key="flow", type="pump-1"))
    table = read_measurements([path], {"key": "type", "type": "key"}).table
    assert table.select(["key", "type"]).to_pylist() == [{"key": "pump-1", "type": "flow"}]


def test_one_column_may_be_two_of_ours(tmp_path: Path) -> None:
    [path] = many(tmp_path, a=line(event_time=..., receive_time=..., t=NOON))
    [read] = read_measurements([path], {"event_time": "t", "receive_time": "t"}).table.to_pylist()
    assert read == {"key": "pump-1", "type": "flow"} | dict.fromkeys(
        ("event_time", "receive_time"), datetime(2026, 11, 15, 12, tzinfo=UTC)
    )


def test_a_reason_names_both_names(tmp_path: Path) -> None:
    [path] = many(tmp_path, a=line(device=None, key=...))
    reading = read_measurements([path], {"key": "device"})
    assert reading.malformed["reason"].to_pylist() == ["key (device) is missing"]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_a_column_already_called_so_is_refused(suffix: str, tmp_path: Path) -> None:
    table = sample_fleet(SMALL).append_column("device", pa.nulls(len(sample_fleet(SMALL)), pa.string()))
    path = write_table(table, tmp_path / f"a{suffix}")
    with pytest.raises(InvalidFile, match="has a column key beside device, which is to be read as key"):
        read_measurements([path], {"key": "device"})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"kye": "device"}, r"only key, type, event_time, receive_time, size .* got 'kye'; did you mean 'key'\?"),
        ({"value": "v"}, r"can have another name, got 'value'"),
        ({"key": ""}, r"expected the file's name for key, got ''"),
    ],
)
def test_names_that_cannot_be_are_refused(names: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_measurements(many(tmp_path, a=line()), names)


# Several files


def test_files_are_joined_in_their_order_with_the_columns_of_all(tmp_path: Path) -> None:
    paths = many(
        tmp_path, b=line(n=1, x="a"), a=line(n=2.5, size=7, y=[None]), c=f"{line(n=None)}\n{line(n=True)[:-1]}"
    )
    reading = read_measurements(paths)
    assert reading.table.schema.names == ["key", "type", "event_time", "receive_time", "size", "n", "x", "y"]
    assert reading.table.select(["size", "n", "x", "y"]).to_pylist() == [
        {"size": None, "n": 1.0, "x": "a", "y": None},
        {"size": 7, "n": 2.5, "x": None, "y": [None]},
        {"size": None, "n": None, "x": None, "y": None},
    ]
    assert reading.malformed.select(["file", "line"]).to_pylist() == [{"file": str(tmp_path / "c.jsonl"), "line": 2}]


def test_files_of_all_formats_are_joined(tmp_path: Path) -> None:
    table = sample_fleet(SMALL)
    paths = [write_table(table, tmp_path / f"a{suffix}") for suffix in (".parquet", ".csv", ".jsonl")]
    words = table.set_column(7, "cause", table["cause"].dictionary_encode())
    paths.append(write_table(words, tmp_path / "b.parquet"))
    assert read_measurements(paths).table.equals(pa.concat_tables([table] * 4))


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ("a", {"a": 1}, "holds struct<a: int64> here and string in what was read before"),
        (1, "a", "holds string here and int64"),
        ({"a": 1}, {"a": "b"}, "holds struct<a: string> here and struct<a: int64>"),
        (2**60 + 1, 0.5, "cannot be joined as double"),
    ],
)
def test_columns_that_cannot_be_one_are_refused_by_file_and_name(
    first: Any, second: Any, kinds: str, tmp_path: Path
) -> None:
    paths = many(tmp_path, a=line(x=first), b=line(x=second))
    with pytest.raises(InvalidFile, match=rf"[ab]\.jsonl: column x .*{kinds}"):
        read_measurements(paths)


def test_no_files_are_no_rows() -> None:
    reading = read_measurements([])
    assert reading.table.schema.names == ["key", "type", "event_time", "receive_time"]
    assert reading.malformed.schema.names == ["file", "line", "reason", "text"]
    assert (reading.table.num_rows, reading.malformed.num_rows) == (0, 0)


# Progress


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_progress_adds_up_to_the_size_of_the_files(suffix: str, tmp_path: Path) -> None:
    paths = [write_table(sample_fleet(SMALL), tmp_path / f"{name}{suffix}") for name in "ab"]
    told: list[int] = []
    with in_blocks(20_000):
        read_measurements(paths, {}, told.append)
    assert sum(told) == sum(path.stat().st_size for path in paths)
    assert min(told) >= 0
    assert len(told) >= (4 if suffix == ".parquet" else 10)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf{}\r\n\r\n{}", b"{}\n" * 100])
@pytest.mark.parametrize("block_size", [1, 7, 1 << 20])
def test_progress_adds_up_whatever_the_lines_are(content: bytes, block_size: int, tmp_path: Path) -> None:
    told: list[int] = []
    with in_blocks(block_size):
        read_measurements([put(tmp_path, content)], {}, told.append)
    assert sum(told) == len(content)


def test_a_block_is_told_when_it_is_done(tmp_path: Path) -> None:
    content = f"{json.dumps(row())}\n"
    told: list[int] = []
    with in_blocks(len(content)):
        read_measurements([put(tmp_path, content * 3)], {}, told.append)
    assert told == [len(content)] * 3
