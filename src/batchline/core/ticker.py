"""Something that is due again and again, on a grid of moments: one that is missed is not made up for."""

import math

__all__ = ["Ticker"]


class Ticker:
    """Due every so many seconds."""

    def __init__(self, every_s: float, now_s: float):
        self._every_s, self._begin_s = every_s, now_s
        #: When it is due next.
        self.next_s = now_s + every_s

    def due(self, now_s: float) -> bool:
        """Whether it is due now; then the next moment of the grid is next."""
        if now_s < self.next_s:
            return False
        # A moment of the grid, computed back to its number, may be a little less than that.
        passed = math.floor((now_s - self._begin_s) / self._every_s + 1e-6) + 1
        self.next_s = max(self._begin_s + passed * self._every_s, math.nextafter(now_s, math.inf))
        return True
