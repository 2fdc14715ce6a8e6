import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.columnar.columns import MOMENT
from batchline.errors import InvalidFile
from batchline.sources.files import Reading
from tests.sources.measured import NOON, ROW, in_blocks, line, read, reasons, row

# What is malformed, and why

TIME = "expected a time with a zone such as 2026-11-15T12:00:00.000Z"
WHOLE = "size must be a whole number of bytes from 0 to 2**62"
LENGTH = len(line())
MALFORMED = {
    "{": "not JSON: Expecting property name enclosed in double quotes at column 2",
    '{"key" "a"}': "not JSON: Expecting ':' delimiter at column 8",
    "pump-1,flow": "not JSON: Expecting value at column 1",
    f"{line()}{line()}": f"not JSON: Extra data at column {LENGTH + 1}",
    line()[:-1]: f"not JSON: Expecting ',' delimiter at column {LENGTH}",
    '{"key": "a\tb"}': "not JSON: Invalid control character at at column 11",
    line(value=1).replace("1}", "Inf}"): f"not JSON: Expecting value at column {LENGTH + 11}",
    line(value=1).replace("1}", "-NaN}"): f"not JSON: Expecting value at column {LENGTH + 11}",
    line(value=1).replace("1}", "[-Inf]}"): f"not JSON: Expecting value at column {LENGTH + 12}",
    "[1, 2]": "expected a JSON object, got an array",
    "null": "expected a JSON object, got null",
    '"a"': "expected a JSON object, got a string",
    "{}": "key is missing",
    line(key=...): "key is missing",
    line(type=None): "type is missing",
    line(event_time=...): "event_time is missing",
    line(receive_time=None): "receive_time is missing",
    line(key=5): "key must be a string, got 5",
    line(type=["a"]): "type must be a string, got ['a']",
    line(event_time=1794744000): "event_time must be a string, got 1794744000",
    line(event_time="2026-11-15 12:00"): f"event_time: {TIME}, got '2026-11-15 12:00'",
    line(receive_time="x" * 200): f"receive_time: {TIME}, got '{'x' * 79}…",
    line(receive_time="0999-12-31T23:59:59Z"): (
        "receive_time must lie in the years 1000 to 9000, got '0999-12-31T23:59:59Z'"
    ),
    line(event_time="9999-12-31T23:00:00-05:00"): (
        "event_time must lie in the years 1 to 9999, got '9999-12-31T23:00:00-05:00'"
    ),
    line(size=-1): f"{WHOLE}, got -1",
    line(size=1.5): f"{WHOLE}, got 1.5",
    line(size=1.0): f"{WHOLE}, got 1.0",
    line(size=2**62 + 1): f"{WHOLE}, got {2**62 + 1}",
    line(size=2**70): f"{WHOLE}, got {2**70}",
    line(size=True): "size must be a number, got True",
    line(size="7"): "size must be a number, got '7'",
    line(value="warm"): "value must be a number as where it first came, got 'warm'",
    line(place={"lat": "north"}): "place.lat must be a number as where it first came, got 'north'",
    line(tags=[1]): "tags.[] must be a string as where it first came, got 1",
    line(value=1, more=[1, "a"]): "more.[] must be a number as where it first came, got 'a'",
    line(value=1).replace("1}", '1, "value": 2}'): ("not JSON that can be read: an object has two fields of one name"),
    line(value=1).replace("1}", "1e999}"): "not JSON that can be read: Number too big to be stored in double.",
    line(note="\ud800"): "not JSON that can be read: The surrogate pair in string is invalid.",
    line(value=1).replace("1}", "1" * 5000 + "}"): (
        "not JSON that can be read: Exceeds the limit (4300 digits) for integer string conversion: "
        "value has 5000 digits; use sys.set_int_max_str_digits() to increase the limit"
    ),
    line(deep=1).replace("1}", '{"a":' * 70 + "1" + "}" * 71): (
        "not JSON that can be read: values are nested more than 64 deep"
    ),
}


@pytest.mark.parametrize(("bad", "reason"), MALFORMED.items(), ids=[reason[:60] for reason in MALFORMED.values()])
def test_a_malformed_line_is_kept_with_its_reason_and_its_text(bad: str, reason: str, tmp_path: Path) -> None:
    first = line(value=1, size=5, place={"lat": 1.5}, tags=["a"])
    reading = read(tmp_path, f"{first}\n{bad}\n{line(value=2)}\n")
    assert reading.table.num_rows == 2
    assert reading.malformed.to_pylist() == [
        {"file": str(tmp_path / "a.jsonl"), "line": 2, "reason": reason, "text": bad}
    ]


