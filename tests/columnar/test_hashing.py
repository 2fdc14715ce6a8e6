"""Keys are found among many by their hashes, and told apart by themselves."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from batchline.columnar.hashing import find_keys, hash_keys


@given(st.lists(st.text(), unique=True), st.lists(st.text()))
def test_a_key_is_found_where_it_stands_and_nowhere_else(among: list[str], asked: list[str]) -> None:
    hashes = hash_keys(pa.array(among, pa.string()))
    order = np.argsort(hashes)
    arranged = [among[place] for place in order]
    wanted = pa.array(asked + among, pa.string())
    found = find_keys(hash_keys(wanted), wanted, hashes[order], pa.array(arranged, pa.string()))
    assert found.tolist() == [arranged.index(key) if key in arranged else -1 for key in wanted.to_pylist()]


def test_keys_of_one_hash_are_told_apart() -> None:
    same = np.zeros(3, np.uint64)
    among, asked = pa.array(["a", "bb", "c"]), pa.array(["c", "bb", "d"])
    assert find_keys(same, asked, same.copy(), among).tolist() == [2, 1, -1]


def test_a_hash_is_the_same_in_every_process_and_version() -> None:
    """Segments on disk are sorted by it: another one would lose what a stream holds."""
    assert hash_keys(pa.array(["", "pump-1"])).tolist() == [by_hand(b""), by_hand(b"pump-1")]


def by_hand(key: bytes) -> int:
    """FNV-1a with its last mix, in Python's own numbers."""
    code = 0xCBF29CE484222325
    for byte in key:
        code = (code ^ byte) * 0x100000001B3 % 2**64
    return (code ^ code >> 32) * 0x9E3779B97F4A7C15 % 2**64
