"""CSV: Arrow reads a block in which every record has its cells; only another one is read record by record.

All cells are read as text, so that what a column is does not depend on where the file was cut: its type is found at the
end, from all of its cells.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from batchline.columnar.columns import NEEDED
from batchline.errors import InvalidFile
from batchline.sources.files.blocks import Block, blocks, lines_of
from batchline.sources.files.headers import check_header
from batchline.sources.files.pieces import Lines, Malformed, Names, Piece, placed, text_of
from batchline.sources.files.values import NAMEABLE

__all__ = ["csv_pieces", "with_types"]

QUOTE: Final = b'"'
#: So many lines are looked at for the end of a quote.
MOST_LINES: Final = 100
NOTHING: Final[Block] = (0, b"")
LARGEST_BLOCK: Final = 2**31 - 1
#: Codes rather than numbers: leading zeros, or more digits than a whole number has.
CODE: Final = r"^[+-]?(0\d|\d{19,}$)"
CONVERSIONS: Final = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}


def csv_pieces(path: Path, names: Names, on_bytes: Callable[[int], None]) -> Iterator[Piece]:
    """The records of a file with a header, one from each line that is not empty or from several if quotes span them."""
    stream = blocks(path, on_bytes)
    for first, block in stream:
        header, _, rest = block.lstrip(b"\r\n").partition(b"\n")
        if header:
            after = first + block.count(b"\n") - rest.count(b"\n")
            yield from _Reader(path, header, names).pieces(chain([(after, rest)], stream))


class _Reader:
    """Reads the blocks of one file under its header."""

    def __init__(self, path: Path, header: bytes, names: Names) -> None:
        try:
            self._header = next(csv.reader([header.decode()]), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidFile(f"{path}: expected the names of the columns in the first line: {error}") from error
        self._path = path
        self._needed = [names[name] for name in NEEDED]
        check_header(path, self._header, names)

    def pieces(self, stream: Iterable[Block]) -> Iterator[Piece]:
        """The rows of blocks, and the lines of them that are none."""
        left = NOTHING
        for block in stream:
            piece, left = self._piece(_joined(left, block), ahead=MOST_LINES)
            yield piece
        yield self._piece(left, ahead=1)[0]

    def _piece(self, block: Block, ahead: int) -> tuple[Piece, Block]:
        """The rows of a block, and the lines at its end, fewer than `ahead`, whose record may go on in the next."""
        table = self._read_if_clean(block[1])
        if table is not None:
            return Piece(table, lambda rows: placed(self._good(block), rows), []), NOTHING
        good, malformed, left = _sort(block, len(self._header), ahead)
        table = self._read(b"\n".join(record for _, record in good))
        if table is None or len(table) != len(good):
            raise InvalidFile(f"{self._path}: its quotes cannot be made sense of")
        return Piece(table, partial(placed, good), malformed), left

    def _good(self, block: Block) -> Lines:
        return list(lines_of(block)) if QUOTE not in block[1] else _sort(block, len(self._header))[0]

    def _read_if_clean(self, block: bytes) -> pa.Table | None:
        if block.count(b"\r") > block.count(b"\r\n"):
            return None  # Arrow would end a line there
        try:
            return self._read(block)
        except pa.ArrowInvalid:
            return None

    def _read(self, block: bytes) -> pa.Table | None:
        """The block as a table of texts; None if a quote is never closed, for which Arrow has no error."""
        last = b",".join([b"end"] * len(self._header))
        data = b"\n".join([block, last])
        kinds = dict.fromkeys(self._header, pa.string())
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(column_names=self._header, block_size=min(len(data) + 1, LARGEST_BLOCK)),
            pa_csv.ParseOptions(newlines_in_values=QUOTE in block),
            pa_csv.ConvertOptions(column_types=kinds, **CONVERSIONS),
        )
        ended = all(column[-1].as_py() == "end" for column in table.columns)
        return self._without_empty(table.slice(0, len(table) - 1)) if ended else None

    def _without_empty(self, table: pa.Table) -> pa.Table:
        """What is needed is missing where it is empty, in quotes or not."""
        for name in self._needed:
            column: Any = table[name]
            if pc.any(pc.equal(column, "")).as_py():
                filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
                table = table.set_column(table.column_names.index(name), name, filled)
        return table


def _joined(left: Block, block: Block) -> Block:
    return (left[0], b"\n".join([left[1], block[1]])) if left[1] else block


def _sort(block: Block, width: int, ahead: int = 1) -> tuple[Lines, list[Malformed], Block]:
    """The records that have all their cells, the lines that belong to none, and the lines that are left."""
    first, text = block
    lines = text.split(b"\n")
    good: list[tuple[int, bytes]] = []
    malformed: list[Malformed] = []
    at = 0
    while at + ahead <= len(lines):
        used, reason = _record(lines[at : at + MOST_LINES], width)
        record = b"\n".join(lines[at : at + used]).rstrip(b"\r")
        if reason:
            malformed.append(Malformed(first + at, reason, text_of(record)))
        elif record:
            good.append((first + at, record))
        at += used
    return good, malformed, (first + at, b"\n".join(lines[at:]))


def _record(lines: Sequence[bytes], width: int) -> tuple[int, str | None]:
    """How many lines the record at their beginning takes, and what is wrong with it; it is one line then."""
    texts = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    reader = csv.reader(chain(texts, [""]))  # the last one is only asked for while a quote is open
    try:
        cells = next(reader)
    except csv.Error as error:
        return 1, f"not CSV: {str(error).partition(' - ')[0]}"
    if reader.line_num > len(lines):
        return 1, "not CSV: a quote is not closed"
    if cells and len(cells) != width:
        return 1, f"expected {width} cells, got {len(cells)}"
    try:
        b"".join(lines[: reader.line_num]).decode()
    except UnicodeDecodeError:
        return reader.line_num, "not UTF-8"
    return reader.line_num, None


def with_types(table: pa.Table) -> pa.Table:
    """The table with its own columns as what all their cells are: whole numbers, numbers, true or false, else text."""
    for index, name in enumerate(table.column_names):
        if name not in NAMEABLE:
            table = table.set_column(index, name, _typed(table[name]))
    return table


def _typed(column: Any) -> Any:
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    if (whole := _cast(column, pa.int64())) is not None and pc.all(pc.equal(whole.cast(pa.string()), column)).as_py():
        return whole
    if (number := _cast(column, pa.float64())) is not None:
        return column if pc.any(pc.match_substring_regex(column, CODE)).as_py() else number
    truth = _cast(column, pa.bool_())
    return column if truth is None else truth


def _cast(column: Any, kind: pa.DataType) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None
