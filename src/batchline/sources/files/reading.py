"""Measurements from files: JSON lines, CSV and Parquet.

    files_of ─► a reader for the format ─► pieces ─► values checked ─► joined by file ─► joined over all
                                             └─► malformed ◄─┘

Each line that is not blank becomes a measurement, or is malformed with a reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from batchline.columnar.columns import MOMENT
from batchline.errors import InvalidFile, InvalidInput, did_you_mean
from batchline.sources.files.csv_rows import csv_pieces, with_types
from batchline.sources.files.headers import check_taken
from batchline.sources.files.joining import join
from batchline.sources.files.json_lines import json_pieces, without_empty_size
from batchline.sources.files.parquet_rows import parquet_pieces
from batchline.sources.files.pieces import Malformed, Names, Piece
from batchline.sources.files.room import check_malformed, free_bytes
from batchline.sources.files.values import NAMEABLE, measurements_of

__all__ = ["FORMATS", "MALFORMED", "Reading", "files_of", "ignore", "read_measurements"]

NO_NAMES: Final[Names] = MappingProxyType({})
MEASUREMENTS: Final = pa.schema(
    [("key", pa.string()), ("type", pa.string()), ("event_time", MOMENT), ("receive_time", MOMENT)]
)
#: The columns of what is malformed.
MALFORMED: Final = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("text", pa.string())]
)


class _Format(NamedTuple):
    pieces: Callable[[Path, Names, Callable[[int], None]], Iterator[Piece]]
    #: What can only be done with all rows of a file.
    finish: Callable[[pa.Table], pa.Table]


JSON_LINES: Final = _Format(json_pieces, without_empty_size)
#: How each kind of file is read, by its suffix.
FORMATS: Final[Mapping[str, _Format]] = {
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".json": JSON_LINES,
    ".csv": _Format(csv_pieces, with_types),
    ".parquet": _Format(parquet_pieces, lambda table: table),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What files hold: every line that is not blank is a row of one of the two."""

    #: key, type, event_time, receive_time, size if there, then every other column.
    table: pa.Table
    #: file, line, reason, text: what is no measurement, and why.
    malformed: pa.Table


def ignore(_: int) -> None:
    """For whoever wants to see no progress."""


def files_of(path: Path) -> list[Path]:
    """The file, or a directory's files of known formats in order of name; hidden ones (. and _) are left out."""
    with _translated(path):
        if not path.is_dir():
            _check_file(path)
            return [path]
        files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith((".", "_"))]
    known = [file for file in files if file.suffix.lower() in FORMATS]
    if not known:
        raise InvalidFile(f"{path} has no measurements in it: no file that ends with {', '.join(FORMATS)}")
    return known


def _check_file(path: Path) -> None:
    if not path.exists():
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InvalidFile(f"{path} is not there{did_you_mean(path.name, beside)}")
    _format_of(path)


def _format_of(path: Path) -> _Format:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        unknown = f"{path} is of an unknown format {suffix!r}" if suffix else f"{path} has no suffix to tell its format"
        raise InvalidFile(f"{unknown}; the known ones are {', '.join(FORMATS)}{did_you_mean(suffix, FORMATS)}")
    return FORMATS[suffix]


def read_measurements(
    paths: Sequence[Path], names: Mapping[str, str] = NO_NAMES, on_bytes: Callable[[int], None] = ignore
) -> Reading:
    """Reads files; `names` gives their names for columns of ours, `on_bytes` is told of the bytes just done."""
    known = _all_names(names)
    readings = [(path, _read(path, known, on_bytes)) for path in paths]
    table = join([(Path(), MEASUREMENTS.empty_table()), *((path, reading.table) for path, reading in readings)])
    ours = [name for name in NAMEABLE if name in table.column_names]
    others = [name for name in table.column_names if name not in NAMEABLE]
    malformed = [MALFORMED.empty_table(), *(reading.malformed for _, reading in readings)]
    return Reading(table.select([*ours, *others]), pa.concat_tables(malformed))


def _all_names(names: Mapping[str, str]) -> Names:
    for name, theirs in names.items():
        if name not in NAMEABLE:
            raise InvalidInput(
                f"only {', '.join(NAMEABLE)} can have another name, got {name!r}{did_you_mean(name, NAMEABLE)}"
            )
        if not theirs:
            raise InvalidInput(f"expected the file's name for {name}, got {theirs!r}")
    return {name: name for name in NAMEABLE} | dict(names)


def _read(path: Path, names: Names, on_bytes: Callable[[int], None]) -> Reading:
    file_format = _format_of(path)
    # As columns, piece by piece: an object for each line of a file without measurements would take 200 times its bytes.
    tables, malformed = [], [MALFORMED.empty_table()]
    rows, size, free = 0, 0, free_bytes()
    with _translated(path):
        for piece in file_format.pieces(path, names, on_bytes):
            check_taken(path, piece.table.column_names, names)
            table, wrong = _sort_out(piece, names)
            tables.append((path, table))
            malformed.append(_as_table(path, wrong))
            rows, size = rows + len(wrong), size + malformed[-1].nbytes
            check_malformed(path, rows, size, free)
        table = file_format.finish(join(tables, exact=False)) if tables else MEASUREMENTS.empty_table()
    return Reading(table, pa.concat_tables(malformed))


def _sort_out(piece: Piece, names: Names) -> tuple[pa.Table, list[Malformed]]:
    """The measurements of a piece, and all that is malformed in it, in order of line."""
    table, reasons = measurements_of(piece.table, names)
    if not reasons:
        return table, sorted(piece.malformed)
    rows = sorted(reasons)
    wrong = [Malformed(line, reasons[row], text) for row, (line, text) in zip(rows, piece.place(rows), strict=True)]
    right = np.ones(len(table), np.bool_)
    right[rows] = False
    return table.filter(pa.array(right)), sorted([*piece.malformed, *wrong])


def _as_table(path: Path, malformed: Sequence[Malformed]) -> pa.Table:
    columns: list[Any] = [list(column) for column in zip(*malformed, strict=True)] or [[], [], []]
    return pa.table([pa.repeat(str(path), len(malformed)), *columns], schema=MALFORMED)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InvalidFile(f"{path} cannot be read: {error}") from error
