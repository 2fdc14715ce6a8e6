"""JSON lines: Arrow reads a block in which nothing is in doubt; only another one is read line by line.

    block ─► looks regular? ─► Arrow reads it? ─► kinds as before? ─► rows
                 └─ no ──────────── no ────────────── no ─► each line by itself ─► good lines ─► Arrow ─► rows
                                                                └─► malformed, with the reason

What comes out does not depend on where the file was cut.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from batchline.columnar.columns import NEEDED
from batchline.sources.files.blocks import Block, blocks, count, lines_of
from batchline.sources.files.kinds import Kinds, kind_of
from batchline.sources.files.nested import rebuild_nested
from batchline.sources.files.pieces import Lines, Malformed, Names, Piece, placed, text_of
from batchline.sources.files.values import SIZE_RULE, shown_value

__all__ = ["json_pieces", "without_empty_size"]

#: Arrow reads Inf and -NaN as numbers, the json module does not.
ODD_NUMBER: Final = re.compile(rb"[:,\[-]\s*Inf(?!inity)|-NaN")
#: Arrow runs out of stack some ten thousand brackets deep.
MOST_BRACKETS: Final = 1_000


def json_pieces(path: Path, names: Names, on_bytes: Callable[[int], None]) -> Iterator[Piece]:
    """The objects of a file, one from each line that is not blank."""
    reader = _Reader(names)
    for block in blocks(path, on_bytes):
        yield reader.piece(block)


def without_empty_size(table: pa.Table) -> pa.Table:
    """The table without sizes if no line has one: a file of objects has no header to say that they are there."""
    return table if table["size"].null_count < len(table) else table.drop_columns("size")


class _Reader:
    """Reads the blocks of one file, in order, and remembers what its fields are."""

    def __init__(self, names: Names) -> None:
        self._size = names["size"]
        self._texts = [names[name] for name in NEEDED]
        self._kinds = Kinds(dict.fromkeys(self._texts, "a string") | {self._size: "a number"})

    def piece(self, block: Block) -> Piece:
        """The rows of a block, and the lines of it that are none."""
        table = self._read_if_clean(_plain(block[1]))
        if table is None:
            return self._read_singly([(number, line) for number, line in lines_of(block) if line.strip()])
        return Piece(table, lambda rows: placed([line for line in lines_of(block) if line[1].strip()], rows), [])

    def _read_if_clean(self, lines: bytes) -> pa.Table | None:
        if not _is_regular(lines):
            return None
        try:
            table = self._parse(lines)
            if len(table) != count(lines, b"\n") + 1 or _has_odd_number(table, lines):
                return None
            table = rebuild_nested(table, lines)
            return None if self._kinds.learn_schema(table.schema) else self._with_texts(table, lines)
        except (ValueError, pa.ArrowNotImplementedError, RecursionError):
            return None

    def _parse(self, lines: bytes) -> pa.Table:
        kinds = dict.fromkeys(self._texts, pa.string()) | {self._size: pa.int64()}
        options = pa_json.ParseOptions(explicit_schema=pa.schema(kinds))
        # One block, since Arrow cannot join the types of several as well as we can.
        reading = pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        return pa_json.read_json(pa.BufferReader(lines), reading, options)

    def _with_texts(self, table: pa.Table, lines: bytes) -> pa.Table:
        """The table with what Arrow took for times read again, as text; which columns are text is remembered."""
        times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        self._texts += times
        texts = self._parse(lines) if times else table
        for name in times:
            table = table.set_column(table.column_names.index(name), name, texts[name])
        self._texts += [
            field.name for field in table.schema if field.type == pa.string() and field.name not in self._texts
        ]
        return table

    def _read_singly(self, lines: Lines) -> Piece:
        faults = {number: self._fault(line.strip()) for number, line in lines}
        malformed = [Malformed(number, reason, text_of(line)) for number, line in lines if (reason := faults[number])]
        good = [line for line in lines if not faults[line[0]]]
        refused = self._refused(good)
        numbers = {line.line for line in refused}
        good = [line for line in good if line[0] not in numbers]
        joined = _joined(good)
        table = self._with_texts(rebuild_nested(self._parse(joined), joined), joined)
        return Piece(table, partial(placed, good), [*malformed, *refused])

    def _fault(self, line: bytes) -> str | None:
        try:
            row = json.loads(line.decode(), object_pairs_hook=_object)
        except UnicodeDecodeError:
            return "not UTF-8"
        except json.JSONDecodeError as error:
            return f"not JSON: {error.msg} at column {error.colno}"
        except (ValueError, RecursionError) as error:
            return f"not JSON that can be read: {error}"
        if not isinstance(row, dict):
            return f"expected a JSON object, got {kind_of(row)}"
        return self._fault_in(row)

    def _fault_in(self, row: dict[str, object]) -> str | None:
        try:
            reason = self._kinds.learn(row)
        except RecursionError as error:
            return f"not JSON that can be read: {error}"
        size = row.get(self._size)
        if reason is None and size is not None and not _is_whole(size):
            return f"{self._size} {SIZE_RULE}, got {shown_value(size)}"
        return reason

    def _refused(self, lines: Lines) -> list[Malformed]:
        """The lines that Arrow refuses although the json module does not: 1e999, half a surrogate pair."""
        try:
            self._parse(_joined(lines))
        except pa.ArrowInvalid as error:
            if len(lines) == 1:
                reason = str(error).removeprefix("JSON parse error: ").removesuffix(" in row 0")
                return [Malformed(lines[0][0], f"not JSON that can be read: {reason}", text_of(lines[0][1]))]
            half = len(lines) // 2
            return [*self._refused(lines[:half]), *self._refused(lines[half:])]
        return []


def _object(fields: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(fields)
    if len(row) < len(fields):
        raise ValueError("an object has two fields of one name")
    return row


def _is_whole(value: object) -> bool:
    """Whether Arrow can read it as a whole number; its bounds are checked with those of all rows."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _joined(lines: Lines) -> bytes:
    # From nothing at all Arrow reads not even an empty table.
    return b"\n".join(line.strip() for _, line in lines) or b"\n"


def _plain(lines: bytes) -> bytes:
    """The lines with plain ends, and nothing around them."""
    return (lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines).strip()


def _is_regular(lines: bytes) -> bool:
    """Whether each line begins and ends an object: Arrow reads objects, wherever the lines are cut."""
    if not (lines.startswith(b"{") and lines.endswith(b"}")):
        return False
    data = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    regular = np.all(data[ends - 1] == ord("}")) and np.all(data[ends + 1] == ord("{"))
    return bool(regular) and _is_utf_8(lines) and _is_shallow(lines)


def _is_utf_8(lines: bytes) -> bool:
    try:
        return lines.isascii() or bool(lines.decode())
    except UnicodeDecodeError:
        return False


def _is_shallow(lines: bytes) -> bool:
    if count(lines, b"[") + count(lines, b"{") - count(lines, b"\n") <= MOST_BRACKETS:
        return True
    return all(line.count(b"[") + line.count(b"{") <= MOST_BRACKETS for line in lines.split(b"\n"))


def _has_odd_number(table: pa.Table, lines: bytes) -> bool:
    # The search takes as long as Arrow's reading: only those files pay for it that have such numbers at all.
    floats = [column for column in table.columns if pa.types.is_floating(column.type)]
    odd = any(not pc.all(pc.is_finite(column)).as_py() for column in floats)
    return odd and ODD_NUMBER.search(lines) is not None
