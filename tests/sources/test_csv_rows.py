import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.columnar.columns import MOMENT
from batchline.errors import InvalidFile
from batchline.sources.files import Reading
from tests.sources.measured import NOON, in_blocks, read, reasons

HEADER = "key,type,event_time,receive_time,note"
GOOD = f"pump-1,flow,{NOON},{NOON},ok"


def cells(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines, ""])


def read_csv(directory: Path, content: str | bytes, **names: str) -> Reading:
    return read(directory, content, "a.csv", **names)


def column(directory: Path, *values: str) -> Any:
    """A column of these cells."""
    rows = [f"pump-1,flow,{NOON},{NOON},{value}" for value in values]
    return read_csv(directory, cells(*rows)).table["note"]


# What is malformed, and why

TIME = "expected a time with a zone such as 2026-11-15T12:00:00.000Z"
MALFORMED = {
    f"pump-1,flow,{NOON},{NOON}": "expected 5 cells, got 4",
    f"{GOOD},more": "expected 5 cells, got 6",
    "  ": "expected 5 cells, got 1",
    f",flow,{NOON},{NOON},ok": "key is missing",
    f'"",flow,{NOON},{NOON},ok': "key is missing",
    f"pump-1,,{NOON},{NOON},ok": "type is missing",
    f"pump-1,flow,,{NOON},ok": "event_time is missing",
    f'pump-1,flow,{NOON},"",ok': "receive_time is missing",
    f"pump-1,flow,2026-11-15 12:00,{NOON},ok": f"event_time: {TIME}, got '2026-11-15 12:00'",
    f"pump-1,flow,{NOON},9000-01-01T00:00:00.1Z,ok": (
        "receive_time must lie in the years 1000 to 9000, got '9000-01-01T00:00:00.1Z'"
    ),
    f"pump-1,flow,{NOON},{NOON},o\rk": ("not CSV: new-line character seen in unquoted field"),
}


@pytest.mark.parametrize(("bad", "reason"), MALFORMED.items(), ids=[reason[:60] for reason in MALFORMED.values()])
@pytest.mark.parametrize("after", [GOOD, f'pump-1,flow,{NOON},{NOON},"o,k"'], ids=["plain", "quoted"])
def test_a_malformed_line_is_kept_with_its_reason_and_its_text(
    bad: str, reason: str, after: str, tmp_path: Path
) -> None:
    reading = read_csv(tmp_path, cells(GOOD, bad, after))
    assert reading.table.num_rows == 2
    assert reading.malformed.to_pylist() == [
        {"file": str(tmp_path / "a.csv"), "line": 3, "reason": reason, "text": bad}
    ]


@pytest.mark.parametrize("size", ["-1", "1.5", "x", " 7", str(2**62 + 1), str(2**63), "1" * 30, '""'])
def test_a_size_that_is_none_is_malformed(size: str, tmp_path: Path) -> None:
    reading = read_csv(tmp_path, cells(f"{GOOD},5", f"{GOOD},{size}", f"{GOOD},", header=f"{HEADER},size"))
    shown = repr(size.strip('"'))
    assert reasons(reading) == {3: f"size must be a whole number of bytes from 0 to 2**62, got {shown}"}
    assert reading.table["size"].to_pylist() == [5, None]
    assert reading.table["size"].type == pa.int64()


def test_a_quote_that_is_never_closed_takes_only_its_line(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, cells(GOOD, f'"{GOOD}', *[GOOD] * 300))
    assert reading.table.num_rows == 301
    assert reasons(reading) == {3: "not CSV: a quote is not closed"}


