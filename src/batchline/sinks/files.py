"""Results as files: each is there whole or not at all, and an earlier one stays until the new one is safe on disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from batchline.errors import InvalidFile
from batchline.sinks.lines import write_csv, write_json_lines
from batchline.sinks.whole_file import whole_file

__all__ = ["FORMATS", "remove_file", "write_table", "write_text"]


def _write_parquet(table: pa.Table, file: IO[bytes]) -> None:
    pa_parquet.write_table(table, file)


#: How a table is written, by the suffix of its file.
FORMATS: Final[Mapping[str, Callable[[pa.Table, IO[bytes]], None]]] = {
    ".parquet": _write_parquet,
    ".jsonl": write_json_lines,
    ".csv": write_csv,
}


def write_table(table: pa.Table, path: Path) -> Path:
    """Writes a table as Parquet, JSON lines or CSV, as the file's suffix says, and returns its path."""
    write = FORMATS.get(path.suffix.lower())
    if write is None:
        raise InvalidFile(f"{path} must end with one of {', '.join(FORMATS)} to be written, got {path.suffix!r}")
    names = table.column_names
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InvalidFile(f"{path} cannot be written: the table has more than one column {', '.join(twice)}")
    with _new_file(path) as file:
        write(table, file)
    return path


def write_text(text: str, path: Path) -> Path:
    """Writes a text, UTF-8, whatever the file's suffix, and returns its path."""
    with _new_file(path) as file:
        file.write(text.encode())
    return path


def remove_file(path: Path) -> None:
    """Removes a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be removed: {error}") from error


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    try:
        with whole_file(path) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise InvalidFile(f"{path} cannot be written: {error}") from error
