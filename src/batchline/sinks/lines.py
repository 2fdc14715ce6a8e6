"""Tables as lines of text, JSON or CSV: each column becomes text as a whole, then the columns are joined to lines."""

import json
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import is_text
from batchline.core.moment import EARLIEST_US, LATEST_US
from batchline.errors import InvalidFile

__all__ = ["write_csv", "write_json_lines"]

ROWS_AT_ONCE: Final = 65_536
Test: TypeAlias = Callable[[pa.DataType], bool]
#: What stands without quotes.
NUMBERS: Final[tuple[Test, ...]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_null,
)
#: What needs quotes, but no escaping.
PLAIN: Final[tuple[Test, ...]] = (pa.types.is_date, pa.types.is_time)


def write_json_lines(table: pa.Table, file: IO[bytes]) -> None:
    """Writes a JSON object for each row; null is null, and so is a number that JSON does not have."""
    openings = [f"{mark}{json.dumps(name, ensure_ascii=False)}:" for mark, name in _marked("{", table)]
    _write_lines(table, file, openings, _json, "}\n")


def write_csv(table: pa.Table, file: IO[bytes]) -> None:
    """Writes a header and a line for each row; null is an empty cell, an empty text a quoted one."""
    names: Any = pa.array(table.column_names, pa.string())
    file.write(",".join(_quoted(names).to_pylist()).encode() + b"\n")
    _write_lines(table, file, [mark for mark, _ in _marked("", table)], _csv, "\n")


def _marked(first: str, table: pa.Table) -> list[tuple[str, str]]:
    return [("," if index else first, name) for index, name in enumerate(table.column_names)]


def _write_lines(
    table: pa.Table, file: IO[bytes], openings: Sequence[str], cells: Callable[[str, Any], Any], end: str
) -> None:
    if not openings:
        raise InvalidFile("a table without columns cannot be written as lines")
    # An array without rows has bytes in its buffer all the same.
    for batch in filter(len, table.to_batches(ROWS_AT_ONCE)):
        texts = map(cells, table.column_names, batch.columns)
        pieces: Any = [part for pair in zip(openings, texts, strict=True) for part in pair]
        file.write(pc.binary_join_element_wise(*pieces, end, "").buffers()[2])


def _json(name: str, column: Any) -> Any:
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    text = _text(name, column)
    if not _is_number(kind):
        text = _escaped(text) if is_text(kind) else pc.binary_join_element_wise('"', text, '"', "")
    return pc.fill_null(text, "null")


def _escaped(text: Any) -> Any:
    # Few values, many rows: each value is escaped once.
    words = text.dictionary_encode()
    escaped = [json.dumps(word, ensure_ascii=False) for word in words.dictionary.to_pylist()]
    return pa.array(escaped, pa.string()).take(words.indices)


def _csv(name: str, column: Any) -> Any:
    text = _text(name, column)
    return pc.fill_null(_quoted(text) if is_text(column.type) else text, "")


def _quoted(text: Any) -> Any:
    special = pc.match_substring_regex(text, r'^$|[",\r\n]')
    if not pc.any(special).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), text)


def _text(name: str, column: Any) -> Any:
    """A column as text that reads back as the same values."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _moment(name, column)
    if pa.types.is_floating(kind):
        return _float(column)
    if _is_number(kind) or is_text(kind) or any(is_a(kind) for is_a in PLAIN):
        return column.cast(pa.string())
    raise InvalidFile(f"column {name} of type {kind} cannot be written as text; Parquet can hold it")


def _is_number(kind: pa.DataType) -> bool:
    return any(is_a(kind) for is_a in NUMBERS)


def _moment(name: str, column: Any) -> Any:
    """ISO-8601 with microseconds; in UTC, as the Z says, if the column has a zone."""
    zone = "Z" if column.type.tz else ""
    if column.type.unit == "ns":
        column = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond")
    # Without its zone, which is UTC inside, a moment is written ten times as fast.
    moments = column.cast(pa.timestamp("us"))
    _check_years(name, moments)
    text = moments.cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_replace_slice(text, 10, 11, "T"), zone, "")


def _check_years(name: str, moments: Any) -> None:
    """The years have four digits: ISO-8601 has no others."""
    first, last = pc.min_max(moments.cast(pa.int64())).as_py().values()
    if first is not None and not EARLIEST_US <= first <= last <= LATEST_US:
        raise InvalidFile(f"column {name} has times outside the years 1 to 9999, which cannot be written as text")


def _float(column: Any) -> Any:
    """With a point in it, so that whole ones read back as floats."""
    text = column.cast(pa.string())
    whole = pc.match_substring_regex(text, r"^-?\d+$")
    return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