def test_bytes_that_are_not_utf_8_spoil_only_their_record(tmp_path: Path) -> None:
    bad = f'pump-1,flow,{NOON},{NOON},"a\n'.encode() + b'\xff"'
    reading = read_csv(tmp_path, cells(GOOD).encode() + bad + b"\n" + GOOD.encode())
    assert reading.table.num_rows == 2
    assert reading.malformed.select(["line", "reason", "text"]).to_pylist() == [
        {"line": 3, "reason": "not UTF-8", "text": bad.decode("utf-8", "replace")}
    ]


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    spanning = f'pump-1,flow,{NOON},{NOON},"a\n\nb"'
    late = f"pump-1,flow,noon,{NOON},ok"
    reading = read_csv(tmp_path, f"\n\r\n{HEADER}\n{spanning}\n\n{late}\r\n{spanning}\n{late}")
    assert list(reasons(reading)) == [8, 12]
    assert reading.malformed["text"].to_pylist() == [late, late]
    assert reading.table["note"].to_pylist() == ["a\n\nb"] * 2


# What is read


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{GOOD}\n{GOOD}\n",
        f"{HEADER}\n{GOOD}\n{GOOD}",
        f"{HEADER}\r\n{GOOD}\r\n{GOOD}\r\n",
        f"\ufeff{HEADER}\n{GOOD}\n{GOOD}\n",
        f"\n{HEADER}\n\n{GOOD}\n\r\n{GOOD}\n\n",
        f'"key","type",event_time,receive_time,note\n{GOOD}\n{GOOD}',
        f'{HEADER}\n"pump-1","flow","{NOON}","{NOON}","ok"\n{GOOD}\n',
    ],
    ids=["plain", "no newline at the end", "CRLF", "byte order mark", "empty lines", "quoted names", "quoted cells"],
)
def test_lines_end_and_cells_are_quoted_as_they_like(content: str, tmp_path: Path) -> None:
    reading = read_csv(tmp_path, content)
    assert reading.table.select(["key", "note"]).to_pylist() == [{"key": "pump-1", "note": "ok"}] * 2
    assert reading.malformed.num_rows == 0


@pytest.mark.parametrize(
    ("values", "expected", "kind"),
    [
        (["1", "-2", ""], [1, -2, None], pa.int64()),
        (["1", "2.5", "-1e3"], [1.0, 2.5, -1000.0], pa.float64()),
        (["inf", "-inf", ""], [float("inf"), float("-inf"), None], pa.float64()),
        (["true", "False"], [True, False], pa.bool_()),
        (["1", "x"], ["1", "x"], pa.string()),
        (["007", "8"], ["007", "8"], pa.string()),
        (["0x10", "8"], ["0x10", "8"], pa.string()),
        (["1" * 19, "9" * 19], ["1" * 19, "9" * 19], pa.string()),
        (["2026-11-15", NOON], ["2026-11-15", NOON], pa.string()),
        (["12:30", ""], ["12:30", None], pa.string()),
        (["a", '""', ""], ["a", "", None], pa.string()),
        (['" a"', " b "], [" a", " b "], pa.string()),
        (["", ""], [None, None], pa.null()),
    ],
)
@pytest.mark.parametrize("block_size", [1, 1 << 20])
def test_a_column_is_what_all_its_cells_are(
    values: list[str], expected: list[Any], kind: pa.DataType, block_size: int, tmp_path: Path
) -> None:
    with in_blocks(block_size):
        notes = column(tmp_path, *values)
    assert notes.to_pylist() == expected
    assert notes.type == kind


def test_a_header_alone_has_columns_and_no_rows(tmp_path: Path) -> None:
    for content in (HEADER, f"{HEADER}\n"):
        table = read_csv(tmp_path, content).table
        assert table.schema.names == HEADER.split(",")
        assert table.schema.types[:4] == [pa.string(), pa.string(), MOMENT, MOMENT]
        assert table.num_rows == 0


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_rows(content: bytes, tmp_path: Path) -> None:
    reading = read_csv(tmp_path, content)
    assert (reading.table.num_rows, reading.malformed.num_rows) == (0, 0)


