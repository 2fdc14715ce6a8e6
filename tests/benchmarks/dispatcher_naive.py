"""The rate limit as the program of the seed has it, and many others: each flush may send a slice of the capacity.

A slice is a whole number, the capacity for one flush interval; a flush goes on while it has sent less than that, and
forgets what it sent too much. Who asks for a flush gets another slice.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from batchline.core.ticker import Ticker
from batchline.runtime.clock import elapsed_seconds, wait_for

__all__ = ["Naive"]


@dataclass
class Naive:
    """A limiter that always has something to send, all of it at one cost."""

    capacity: float
    cost: float
    flush_s: float
    #: Is told the cost of what each flush sends.
    send: Callable[[float], object]
    clock: Callable[[], float] = elapsed_seconds
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def flush(self) -> None:
        """Flush as soon as possible."""
        self._asked.set()

    async def run(self) -> None:
        """Send for ever."""
        ticks = Ticker(self.flush_s, self.clock())
        while True:
            await wait_for(self._asked, ticks.next_s - self.clock())
            if ticks.due(self.clock()):
                self._send_slice()
            if self._asked.is_set():
                self._asked.clear()
                self._send_slice()

    def _send_slice(self) -> None:
        budget, sent = int(self.capacity * self.flush_s + 1e-9), 0.0
        while sent < budget:
            sent += self.cost
        if sent:
            self.send(sent)
