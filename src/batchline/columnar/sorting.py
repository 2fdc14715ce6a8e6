"""Sorting the rows of each key, compiled: most come in order already, or as a few runs that are, one per file."""

from typing import Any

import numpy as np

from batchline.columnar.layout import Codes, Ints, compiled, step

__all__ = ["sort_within_keys"]


@step
def precedes(columns: Any, one: int, other: int) -> bool:
    """Whether row `other` must not stand before row `one`: on a tie they stay as they are."""
    for at in range(columns.shape[0]):
        if columns[at, one] != columns[at, other]:
            return bool(columns[at, one] < columns[at, other])
    return True


@step
def run_end(order: Codes, columns: Any, begin: int, end: int) -> int:
    """Where the sorted run that begins at `begin` ends."""
    at = begin + 1
    while at < end and precedes(columns, order[at - 1], order[at]):
        at += 1
    return at


@step
def merge(order: Codes, spare: Codes, columns: Any, begin: int, middle: int, end: int) -> None:
    """Merge two neighbouring runs; the first is moved away to make room."""
    count = middle - begin
    for at in range(count):
        spare[at] = order[begin + at]
    left, right, at = 0, middle, begin
    while left < count and right < end:
        if precedes(columns, spare[left], order[right]):
            order[at] = spare[left]
            left += 1
        else:
            order[at] = order[right]
            right += 1
        at += 1
    while left < count:
        order[at] = spare[left]
        left += 1
        at += 1


@step
def sort_key(order: Codes, spare: Codes, runs: Ints, columns: Any, begin: int, end: int) -> None:
    """Sort the rows of one key by merging its runs, pair by pair."""
    count, at = 0, begin
    while at < end:
        at = run_end(order, columns, at, end)
        runs[count] = at
        count += 1
    while count > 1:
        kept, first = 0, begin
        for pair in range(0, count - 1, 2):
            merge(order, spare, columns, first, runs[pair], runs[pair + 1])
            first = runs[kept] = runs[pair + 1]
            kept += 1
        if count % 2:
            runs[kept] = end
            kept += 1
        count = kept


@compiled
def sort_within_keys(order: Codes, ends: Ints, columns: Any) -> None:
    """Sort each key's rows, in place and stably, by the columns: the first decides, the next breaks its ties."""
    most, begin = 0, 0
    for end in ends:
        most = max(most, end - begin)
        begin = end
    spare, runs = np.empty(most, np.int32), np.empty(most, np.int64)
    begin = 0
    for end in ends:
        sort_key(order, spare, runs, columns, begin, end)
        begin = end
