"""Those who wait for messages of a topic, in the order in which it is their turn; and how long to rest. No I/O."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from batchline.core.message import LARGEST_BODY, LeasedMessage
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.service.answer_share import AnswerShare

__all__ = ["LOOK_S", "Line", "Waiter", "Wanted", "rest_s"]

#: How often somebody looks, while others wait, for messages that were due as they were created elsewhere.
LOOK_S: Final = 0.015


async def _may_have_it() -> None:
    pass


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
    #: Called before messages are leased and before they are handed over; raises Unauthorized if they may not be.
    check: Callable[[], Awaitable[None]] = _may_have_it
    #: Bytes of bodies that are leased for it at once, unless it is one message alone; and its part of all answers'.
    max_bytes: int = LEASED_BYTES
    share: AnswerShare | None = None

    def room(self) -> int:
        """Take the bytes that it may be given. Return how many messages it may: none, if the bytes are in use."""
        limit = self.limit()
        return limit if not limit or self.share is None or self.share.try_take(self.most_bytes(limit)) else 0

    def most_bytes(self, limit: int) -> int:
        """Return how many bytes the bodies of `limit` messages have at most."""
        return min(limit * LARGEST_BODY, max(self.max_bytes, LARGEST_BODY))

    def keep(self, found: Iterable[LeasedMessage]) -> None:
        """Count as its part of all answers what it was given."""
        if self.share is not None:
            self.share.keep(sum(len(message.body) for message in found))


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
