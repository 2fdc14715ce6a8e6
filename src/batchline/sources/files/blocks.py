"""A file of lines, block by block: progress moves, and what is wrong in one block does not slow the others down."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

__all__ = ["Block", "blocks", "count", "lines_of"]

#: Large enough for Arrow's speed, small enough that a bad line costs little.
BLOCK_BYTES: Final = 4 << 20
#: Lines of a block at most: of each that is malformed there are some objects, however short it is.
BLOCK_LINES: Final = 1 << 16
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

#: The number of the first line, and whole lines without the end of the last.
Block: TypeAlias = tuple[int, bytes]


def blocks(path: Path, on_bytes: Callable[[int], None]) -> Iterator[Block]:
    """The file in blocks of whole lines; tells the bytes of a block once the next one is asked for."""
    first = 1
    for lines, newline in (part for block in _cut(path) for part in _divided(*block)):
        yield first, lines.removeprefix(BYTE_ORDER_MARK) if first == 1 else lines
        first += count(lines, b"\n") + len(newline)
        on_bytes(len(lines) + len(newline))


def _cut(path: Path) -> Iterator[tuple[bytes, bytes]]:
    started: list[bytes] = []
    with path.open("rb") as file:
        while read := file.read(BLOCK_BYTES):
            whole, newline, rest = read.rpartition(b"\n")
            if newline:
                yield b"".join([*started, whole]), newline
                started.clear()
            started.append(rest)
    if last := b"".join(started):
        yield last, b""


def _divided(lines: bytes, newline: bytes) -> Iterator[tuple[bytes, bytes]]:
    if count(lines, b"\n") < BLOCK_LINES:
        yield lines, newline
        return
    begin = 0
    for end in np.flatnonzero(np.frombuffer(lines, np.uint8) == ord(b"\n"))[BLOCK_LINES - 1 :: BLOCK_LINES].tolist():
        yield lines[begin:end], b"\n"
        begin = end + 1
    yield lines[begin:], newline


def count(lines: bytes, byte: bytes) -> int:
    """How often a byte occurs; numpy counts frequent ones many times as fast as Python."""
    return int(np.count_nonzero(np.frombuffer(lines, np.uint8) == ord(byte)))


def lines_of(block: Block) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers and without their ends."""
    first, lines = block
    for number, line in enumerate(lines.split(b"\n"), first):
        if text := line.removesuffix(b"\r"):
            yield number, text
