"""Tables of unlike columns as one: what one lacks is null there, whole numbers give way to broken ones."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from batchline.errors import InvalidFile

__all__ = ["join"]


def join(parts: Sequence[tuple[Path, pa.Table]], *, exact: bool = True) -> pa.Table:
    """The rows of all tables, in order; a column that cannot be joined is refused with the name of its file.

    Unless `exact`, a whole number too long for a float is rounded, as one JSON file's numbers are.
    """
    types: dict[str, pa.DataType] = {}
    for path, table in parts:
        for field in table.schema:
            types[field.name] = _wider(path, field, types.get(field.name, field.type))
    return pa.concat_tables([_widen(path, table, types, exact) for path, table in parts])


def _wider(path: Path, field: pa.Field, known: pa.DataType) -> pa.DataType:
    if known == field.type:
        return known
    pair = [pa.schema([(field.name, _plain(kind))]) for kind in (known, field.type)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = f"holds {field.type} here and {known} in what was read before"
        raise InvalidFile(f"{path}: column {field.name} {reason}, which cannot be one column") from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """Two ways to store strings are not two kinds of column."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.string() if pa.types.is_string_view(kind) else kind


def _widen(path: Path, table: pa.Table, types: dict[str, pa.DataType], exact: bool) -> pa.Table:
    columns = {}
    for name, kind in types.items():
        column = table[name] if name in table.column_names else pa.nulls(len(table), kind)
        try:
            columns[name] = column if column.type == kind else column.cast(kind, safe=exact)
        except pa.ArrowInvalid as error:
            raise InvalidFile(f"{path}: column {name} cannot be joined as {kind}: {error}") from error
    return pa.table(columns)
