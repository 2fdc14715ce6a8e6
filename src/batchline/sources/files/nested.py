"""Objects and arrays inside JSON lines, as columns.

Arrow's own reader loses the nulls that a list begins with (apache/arrow#51305): these columns are built from what the
json module reads, and Arrow is only asked for their type.
"""

import json
from typing import Any

import pyarrow as pa

__all__ = ["rebuild_nested"]


def rebuild_nested(table: pa.Table, lines: bytes) -> pa.Table:
    """The table with its nested columns read again from its lines."""
    nested = [(index, field) for index, field in enumerate(table.schema) if pa.types.is_nested(field.type)]
    # No string holds a newline, and one array is read faster than many objects.
    rows = json.loads(b"[%b]" % lines.replace(b"\n", b",")) if nested else []
    for index, field in nested:
        kind = _as_written(field.type)
        table = table.set_column(index, field.name, _column([row.get(field.name) for row in rows], kind))
    return table


def _column(values: list[Any], kind: pa.DataType) -> Any:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array([_fit(value, kind) for value in values], kind)


def _as_written(kind: pa.DataType) -> pa.DataType:
    """The type without times: Arrow takes texts that look like times for timestamps."""
    if pa.types.is_list(kind):
        return pa.list_(_as_written(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _as_written(field.type)) for field in kind])
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _fit(value: Any, kind: pa.DataType) -> Any:
    """The value with floats where the type has them: Arrow takes no long whole number for a float."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_list(kind):
        return [_fit(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _fit(value.get(field.name), field.type) for field in kind}
    return value
