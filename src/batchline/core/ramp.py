"""Capacity that grows by no more than so much over so long, for receivers that need time to scale."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from batchline.core.cost import Amount, Amounts, Cost, amount_of, least, most, names_of, part_of
from batchline.core.moment import check_span
from batchline.errors import InvalidRules, shown

__all__ = ["Ramp", "Ramping"]


@dataclass(frozen=True, slots=True)
class Ramp:
    """From `start` on, capacity grows at most `factor` times, or by `step`, over `every`; evenly, not in jumps."""

    start: Cost
    factor: float | None = None
    step: Cost | None = None
    every: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        start = amount_of("start", self.start, InvalidRules)
        check_span("every", self.every, 1)
        if (self.factor is None) == (self.step is None):
            raise InvalidRules("a ramp has either a factor or a step: Ramp(start=500, factor=1.5)")
        if self.step is not None:
            amount_of("step", self.step, InvalidRules)
        if self.factor is not None:
            _check_factor(self.factor)
            if not all(part_of(start, name) for name in names_of(start) or (None,)):
                raise InvalidRules(f"start must be above 0 to grow by a factor, got {shown(self.start)}")


class Ramping:
    """How far a ramp has come."""

    def __init__(self, ramp: Ramp, now_s: float):
        self._start: Any = amount_of("start", ramp.start, InvalidRules)
        self._step: Any = None if ramp.step is None else amount_of("step", ramp.step, InvalidRules)
        self._ramp, self._level, self._at_s = ramp, self._start, now_s

    def allow(self, capacity: Amount, now_s: float) -> Any:
        """How much of a capacity may be used now. What is not there is not grown beyond."""
        passed = max(now_s - self._at_s, 0.0) / self._ramp.every.total_seconds()
        self._at_s = max(now_s, self._at_s)
        self._level = _each(self._level, capacity)
        self._level = least(most(self._grown(passed), self._start), capacity)
        return self._level

    def _grown(self, passed: float) -> Any:
        if self._ramp.factor is None:
            return self._level + _each(self._step * passed, self._level)
        try:
            return self._level * self._ramp.factor**passed
        except OverflowError:
            return self._level * 1e300


def _each(amount: Any, of: Amount) -> Any:
    """A single amount as that of each of several capacities, where there are several."""
    if isinstance(amount, Amounts) or not isinstance(of, Amounts):
        return amount
    return Amounts(dict.fromkeys(of, amount))


def _check_factor(factor: object) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 < factor <= 1_000:
        raise InvalidRules(f"factor must be a number above 1, up to 1,000, got {shown(factor)}")
