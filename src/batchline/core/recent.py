"""How much there was within the last second."""

from collections import deque
from typing import Any

from batchline.core.cost import Amount

__all__ = ["Recent"]


class Recent:
    """Amounts with their moments, as far back as a second, or as one says."""

    def __init__(self, span_s: float = 1.0) -> None:
        self._span_s = span_s
        self._noted: deque[tuple[float, Amount]] = deque()

    def note(self, amount: Amount, now_s: float) -> None:
        """There is so much now."""
        self._forget(now_s)
        if amount:
            self._noted.append((now_s, amount))

    def total(self, now_s: float) -> Any:
        """How much there was."""
        self._forget(now_s)
        return sum(amount for _, amount in self._noted)

    def _forget(self, now_s: float) -> None:
        while self._noted and self._noted[0][0] <= now_s - self._span_s:
            self._noted.popleft()
