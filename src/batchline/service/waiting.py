"""Those who wait for messages of a topic, in the order in which it is their turn; and how long to rest. No I/O."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from batchline.core.message import LeasedMessage

__all__ = ["LOOK_S", "Line", "Waiter", "Wanted", "rest_s"]

#: How often somebody looks, while others wait, for messages that were due as they were created elsewhere.
LOOK_S: Final = 0.015


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody waits for."""

    consumer: str
    #: How many it has room for now; who has none is passed over.
    limit: Callable[[], int]
    duration: timedelta | None = None
    buckets: range | None = None
    #: The session to which the leases belong; None for a consumer without one.
    session: Callable[[], int] | None = None


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody who waits, and what it is given."""

    wanted: Wanted
    answer: asyncio.Future[list[LeasedMessage]]
    #: Whether messages are being leased for it now.
    is_served: bool = False
    #: Whether it goes after that, with messages or without.
    is_last: bool = False

    def give(self, messages: list[LeasedMessage]) -> bool:
        """Hand messages over; tells whether it is still there to take them."""
        if self.answer.done():
            return False
        self.answer.set_result(messages)
        return True

    def refuse(self, error: Exception) -> None:
        """Tell it that it waits for nothing."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class Line:
    """Who came first is served first; who was served, or found nothing, stands at the end."""

    _waiters: dict[Waiter, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._waiters)

    def enter(self, waiter: Waiter) -> None:
        """Stand at the end."""
        self._waiters.pop(waiter, None)
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Stand there no more; again changes nothing."""
        self._waiters.pop(waiter, None)

    def first(self) -> Waiter | None:
        """Whose turn it is."""
        return next(iter(self._waiters), None)

    def clear(self) -> list[Waiter]:
        """Everybody leaves."""
        waiters = list(self._waiters)
        self._waiters.clear()
        return waiters


def rest_s(next_ms: int | None, now_ms: int) -> float:
    """How long nothing is to be done: until the next message is due, or until it is time to look for new ones."""
    if next_ms is None:
        return LOOK_S
    return min(max(next_ms - now_ms, 0) / 1_000, LOOK_S)
