"""What a chart over time shows: curves of a value a second, on one axis, perhaps below a limit."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

__all__ = ["Chart", "Curve", "Stretch", "binned", "few", "mean", "number_text", "round_step", "sums_of"]


@dataclass(frozen=True, slots=True)
class Curve:
    """A value for every second."""

    name: str
    values: Sequence[float]
    #: Which colour it has, the same in all charts; None for what is not well.
    colour: int | None = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time that is marked, in seconds, and what was then."""

    begin_s: float
    end_s: float
    name: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves on one axis."""

    title: str
    #: What the values are, in a few words.
    unit: str
    curves: Sequence[Curve]
    #: Whether the curves are parts of a whole.
    stacked: bool = True
    limit: float | None = None
    #: What the limit is called.
    limit_name: str = "limit"
    #: Whether all together are shown by themselves, where a curve has a line of its own.
    summed: bool = False
    #: Times that are marked.
    stretches: Sequence[Stretch] = ()

    @property
    def seconds(self) -> int:
        """How long the axis is."""
        return max((len(curve.values) for curve in self.curves), default=0)

    @property
    def top(self) -> float:
        """The largest value there is to show, the limit included; above 0."""
        shown = [sums_of(self.curves)] if self.stacked else [curve.values for curve in self.curves]
        return _above_0(max([self.limit or 0, *(max(values, default=0) for values in shown)]))

    @property
    def highest(self) -> float:
        """The largest value of any curve; above 0."""
        return _above_0(max((max(curve.values, default=0) for curve in self.curves), default=0))


def _above_0(value: float) -> float:
    """A scale is not so small that its steps are nothing."""
    return max(value, 1e-9) if value else 1.0


def sums_of(curves: Iterable[Curve]) -> list[float]:
    """All of them together, second by second."""
    return [sum(values) for values in zip(*(curve.values for curve in curves), strict=True)]


def few(chart: Chart, most: int) -> Chart:
    """With at most so many curves that have a colour: where there are more, the last is all the others together."""
    coloured = [curve for curve in chart.curves if curve.colour is not None]
    if len(coloured) <= most:
        return chart
    others = coloured[most - 1 :]
    together = Curve(f"{len(others)} others", sums_of(others), most - 1)
    rest = [curve for curve in chart.curves if curve.colour is None]
    return replace(chart, curves=[*coloured[: most - 1], together, *rest])


def binned(values: Sequence[float], bins: int, choose: Callable[[Sequence[float]], float]) -> list[float]:
    """The values in so many bins of equal length: what is chosen of those in each."""
    count = len(values)
    edges = [place * count // bins for place in range(bins + 1)]
    return [choose(values[begin : max(end, begin + 1)]) for begin, end in pairwise(edges)]


def mean(values: Sequence[float]) -> float:
    """The mean; of nothing, 0."""
    return sum(values) / len(values) if values else 0.0


def round_step(top: float, ticks: int) -> float:
    """A step of 1, 2 or 5 times a power of ten, so that about so many of them reach the top."""
    power = 10.0 ** math.floor(math.log10(top / ticks))
    return next(count * power for count in (1, 2, 5, 10) if top / (count * power) <= ticks)


def number_text(value: float) -> str:
    """An amount as a short text: 20,000, 1.5 M, 0.25."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.2f}".rstrip("0").rstrip(".") + " M"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
