"""Counters that processes report, and the rates they tell.

A counter begins anew with its process: where it is smaller than before, or the process began at another moment, all
that it counts is new.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Count", "Growth", "even_edges", "growth", "rates"]


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
    """What all processes together counted a second, in each stretch from one edge to the next."""
    totals = [0.0] * (len(edges) - 1)
    for grown in growth(counts):
        for place in range(max(bisect_right(edges, grown.from_ms) - 1, 0), len(totals)):
            if edges[place] >= grown.to_ms:
                break
            totals[place] += grown.within(edges[place], edges[place + 1])
    return [total * 1_000 / (end - begin) for total, (begin, end) in zip(totals, pairwise(edges), strict=True)]


class Growth(NamedTuple):
    """By how much a counter grew, evenly as far as anybody knows, from one moment to another."""

    from_ms: int
    to_ms: int
    value: float

    def within(self, begin_ms: int, end_ms: int) -> float:
        """How much of it was in a stretch."""
        both_ms = min(self.to_ms, end_ms) - max(self.from_ms, begin_ms)
        return self.value * max(both_ms, 0) / (self.to_ms - self.from_ms)


def growth(counts: Iterable[Count]) -> Iterable[Growth]:
    """By how much counters grew; of the first count of each process nothing is known."""
    last: dict[str, Count] = {}
    for count in sorted(counts, key=lambda one: one.at_ms):
        before = last.get(count.process)
        if before is not None and before.at_ms < count.at_ms:
            again = count.started_ms != before.started_ms or count.value < before.value
            yield Growth(before.at_ms, count.at_ms, count.value - (0 if again else before.value))
        last[count.process] = count
