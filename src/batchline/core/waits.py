"""How long things waited: counted on a scale of 1 %, so that any number of them takes little room."""

import math
from collections import Counter
from typing import Final

__all__ = ["Waits"]

STEP: Final = math.log(1.01)
#: What is shorter is no wait.
SHORTEST_S: Final = 0.001


class Waits:
    """How often what length of wait was."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._counts: Counter[int] = Counter()

    def note(self, seconds: float, count: int = 1) -> None:
        """So many waited so long."""
        step = -1 if seconds < SHORTEST_S else math.ceil(math.log(seconds / SHORTEST_S) / STEP)
        self._counts[step] += count
        self.longest_s = max(self.longest_s, seconds)

    def add(self, other: "Waits") -> None:
        """Those of another, too."""
        self._counts += other._counts  # noqa: SLF001 - one of the same kind
        self.longest_s = max(self.longest_s, other.longest_s)

    def within_s(self, share: float) -> float:
        """How long at most this share of them waited."""
        left = share * self._counts.total()
        for step, count in sorted(self._counts.items()):
            left -= count
            if left <= 0:
                return 0.0 if step < 0 else min(SHORTEST_S * math.exp(step * STEP), self.longest_s)
        return 0.0
