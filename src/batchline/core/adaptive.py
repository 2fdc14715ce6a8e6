"""Capacity that falls when the receiver throttles, and comes back step by step."""

from dataclasses import dataclass
from datetime import timedelta

from batchline.core.moment import check_span
from batchline.errors import InvalidRules, shown

__all__ = ["Adapting", "Adaptive"]


@dataclass(frozen=True, slots=True)
class Adaptive:
    """On throttling capacity falls by the share `fall`, but not below `floor`; it recovers by `step`, every so often.

    All three are shares of the configured capacity, which is never exceeded.
    """

    floor: float = 0.1
    fall: float = 0.3
    step: float = 0.05
    every: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        check_span("every", self.every, 1)
        for name in ("floor", "fall", "step"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise InvalidRules(f"{name} must be a share above 0, up to 1, got {shown(value)}")


class Adapting:
    """Which share of the capacity is used."""

    def __init__(self, adaptive: Adaptive):
        self._adaptive = adaptive
        self._fallen_to, self._fallen_s = 1.0, 0.0

    def share(self, now_s: float) -> float:
        """The share of the capacity that may be used now."""
        steps = int(max(now_s - self._fallen_s, 0.0) / self._adaptive.every.total_seconds())
        return min(self._fallen_to + steps * self._adaptive.step, 1.0)

    def throttled(self, now_s: float) -> None:
        """The receiver throttles."""
        fallen = self.share(now_s) * (1 - self._adaptive.fall)
        self._fallen_to, self._fallen_s = max(fallen, self._adaptive.floor), now_s
