"""Amounts side by side: of named things, and of values by how large they are."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from batchline.pictures.series import number_text, round_step

__all__ = ["Bars", "Histogram", "histogram_of", "quantile"]


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each named thing."""

    title: str
    #: What the amounts are, in a few words.
    unit: str
    bars: Sequence[tuple[str, float]]

    @property
    def top(self) -> float:
        """The largest amount; above 0."""
        return max([amount for _, amount in self.bars if amount > 0], default=1.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values lie between each two edges; a value on an edge lies above it, the largest below the last."""

    title: str
    #: What is counted, and what the values are, in a few words each.
    unit: str
    axis: str
    edges: Sequence[float]
    counts: Sequence[int]
    #: Values that are marked, with what they are: (value, name).
    marks: Sequence[tuple[float, str]] = ()

    @property
    def top(self) -> int:
        """The largest count; above 0."""
        return max([*self.counts, 1])

    def between(self, place: int) -> str:
        """From where to where a bar goes."""
        return f"{number_text(self.edges[place])} – {number_text(self.edges[place + 1])}"


def histogram_of(
    title: str,
    unit: str,
    axis: str,
    values: Sequence[float],
    *,
    bins: int = 40,
    top: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Histogram:
    """Count values, none below 0, in bins of a round width from 0 to the largest, or to `top`."""
    end = max(max(values, default=0.0), top or 0.0)
    # A scale is not so small that its steps are nothing.
    end = max(end, 1e-9) if end else 1.0
    width = round_step(end, bins)
    # At least one bin, and the last holds the largest, also where it lies on its edge.
    count = max(1, -int(-end // width))
    counts = [0] * count
    edges = [place * width for place in range(count + 1)]
    for value in values:
        counts[min(bisect_right(edges, value) - 1, count - 1)] += 1
    return Histogram(title, unit, axis, edges, counts, marks)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)] if ordered else 0.0