# Headers


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "device,type,event_time,receive_time",
            r"a\.csv has no column key; its columns are device, type, .*; to name another one: --columns key=NAME",
        ),
        ("key;type", r"has no column key, type, event_time, receive_time; its columns are key;type; .*key=NAME"),
        (f"{HEADER},note", "has more than one column note"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(header: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=message):
        read_csv(tmp_path, f"{header}\n{GOOD}\n")


def test_a_header_that_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"a\.csv: expected the names of the columns in the first line"):
        read_csv(tmp_path, b"\xff\xfe\n1,2\n")


def test_a_column_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"has no column bytes; .* --columns size=NAME"):
        read_csv(tmp_path, cells(GOOD), size="bytes")


# Anything at all

texts = st.text(st.sampled_from('ab ,"\n\r'), max_size=4)
records = st.lists(texts, min_size=4, max_size=6).map(
    lambda extra: [extra[0] or "k", "t", NOON, NOON, *extra[4:]] if len(extra) > 4 else extra
)
rough_lines = st.text(st.sampled_from('a,"\r\n '), max_size=12)


def as_csv(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def accounted(reading: Reading, content: str) -> bool:
    """Whether the lines of the content, less the header and empty ones, are as many as were read."""
    spanned: int = sum(text.count("\n") + 1 for text in reading.malformed["text"].to_pylist())
    for row in reading.table.to_pylist():
        spanned += 1 + sum(str(value).count("\n") for name, value in row.items() if name in ("key", "type", "note"))
    return spanned == len([line for line in content.split("\n")[1:] if line.removesuffix("\r")])


@given(
    st.lists(st.lists(st.text(st.sampled_from('ab ,"é'), min_size=1, max_size=4), min_size=5, max_size=5), max_size=6)
)
def test_quoted_cells_are_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    lines = [as_csv([key, type_, NOON, NOON, note]) for key, type_, _, _, note in rows]
    reading = read_csv(tmp_path_factory.getbasetemp(), cells(*lines))
    assert reading.table.select(["key", "type", "note"]).to_pylist() == [
        {"key": row[0], "type": row[1], "note": row[4]} for row in rows
    ]


@given(
    st.lists(st.just(GOOD) | st.sampled_from(list(MALFORMED)[:6]) | st.text("ab, ", max_size=9), max_size=9),
    st.integers(1, 200),
)
def test_every_line_is_a_row_or_malformed_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    directory, content = tmp_path_factory.getbasetemp(), cells(*lines)
    whole = read_csv(directory, content)
    with in_blocks(size):
        cut = read_csv(directory, content)
    assert accounted(whole, content)
    assert (cut.table, cut.malformed) == (whole.table, whole.malformed)
    assert whole.malformed["text"].to_pylist() == [lines[number - 2] for number in reasons(whole)]


@given(
    st.lists(st.just(GOOD) | records.map(as_csv) | rough_lines, max_size=9),
    st.integers(1, 200),
    st.sampled_from([1, 30]),
)
def test_rough_quotes_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int, times: int
) -> None:
    directory, content = tmp_path_factory.getbasetemp(), cells(*lines * times)
    whole = read_csv(directory, content)
    kept = [whole.malformed["text"].to_pylist(), *(whole.table[name].to_pylist() for name in ("key", "note"))]
    assert str(kept).count("b") == content.removeprefix(HEADER).count("b")
    with in_blocks(size * times):
        cut = read_csv(directory, content)
    assert (cut.table, cut.malformed) == (whole.table, whole.malformed)


def test_cells_of_several_lines_are_whole_wherever_the_file_is_cut(tmp_path: Path) -> None:
    spanning = f'pump-1,flow,{NOON},{NOON},"one\ntwo ""2""\nthree"'
    content = cells(*[spanning, GOOD, "bad"] * 100)
    for size in range(600, 700, 7):
        with in_blocks(size):
            reading = read_csv(tmp_path, content)
        assert reading.table["note"].to_pylist() == ['one\ntwo "2"\nthree', "ok"] * 100
        assert list(reasons(reading)) == list(range(6, 6 + 500, 5))
