"""Keys as numbers, compiled: to sort them by, and to find one among many without reading all."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from batchline.columnar.columns import frozen
from batchline.columnar.layout import Codes, compiled, step

__all__ = ["find_keys", "hash_keys"]

NOT_THERE = -1


class Text:
    """The bytes of an Arrow array of strings, as the compiled code takes them."""

    def __init__(self, keys: pa.Array) -> None:
        _, offsets, data = keys.buffers()
        self.offsets = frozen(np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1])
        self.data = frozen(np.frombuffer(data if data is not None and data.size else b"\0", np.uint8))


def hash_keys(keys: pa.Array) -> NDArray[np.uint64]:
    """A number for each string, the same in every process and on every machine."""
    if len(keys) == 0:
        return np.empty(0, np.uint64)
    text = Text(keys)
    hashed: NDArray[np.uint64] = _hash(text.offsets, text.data)
    return hashed


def find_keys(
    hashes: NDArray[np.uint64], keys: pa.Array, among: NDArray[np.uint64], among_keys: pa.Array
) -> NDArray[np.int32]:
    """Where each key stands among others, which are sorted by their hashes; -1 where it does not."""
    if len(keys) == 0 or len(among_keys) == 0:
        return np.full(len(keys), NOT_THERE, np.int32)
    ours, theirs = Text(keys), Text(among_keys)
    found: NDArray[np.int32] = _find(
        frozen(hashes), ours.offsets, ours.data, frozen(among), theirs.offsets, theirs.data
    )
    return found


@compiled
def _hash(offsets: Codes, data: Any) -> Any:
    """FNV-1a, and a last mix, so that keys which differ in one place lie far apart."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for at in range(hashes.size):
        code = np.uint64(0xCBF29CE484222325)
        for byte in data[offsets[at] : offsets[at + 1]]:
            code = (code ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        code ^= code >> np.uint64(32)
        hashes[at] = code * np.uint64(0x9E3779B97F4A7C15)
    return hashes


@step
def _same(one: Codes, one_data: Any, at: int, other: Codes, other_data: Any, place: int) -> bool:
    length = one[at + 1] - one[at]
    if other[place + 1] - other[place] != length:
        return False
    for byte in range(length):  # noqa: SIM110 (compiled: a generator would not be)
        if one_data[one[at] + byte] != other_data[other[place] + byte]:
            return False
    return True


@compiled
def _find(hashes: Any, offsets: Codes, data: Any, among: Any, among_offsets: Codes, among_data: Any) -> Any:
    found = np.full(hashes.size, NOT_THERE, np.int32)
    for at in range(hashes.size):
        place = np.searchsorted(among, hashes[at])
        # Keys of one hash, if ever there are, stand side by side.
        while place < among.size and among[place] == hashes[at]:
            if _same(offsets, data, at, among_offsets, among_data, place):
                found[at] = place
                break
            place += 1
    return found
