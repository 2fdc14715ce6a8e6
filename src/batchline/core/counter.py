"""Counters that processes report, and the rates they tell.

A counter begins anew with its process: where it is smaller than before, or the process began at another moment, all
that it counts is new.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Count", "even_edges", "growth", "rates"]


class Count(NamedTuple):
    """What a process had counted at a moment."""

    process: str
    started_ms: int
    at_ms: int
    value: float


def even_edges(now_ms: int, length_ms: int, stretches: int) -> list[int]:
    """Where so many stretches of one length begin and end, the last of them now."""
    return [now_ms - place * length_ms for place in range(stretches, -1, -1)]


def rates(counts: Iterable[Count], edges: Sequence[int]) -> list[float]:
    """What all processes together counted a second, in each stretch from one edge to the next, which it includes."""
    totals = [0.0] * (len(edges) - 1)
    for at_ms, grown in growth(counts):
        place = bisect_left(edges, at_ms) - 1
        if 0 <= place < len(totals):
            totals[place] += grown
    return [total * 1_000 / (end - begin) for total, (begin, end) in zip(totals, pairwise(edges), strict=True)]


def growth(counts: Iterable[Count]) -> Iterable[tuple[int, float]]:
    """By how much counters grew, and when; of the first count of each process nothing is known."""
    last: dict[str, Count] = {}
    for count in sorted(counts, key=lambda one: one.at_ms):
        before = last.get(count.process)
        if before is not None:
            again = count.started_ms != before.started_ms or count.value < before.value
            yield count.at_ms, count.value - (0 if again else before.value)
        last[count.process] = count