def test_values_nested_beyond_all_measure_are_malformed(tmp_path: Path) -> None:
    deep = line(value=1).replace("1}", "[" * 200_000 + "]" * 200_000 + "}")
    reading = read(tmp_path, f"{line()}\n{deep}\n")
    assert reasons(reading)[2].startswith("not JSON that can be read: maximum recursion depth exceeded")


def test_a_wide_value_is_not_a_deep_one(tmp_path: Path) -> None:
    wide = [{"a": index} for index in range(2_000)]
    assert read(tmp_path, f"{line(value=wide)}\n").table["value"].to_pylist() == [wide]


def test_bytes_that_are_not_utf_8_spoil_only_their_line(tmp_path: Path) -> None:
    bad = line(note="x").encode().replace(b"x", b"\xff\xfe")
    reading = read(tmp_path, b"\n".join([line(note="größer").encode(), bad, line().encode()]))
    assert reading.table["note"].to_pylist() == ["gr\xf6\xdfer", None]
    assert reasons(reading) == {2: "not UTF-8"}
    assert reading.malformed["text"].to_pylist() == [bad.decode("utf-8", "replace")]


def test_an_object_over_two_lines_is_none(tmp_path: Path) -> None:
    halves = line().replace(", ", ",\n", 1)
    # As many objects as lines, so that counting alone does not show it.
    reading = read(tmp_path, f"{line()}{line()}\n{halves}\n")
    assert reading.table.num_rows == 0
    assert list(reasons(reading)) == [1, 2, 3]


# What is read


def test_fields_become_columns_ours_first(tmp_path: Path) -> None:
    content = json.dumps(
        {"value": 1.5, "receive_time": NOON, "ok": True, "type": "flow", "key": "a", "event_time": NOON}
    )
    table = read(tmp_path, content).table
    assert table.schema.names == ["key", "type", "event_time", "receive_time", "value", "ok"]
    assert table.schema.types == [pa.string(), pa.string(), MOMENT, MOMENT, pa.float64(), pa.bool_()]


@pytest.mark.parametrize(
    "content",
    [
        f"{line(n=1)}\n{line(n=2)}\n",
        f"{line(n=1)}\n{line(n=2)}",
        f"{line(n=1)}\r\n{line(n=2)}\r\n",
        f"\ufeff{line(n=1)}\n{line(n=2)}\n",
        f"\n\n{line(n=1)}\n  \n\t{line(n=2)} \n\r\n\n",
    ],
    ids=["plain", "no newline at the end", "CRLF", "byte order mark", "blank lines and blanks"],
)
def test_lines_end_as_they_like(content: str, tmp_path: Path) -> None:
    reading = read(tmp_path, content)
    assert reading.table["n"].to_pylist() == [1, 2]
    assert reading.malformed.num_rows == 0


def test_line_numbers_count_blank_lines_too(tmp_path: Path) -> None:
    reading = read(tmp_path, f"\n\r\n{line()}\n\n{line(key=5)}\r\n  \n{line(event_time='x')}")
    assert list(reasons(reading)) == [5, 7]
    assert reading.malformed["text"].to_pylist() == [line(key=5), line(event_time="x")]


def test_sizes_are_there_if_some_line_has_one(tmp_path: Path) -> None:
    assert read(tmp_path, f"{line(size=5)}\n{line()}\n").table["size"].to_pylist() == [5, None]
    assert "size" not in read(tmp_path, f"{line(size=None)}\n{line()}\n").table.column_names


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b" \r\n "])
def test_a_file_without_lines_has_no_rows(content: bytes, tmp_path: Path) -> None:
    reading = read(tmp_path, content)
    assert reading.table.schema == pa.schema(
        {"key": pa.string(), "type": pa.string(), "event_time": MOMENT, "receive_time": MOMENT}
    )
    assert (reading.table.num_rows, reading.malformed.num_rows) == (0, 0)


def test_text_that_looks_like_a_time_stays_text(tmp_path: Path) -> None:
    rows = [row(day="2026-11-15", at=NOON, n=1), row(day="2026-11-16", at=None, n=2), row(day="later", at=NOON, n=3)]
    content = "\n".join(map(json.dumps, rows))
    for size in (1, 200, 1 << 20):
        with in_blocks(size):
            table = read(tmp_path, content).table
        assert table.select(["day", "at", "n"]).to_pylist() == [
            {name: one[name] for name in ("day", "at", "n")} for one in rows
        ]


def test_numbers_that_python_writes_and_json_does_not_have_are_read(tmp_path: Path) -> None:
    values = read(tmp_path, "\n".join(line(value=value) for value in (math.nan, math.inf, -math.inf, 1))).table["value"]
    assert str(values.to_pylist()) == "[nan, inf, -inf, 1.0]"


