"""What the reader of a format hands on: some rows of a file, and the lines of it that cannot be rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

__all__ = ["Lines", "Malformed", "Names", "Piece", "placed", "text_of"]

#: The file's name for each column of ours.
Names: TypeAlias = Mapping[str, str]
#: Lines, or records of several lines, with the number of their (first) line.
Lines: TypeAlias = Sequence[tuple[int, bytes]]


class Malformed(NamedTuple):
    """A line that is no measurement, and why."""

    line: int
    reason: str
    text: str


class Piece(NamedTuple):
    """Some rows of a file under the file's own names, their values not yet checked."""

    table: pa.Table
    #: Says of rows where they stand in the file and how they came; only asked for those that are wrong.
    place: Callable[[Sequence[int]], list[tuple[int, str]]]
    #: The lines that could not even become rows.
    malformed: list[Malformed]


def text_of(line: bytes) -> str:
    """A line as it came, with replacement characters where it is not UTF-8."""
    return line.decode("utf-8", "replace")


def placed(lines: Lines, rows: Sequence[int]) -> list[tuple[int, str]]:
    """Where rows stand that were read from these lines, one from each."""
    return [(lines[row][0], text_of(lines[row][1])) for row in rows]
