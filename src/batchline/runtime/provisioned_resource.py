"""A capacity of one's own."""

from collections.abc import Callable
from typing import Any

from batchline.core.adaptive import Adaptive
from batchline.core.cost import Cost, amount_of, most, same_names
from batchline.core.ramp import Ramp
from batchline.errors import InvalidRules
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.limiter import Limiter

__all__ = ["ProvisionedResource"]


class ProvisionedResource(Limiter):
    """A fixed capacity a second: a number, or a number for each of several capacities by its name."""

    def __init__(
        self,
        capacity: Cost,
        *,
        ramp: Ramp | None = None,
        adaptive: Adaptive | None = None,
        clock: Callable[[], float] = elapsed_seconds,
    ):
        super().__init__(ramp=ramp, adaptive=adaptive, clock=clock)
        self._capacity: Any = amount_of("capacity", capacity, InvalidRules)
        self._max: Any = self._capacity
        self._check_ramp(self._capacity)

    @property
    def max_capacity(self) -> Any:
        """The most it ever had: what was taken in then can still be sent, however long it takes."""
        return self._max

    def configured(self, now_s: float) -> Any:  # noqa: ARG002 - whenever
        """What it was set to."""
        return self._capacity

    def set_capacity(self, capacity: Cost) -> None:
        """Another capacity, which counts at once; 0 holds everything back."""
        new = amount_of("capacity", capacity, InvalidRules)
        if not same_names(new, self._capacity):
            raise InvalidRules(f"capacity must name the same capacities as before, {self._capacity!r}, got {new!r}")
        self._capacity, self._max = new, most(new, self._max)
        self._look()
