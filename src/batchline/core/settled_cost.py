"""What operations really cost, compared with their estimates: by this demand is corrected before they are sent."""

import math
from typing import Any, Final

from batchline.core.cost import Amount, Amounts, part_of

__all__ = ["SettledCost", "divide_actual"]

#: After this time an operation counts half as much as a new one.
HALF_LIFE_S: Final = 5.0


class SettledCost:
    """The ratio of actual to estimated cost of recent operations, for each capacity."""

    def __init__(self) -> None:
        self._estimated: Any = 0
        self._actual: Any = 0
        self._at_s = -math.inf

    def note(self, estimated: Amount, actual: Amount, now_s: float) -> None:
        """Note what operations that ended now were estimated at, and the capacity that they needed."""
        kept = 0.5 ** (max(now_s - self._at_s, 0.0) / HALF_LIFE_S)
        self._estimated = self._estimated * kept + estimated
        self._actual = self._actual * kept + actual
        self._at_s = max(now_s, self._at_s)

    def scale(self, estimated: Amount) -> Any:
        """Convert an estimated cost into the cost to be expected. Without an estimate to compare, it stays as it is."""
        if isinstance(estimated, Amounts):
            return Amounts({name: part * self._ratio(name) for name, part in estimated.items()})
        return estimated * self._ratio(None)

    def _ratio(self, name: str | None) -> float:
        estimated = part_of(self._estimated, name)
        return part_of(self._actual, name) / estimated if estimated > 0 else 1


def divide_actual(actual: Amount, estimated: Amount) -> tuple[Any, Any]:
    """Divide an actual cost into the capacities that were estimated, and those whose estimate was 0."""
    if not isinstance(actual, Amounts):
        return (actual, 0) if estimated else (0, actual)
    foreseen = Amounts({name: part for name, part in actual.items() if part_of(estimated, name)})
    return foreseen, actual - foreseen
