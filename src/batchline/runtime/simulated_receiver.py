"""A receiver that is not there: it takes so much within a second, and refuses what is more, if it throttles."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from batchline.core.cost import Amount, exceeds, most
from batchline.core.recent import Recent
from batchline.core.scenario import Receiver
from batchline.errors import Throttled
from batchline.runtime.virtual_time import virtual_seconds

__all__ = ["LENIENT", "SimulatedReceiver"]

#: A second of the receiver's, less what timers may be early.
SECOND_S: Final = 0.999
#: So much above its limit is rounding: an operation is sent whole or not at all.
LENIENT: Final = 1.01


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
        #: The most that came within any second, accepted or not.
        self.largest_second: Any = 0
        self._offered, self._within = Recent(SECOND_S), Recent(SECOND_S)

    @property
    def exceeded(self) -> bool:
        """Whether more came within a second than it can take."""
        return exceeds(self.largest_second, self.allowed)

    def take(self, cost: Amount) -> bool:
        """Take what costs so much, or refuse it; tells whether it was taken."""
        now_s = virtual_seconds()
        self._offered.note(cost, now_s)
        self.largest_second = most(self.largest_second, self._offered.total(now_s))
        if self.rules.throttles and exceeds(self._within.total(now_s) + cost, self.allowed):
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
