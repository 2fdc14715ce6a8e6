"""A file's columns as measurements: each value checked by column, each row that is wrong given its reason."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import NEEDED, is_text
from batchline.core.measurement import LARGEST_SIZE
from batchline.core.moment import EARLIEST_RECEIVE_US, EARLIEST_US, LATEST_RECEIVE_US, LATEST_US
from batchline.sources.files.pieces import Names
from batchline.sources.files.times import EXPECTED, moments_from_texts, moments_from_timestamps

__all__ = ["NAMEABLE", "SIZE_RULE", "measurements_of", "plain", "rest_of", "shown_value"]

#: The columns of ours that may have another name in a file.
NAMEABLE: Final = (*NEEDED, "size")
SIZE_RULE: Final = "must be a whole number of bytes from 0 to 2**62"
LONGEST_SHOWN: Final = 80

#: Why a row is no measurement, by row; the first reason found stays.
Reasons: TypeAlias = dict[int, str]


def measurements_of(raw: pa.Table, names: Names) -> tuple[pa.Table, Reasons]:
    """The rows with our columns, checked, before all others; and why some of them are no measurements."""
    reasons: Reasons = {}
    columns = {name: _text(raw, name, names, reasons) for name in ("key", "type")}
    columns["event_time"] = _time(raw, "event_time", names, reasons, (EARLIEST_US, LATEST_US, "1 to 9999"))
    receive_bounds = (EARLIEST_RECEIVE_US, LATEST_RECEIVE_US, "1000 to 9000")
    columns["receive_time"] = _time(raw, "receive_time", names, reasons, receive_bounds)
    if names["size"] in raw.column_names:
        columns["size"] = _size(raw, names, reasons)
    return pa.table(columns | {name: raw[name] for name in rest_of(raw.column_names, names)}), reasons


def rest_of(columns: Iterable[str], names: Names) -> list[str]:
    """The columns of a file that are none of ours."""
    used = set(names.values())
    return [name for name in columns if name not in used]


def _text(raw: pa.Table, name: str, names: Names, reasons: Reasons) -> Any:
    column = raw[names[name]].cast(pa.string())
    _note(reasons, column.is_null(), f"{_label(name, names)} is missing")
    return column


def _time(raw: pa.Table, name: str, names: Names, reasons: Reasons, bounds: tuple[int, int, str]) -> Any:
    column, label, (least, most, years) = raw[names[name]], _label(name, names), bounds
    _note(reasons, column.is_null(), f"{label} is missing")
    if is_text(column.type):
        column = column.cast(pa.string())
        moments = moments_from_texts(column)
        _note(reasons, moments.is_null(), f"{label}: expected {EXPECTED}", column)
    else:
        moments = moments_from_timestamps(column)
    _note(reasons, _outside(moments.cast(pa.int64()), least, most), f"{label} must lie in the years {years}", column)
    return moments


def _size(raw: pa.Table, names: Names, reasons: Reasons) -> Any:
    column, rule = raw[names["size"]], f"{_label('size', names)} {SIZE_RULE}"
    numbers = column
    if pa.types.is_string(column.type):
        whole = pc.match_substring_regex(column, r"^\d{1,19}$")
        _note(reasons, pc.invert(whole), rule, column)
        numbers = pc.if_else(whole, column, pa.scalar(None, column.type)).cast(pa.uint64())
    numbers = numbers.cast(pa.uint64() if pa.types.is_unsigned_integer(numbers.type) else pa.int64())
    outside = _outside(numbers, 0, LARGEST_SIZE)
    _note(reasons, outside, rule, column)
    return pc.if_else(outside, pa.scalar(None, numbers.type), numbers).cast(pa.int64())


def _outside(numbers: Any, least: int, most: int) -> Any:
    low, high = (pa.scalar(bound, numbers.type) for bound in (least, most))
    return pc.or_(pc.less(numbers, low), pc.greater(numbers, high))


def _label(name: str, names: Names) -> str:
    return name if names[name] == name else f"{name} ({names[name]})"


def _note(reasons: Reasons, wrong: Any, reason: str, column: Any = None) -> None:
    if not pc.any(wrong).as_py():
        return
    rows = np.flatnonzero(pc.fill_null(wrong, False).to_numpy())
    shown = [""] * len(rows) if column is None else [f", got {shown_value(plain(one))}" for one in column.take(rows)]
    for row, value in zip(rows.tolist(), shown, strict=True):
        reasons.setdefault(row, reason + value)


def shown_value(value: object) -> str:
    """A value as an error message shows it: not longer than a line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def plain(scalar: Any) -> Any:
    """A value of a column as Python has it; of what Python cannot have, a time in the year 20000, as Arrow has it."""
    try:
        return scalar.as_py()
    except (LookupError, OverflowError, ValueError):
        return f"{scalar.value} {scalar.type.unit} since 1970" if pa.types.is_timestamp(scalar.type) else repr(scalar)
