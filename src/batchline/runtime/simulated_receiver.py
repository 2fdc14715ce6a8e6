"""A receiver that is not there: it takes so much within a second, and refuses what is more, if it throttles."""

import asyncio
from collections import deque
from datetime import timedelta
from typing import Any, Final

from batchline.core.cost import Amount, exceeds, most
from batchline.core.scenario import Receiver
from batchline.errors import Throttled
from batchline.runtime.virtual_time import virtual_seconds

__all__ = ["LENIENT", "Recently", "SimulatedReceiver"]

#: A second of the receiver's, less what timers may be early.
SECOND_S: Final = 0.999
#: So much above its limit is rounding: an operation is sent whole or not at all.
LENIENT: Final = 1.01


class Recently:
    """What came within the last second, and the most that ever did."""

    def __init__(self) -> None:
        self.most: Any = 0
        self._came: deque[tuple[float, Amount]] = deque()
        self._sum: Any = 0

    def sum(self, now_s: float) -> Any:
        """What came within the second before now."""
        while self._came and self._came[0][0] <= now_s - SECOND_S:
            self._sum = self._sum - self._came.popleft()[1]
        return self._sum

    def note(self, cost: Amount, now_s: float) -> None:
        """So much comes now."""
        self._came.append((now_s, cost))
        self._sum = self.sum(now_s) + cost
        self.most = most(self.most, self._sum)


class SimulatedReceiver:
    """Takes batches; counts what it accepted and what it refused."""

    def __init__(self, rules: Receiver, dearest: Amount):
        self.rules = rules
        #: The most within any second that is not too much.
        self.allowed: Any = rules.limit * LENIENT + dearest
        self.accepted: Any = rules.limit * 0
        self.throttled: Any = rules.limit * 0
        #: How many batches it refused.
        self.refusals = 0
        #: What came, accepted or not.
        self.offered = Recently()
        self._within = Recently()

    @property
    def exceeded(self) -> bool:
        """Whether more came within a second than it can take."""
        return exceeds(self.offered.most, self.allowed)

    def take(self, cost: Amount) -> bool:
        """Take what costs so much, or refuse it; tells whether it was taken."""
        now_s = virtual_seconds()
        self.offered.note(cost, now_s)
        if self.rules.throttles and exceeds(self._within.sum(now_s) + cost, self.allowed):
            self.throttled = self.throttled + cost
            self.refusals += 1
            return False
        self._within.note(cost, now_s)
        self.accepted = self.accepted + cost
        return True

    async def answer(self, taken: bool) -> None:
        """After a while, say so: Throttled, if it was not taken."""
        if self.rules.latency > timedelta(0):
            await asyncio.sleep(self.rules.latency.total_seconds())
        if not taken:
            raise Throttled(retry_after=self.rules.retry_after)
