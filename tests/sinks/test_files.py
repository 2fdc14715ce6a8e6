import csv
import json
import math
import os
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.errors import InvalidFile
from batchline.sinks import lines
from batchline.sinks.files import FORMATS, write_table, write_text
from batchline.sources.sample import Fleet, sample_fleet

SMALL = Fleet(devices=20, minutes=0.1)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def written(table: pa.Table, path: Path) -> str:
    return write_table(table, path).read_text(encoding="utf-8")


def json_rows(path: Path) -> list[dict[str, Any]]:
    # Only \n ends a line of JSON: str.splitlines would cut at characters that strings may hold.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def csv_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


# Whole or not at all


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_is_written_into_a_new_directory_and_nothing_else_is(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / f"measurements{suffix}"
    assert write_table(sample_fleet(SMALL), path) == path
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_table_gives_the_same_file_to_the_byte(suffix: str, tmp_path: Path) -> None:
    first, second = (write_table(sample_fleet(SMALL), tmp_path / f"{name}{suffix}") for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_an_earlier_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_table(pa.table({"n": [1]}), path)
    write_table(pa.table({"n": [2, 3]}), path)
    assert pa_parquet.read_table(path).to_pydict() == {"n": [2, 3]}


def test_a_table_that_cannot_be_written_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_table(pa.table({"n": [1]}), tmp_path / "a.csv")
    with pytest.raises(InvalidFile, match="column b of type binary"):
        write_table(pa.table({"n": [1], "b": [b"x"]}), path)
    assert path.read_text() == "n\n1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fails_leaves_the_earlier_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_text("before", tmp_path / "a.txt")

    def fill_the_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill_the_disk)
    with pytest.raises(InvalidFile, match=r"a\.txt cannot be written: .*No space left") as caught:
        write_text("after", path)
    assert isinstance(caught.value.__cause__, OSError)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("sync")
        sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    assert steps == ["sync", "rename", "sync"]  # the last one is the directory's


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidFile, match=r"taken/a\.csv cannot be written: .*exists"):
        write_table(pa.table({"n": [1]}), tmp_path / "taken" / "a.csv")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_file_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(InvalidFile, match="cannot be written"):
        write_table(pa.table({"n": [1]}), tmp_path / "a.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("name", ["a.xml", "a"])
def test_an_unknown_format_is_refused_with_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"one of \.parquet, \.jsonl, \.csv"):
        write_table(pa.table({"n": [1]}), tmp_path / "never" / name)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_column_there_twice_is_refused(suffix: str, tmp_path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    with pytest.raises(InvalidFile, match="more than one column n"):
        write_table(table, tmp_path / f"a{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_written_as_utf_8_whatever_the_suffix(tmp_path: Path) -> None:
    path = write_text("<p>größer ≥ 1</p>\r\n", tmp_path / "new" / "page.html")
    assert path.read_bytes() == "<p>größer ≥ 1</p>\r\n".encode()
    assert list(path.parent.iterdir()) == [path]


# Lines

VALUES: list[tuple[str, Any, pa.DataType, str, str]] = [
    ("a word", "pump-1", pa.string(), '"pump-1"', "pump-1"),
    ("quotes and commas", 'a "b", c', pa.string(), '"a \\"b\\", c"', '"a ""b"", c"'),
    ("line ends", "a\r\nb", pa.string(), '"a\\r\\nb"', '"a\r\nb"'),
    ("a control character", "a\x01", pa.string(), '"a\\u0001"', "a\x01"),
    ("letters beyond ASCII", "größer", pa.string(), '"größer"', "größer"),
    ("an empty text", "", pa.string(), '""', '""'),
    ("no text", None, pa.string(), "null", ""),
    ("a large text", 'a"', pa.large_string(), '"a\\""', '"a"""'),
    ("a text as a view", "a", pa.string_view(), '"a"', "a"),
    ("a text from a dictionary", "a,b", pa.dictionary(pa.int32(), pa.string()), '"a,b"', '"a,b"'),
    ("a whole number", -(2**63), pa.int64(), "-9223372036854775808", "-9223372036854775808"),
    ("an unsigned number", 2**64 - 1, pa.uint64(), "18446744073709551615", "18446744073709551615"),
    ("a float", 0.1, pa.float64(), "0.1", "0.1"),
    ("a whole float", 54.0, pa.float64(), "54.0", "54.0"),
    ("a minus zero", -0.0, pa.float64(), "-0.0", "-0.0"),
    ("a large float", 1e300, pa.float64(), "1e+300", "1e+300"),
    ("a short float", 0.1, pa.float32(), "0.1", "0.1"),
    ("a shorter float", 1.5, pa.float16(), "1.5", "1.5"),
    ("not a number", math.nan, pa.float64(), "null", "nan"),
    ("infinity", -math.inf, pa.float64(), "null", "-inf"),
    ("no float", None, pa.float64(), "null", ""),
    ("a decimal", Decimal("1.50"), pa.decimal128(5, 2), "1.50", "1.50"),
    ("true", True, pa.bool_(), "true", "true"),
    ("nothing", None, pa.null(), "null", ""),
    ("a date", date(2026, 11, 15), pa.date32(), '"2026-11-15"', "2026-11-15"),
    ("a time of day", time(12, 30), pa.time64("us"), '"12:30:00.000000"', "12:30:00.000000"),
    ("a moment", NOON, pa.timestamp("us", "UTC"), '"2026-11-15T12:00:00.000000Z"', "2026-11-15T12:00:00.000000Z"),
    (
        "a moment elsewhere",
        NOON.astimezone(timezone(timedelta(hours=1))),
        pa.timestamp("ms", "Europe/Berlin"),
        '"2026-11-15T12:00:00.000000Z"',
        "2026-11-15T12:00:00.000000Z",
    ),
    (
        "a finer moment before 1970",
        -1,
        pa.timestamp("ns", "UTC"),
        '"1969-12-31T23:59:59.999999Z"',
        "1969-12-31T23:59:59.999999Z",
    ),
    ("a time without a zone", 0, pa.timestamp("s"), '"1970-01-01T00:00:00.000000"', "1970-01-01T00:00:00.000000"),
    ("no moment", None, pa.timestamp("us", "UTC"), "null", ""),
]


def of(value: Any, kind: pa.DataType) -> pa.Table:
    values: Any = [value] if not pa.types.is_dictionary(kind) else pa.array([value])
    return pa.table({"x": pa.array(values, kind) if isinstance(values, list) else values.cast(kind), "n": [7]})


@pytest.mark.parametrize(("value", "kind", "cell"), [pytest.param(*case[1:4], id=case[0]) for case in VALUES])
def test_json_lines_hold(value: Any, kind: pa.DataType, cell: str, tmp_path: Path) -> None:
    path = write_table(of(value, kind), tmp_path / "a.jsonl")
    assert path.read_bytes().decode() == f'{{"x":{cell},"n":7}}\n'
    assert json_rows(path)[0]["n"] == 7


@pytest.mark.parametrize(("value", "kind", "cell"), [pytest.param(*case[1:3], case[4], id=case[0]) for case in VALUES])
def test_csv_cells_hold(value: Any, kind: pa.DataType, cell: str, tmp_path: Path) -> None:
    path = write_table(of(value, kind), tmp_path / "a.csv")
    assert path.read_bytes().decode() == f"x,n\n{cell},7\n"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("value", [b"x", [1], {"a": 1}, timedelta(seconds=1)])
def test_what_is_no_text_is_refused_by_column_and_type(suffix: str, value: Any, tmp_path: Path) -> None:
    table = pa.table({"odd": [value]})
    with pytest.raises(InvalidFile, match=r"column odd of type .* cannot be written as text; Parquet can"):
        write_table(table, tmp_path / f"a{suffix}")
    write_table(table, tmp_path / "a.parquet")


@pytest.mark.parametrize("us", [2**62, -(2**62), 253_402_300_800_000_000])
def test_a_time_whose_year_has_not_four_digits_is_refused(us: int, tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([us, 0], pa.timestamp("us", "UTC"))})
    with pytest.raises(InvalidFile, match="column t has times outside the years 1 to 9999"):
        write_table(table, tmp_path / "a.jsonl")


def test_names_of_columns_are_escaped(tmp_path: Path) -> None:
    table = pa.table({'a "b"': [1], "c,d": [2]})
    assert written(table, tmp_path / "a.jsonl") == '{"a \\"b\\"":1,"c,d":2}\n'
    assert csv_rows(write_table(table, tmp_path / "a.csv")) == [['a "b"', "c,d"], ["1", "2"]]


@pytest.mark.parametrize(("suffix", "content"), [(".jsonl", ""), (".csv", "a,b\n")])
def test_a_table_without_rows_is_a_file_without_lines(suffix: str, content: str, tmp_path: Path) -> None:
    table = pa.schema([("a", pa.string()), ("b", pa.float64())]).empty_table()
    assert written(table, tmp_path / f"a{suffix}") == content


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_table_without_columns_has_no_lines(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="without columns"):
        write_table(pa.table({}), tmp_path / f"a{suffix}")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_lines_are_the_same_however_the_table_is_cut(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sample_fleet(SMALL)
    whole = written(table, tmp_path / f"whole{suffix}")
    monkeypatch.setattr(lines, "ROWS_AT_ONCE", 7)
    halves = pa.concat_tables([table.slice(0, 30), table.slice(30)])
    assert written(halves, tmp_path / f"cut{suffix}") == whole


texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
moments = st.none() | st.datetimes(timezones=st.just(UTC))


@given(st.lists(st.tuples(texts, numbers, moments), max_size=20))
def test_json_reads_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    kinds = (pa.string(), pa.float64(), pa.timestamp("us", "UTC"))
    columns = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(kinds)]
    path = tmp_path_factory.getbasetemp() / "a.jsonl"
    read = json_rows(write_table(pa.table(columns, names=["text", "number", "moment"]), path))
    iso = [moment and f"{moment.isoformat(timespec='microseconds')[:26]}Z" for _, _, moment in rows]
    assert [(row["text"], row["number"]) for row in read] == [row[:2] for row in rows]
    assert [row["moment"] for row in read] == iso


@given(st.lists(st.tuples(texts, texts), max_size=20))
def test_csv_reads_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]]) -> None:
    columns = [pa.array([row[index] for row in rows], pa.string()) for index in range(2)]
    path = write_table(pa.table(columns, names=["a", "b"]), tmp_path_factory.getbasetemp() / "a.csv")
    assert csv_rows(path) == [["a", "b"], *([a or "", b or ""] for a, b in rows)]
