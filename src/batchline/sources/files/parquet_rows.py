"""Parquet: its columns have types, so that a wrong one is refused before a row is read."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from batchline.columnar.columns import MOMENT, is_text
from batchline.errors import InvalidFile
from batchline.sources.files.headers import check_header
from batchline.sources.files.pieces import Names, Piece
from batchline.sources.files.times import EXPECTED
from batchline.sources.files.values import plain

__all__ = ["parquet_pieces"]

#: Rows of a piece.
ROWS_AT_ONCE: Final = 1 << 17


def parquet_pieces(path: Path, names: Names, on_bytes: Callable[[int], None]) -> Iterator[Piece]:
    """The rows of a file, some of a row group at a time."""
    with pa_parquet.ParquetFile(path) as file:
        schema = _with_moments(file)
        check_header(path, schema.names, names)
        _check_types(path, schema, names)
        yield _piece(schema.empty_table(), 1)
        first, told = 1, 0
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(ROWS_AT_ONCE, [group]):
                table = pa.Table.from_batches([batch]).cast(schema, safe=False)
                yield _piece(table, first)
                first += len(table)
            told += _bytes_of(file.metadata.row_group(group))
            on_bytes(_bytes_of(file.metadata.row_group(group)))
    on_bytes(path.stat().st_size - told)  # the rest is the file's own bookkeeping


def _with_moments(file: pa_parquet.ParquetFile) -> pa.Schema:
    """The columns of a file. Times as Spark writes them by default, in 96 bits, have no zone, and are in UTC."""
    old = {
        column.path
        for column in (file.schema.column(index) for index in range(len(file.schema)))
        if column.physical_type == "INT96"
    }
    return pa.schema([field.with_type(MOMENT) if field.name in old else field for field in file.schema_arrow])


def _bytes_of(group: Any) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def _piece(table: pa.Table, first: int) -> Piece:
    return Piece(table, partial(_place, table, first), [])


def _place(table: pa.Table, first: int, rows: Sequence[int]) -> list[tuple[int, str]]:
    """The numbers of rows, and, as they have no text, their values as JSON."""
    values = [{name: plain(table[name][row]) for name in table.column_names} for row in rows]
    return [(first + row, json.dumps(value, default=str)) for row, value in zip(rows, values, strict=True)]


def _check_types(path: Path, schema: pa.Schema, names: Names) -> None:
    for name in ("key", "type"):
        _check(path, schema, names[name], is_text, "strings")
    for name in ("event_time", "receive_time"):
        _check(path, schema, names[name], _is_time, f"timestamps with a time zone, or text: {EXPECTED}")
    if names["size"] in schema.names:
        _check(path, schema, names["size"], pa.types.is_integer, "whole numbers of bytes")


def _check(path: Path, schema: pa.Schema, column: str, fits: Callable[[pa.DataType], bool], expected: str) -> None:
    kind = schema.field(column).type
    if not fits(kind):
        naive = ", naive times" if pa.types.is_timestamp(kind) and kind.tz is None else ""
        raise InvalidFile(f"{path}: column {column} must hold {expected}; it holds {kind}{naive}")


def _is_time(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_timestamp(kind) and kind.tz is not None)