def test_lists_may_begin_with_nulls(tmp_path: Path) -> None:
    lists = [[None, 1.5, 1], [None, None], [], None]
    assert read(tmp_path, "\n".join(line(x=x) for x in lists)).table["x"].to_pylist() == lists


def test_numbers_too_long_for_a_float_are_rounded_where_floats_are_among_them(tmp_path: Path) -> None:
    values: list[dict[str, Any]] = [{"n": 2**60 + 1}, {"n": 0.5}, {"n": 10**30}]
    for size in (1, 1 << 20):
        with in_blocks(size):
            table = read(tmp_path, "\n".join(line(x=value, y=value["n"]) for value in values)).table
        assert table["x"].to_pylist() == [{"n": float(value["n"])} for value in values]
        assert table["y"].to_pylist() == [float(value["n"]) for value in values]


# Anything at all: every line is accounted for, wherever the file is cut

scalars = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["", "a", "2026-11-15", NOON])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
changes = st.dictionaries(st.sampled_from(["key", "type", "event_time", "size", "x", "y"]), values, max_size=3)
changed_lines = changes.map(lambda changed: line(**changed))
good_lines = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 9),
        "x": st.integers(-9, 9),
        "y": st.lists(st.none() | st.integers(0, 9), max_size=3),
    },
).map(lambda changed: line(**changed))
odd_lines = st.sampled_from(
    [
        "",
        " ",
        "{",
        "[]",
        "{}",
        "5",
        line()[:-1],
        line() * 2,
        "}\r{",
        "\r",
        line(note="\ud800"),
        line(x=math.inf),
        '{"x":',
        "1}",
    ]
)
file_lines = st.lists(good_lines | changed_lines | odd_lines, max_size=12)


def unread(reading: Reading, content: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that are neither malformed nor, in order, the rows of the table."""
    rows = iter(reading.table.to_pylist())
    malformed = dict(zip(reading.malformed["line"].to_pylist(), reading.malformed["text"].to_pylist(), strict=True))
    for number, text in enumerate(content, 1):
        if number in malformed:
            if malformed.pop(number) != text.removesuffix("\r"):
                yield number, text
        elif text.strip() and not same(next(rows), json.loads(text)):
            yield number, text
    yield from malformed.items()
    yield from ((0, str(left)) for left in rows)


def same(got: dict[str, Any], sent: dict[str, Any]) -> bool:
    return all(alike(got.get(name), sent.get(name)) for name in ("key", "type", "size", "x", "y"))


def alike(got: Any, sent: Any) -> bool:
    """Equal, but that a column's objects have all the fields that any of them has."""
    if isinstance(got, dict) and isinstance(sent, dict):
        return all(alike(got.get(name), sent.get(name)) for name in got.keys() | sent.keys())
    if isinstance(got, list) and isinstance(sent, list):
        return len(got) == len(sent) and all(map(alike, got, sent))
    return bool(got == sent)


@given(file_lines, st.sampled_from(["\n", "\r\n"]), st.integers(1, 300))
@example([line(size=-1, x="a"), line(x=1)], "\n", 1)
@example([line(event_time="never", x="a"), line(x=1)], "\n", 1)
def test_every_line_is_a_row_or_malformed_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, content: list[str], end: str, size: int
) -> None:
    directory = tmp_path_factory.getbasetemp()
    whole = read(directory, end.join(content))
    with in_blocks(size):
        cut = read(directory, end.join(content))
    assert list(unread(whole, content)) == []
    assert cut.table.to_pylist() == whole.table.to_pylist()
    assert cut.table.schema == whole.table.schema
    assert reasons(cut) == reasons(whole)


def test_a_bad_line_sends_only_its_block_the_slow_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    loads = json.loads

    def counted(text: str, **options: Any) -> Any:
        loaded.append(text)
        return loads(text, **options)

    content = "\n".join([*[line(x=1)] * 50, line(x="a"), *[line(x=1)] * 50])
    monkeypatch.setattr(json, "loads", counted)
    with in_blocks(10 * (len(line(x=1)) + 1)):
        reading = read(tmp_path, content)
    assert (reading.table.num_rows, list(reasons(reading))) == (100, [51])
    assert len(loaded) <= 10


def test_a_field_by_the_name_of_a_renamed_one_is_refused(tmp_path: Path) -> None:
    content = "\n".join([json.dumps({"device": "a"} | row(key=...)), json.dumps({"device": "a"} | ROW)])
    with pytest.raises(InvalidFile, match=r"a\.jsonl has a column key beside device, which is to be read as key"):
        read(tmp_path, content, key="device")
