"""What was handed out, told from when and how much: a mean, the largest second, so much in each span of time."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

__all__ = ["Handouts", "by_span", "largest_second", "longest_gap", "mean_rate"]

#: Moments in seconds, in order, each with the cost that was handed out then.
Handouts = Sequence[tuple[float, float]]


def mean_rate(handouts: Handouts) -> float:
    """Cost a second, from the first hand-out to the last.

    Between n + 1 hand-outs there are n spans of time, so one end must not count. It is the first that does not: what it
    was is due to the time before it. What is left of edges is at most one operation: how much of the last one was not
    paid for yet, against the same of the first.
    """
    if len(handouts) < 2:
        return 0.0
    (begin_s, _), (end_s, _) = handouts[0], handouts[-1]
    return sum(cost for _, cost in handouts[1:]) / (end_s - begin_s)


def largest_second(handouts: Handouts) -> float:
    """The most that was handed out in any second, wherever it begins."""
    most = within = 0.0
    oldest = 0
    for moment_s, cost in handouts:
        within += cost
        # A second does not include its beginning: of two hand-outs just a second apart only one is within it.
        while handouts[oldest][0] <= moment_s - 1:
            within -= handouts[oldest][1]
            oldest += 1
        most = max(most, within)
    return most


def longest_gap(handouts: Handouts) -> float:
    """The longest time without a hand-out."""
    return max((after - before for (before, _), (after, _) in pairwise(handouts)), default=0.0)


def by_span(handouts: Iterable[tuple[float, float]], span_s: float, spans: int) -> list[float]:
    """Cost a second in each of so many spans from moment 0 on; what is outside of them does not count."""
    sums = [0.0] * spans
    for moment_s, cost in handouts:
        place = int(moment_s // span_s)
        if 0 <= place < spans:
            sums[place] += cost
    return [total / span_s for total in sums]
