"""What an answer has of the bytes that all answers may have which are made or sent at the same time.

    take ─► lease, encode ─► keep what it is ─► sent ─► end

An answer takes the most that it may have before messages are leased for it: one that cannot be held is never leased.
All answers of one caller have half of the bytes at most: a caller that reads slowly leaves the other half to others.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from batchline.errors import Overloaded
from batchline.runtime.byte_budget import ByteBudget
from batchline.wire.problems import RETRY_AFTER_S

__all__ = ["ANSWER_BYTES", "AnswerShare"]

#: Bodies of all answers of a process together; while it is encoded, an answer takes about four times as much memory.
ANSWER_BYTES: Final = 64 << 20
#: How long a request waits for its part of them.
WAIT_S: Final = 5.0


@dataclass(slots=True)
class AnswerShare:
    """The part of one answer, or of one socket."""

    _all: ByteBudget
    #: Whose it is, if that is known; and, once it has had something, what its caller may have.
    _caller: str = ""
    _own: ByteBudget | None = None
    _size: int = 0
    _has_ended: bool = False

    def belong(self, caller: str) -> None:
        """Count it among those of a caller. To be called before it has anything."""
        self._caller = caller

    async def take(self, size: int, *, patient: bool = False) -> None:
        """Hold at least `size` bytes; raise Overloaded if that takes too long, unless it is patient."""
        if size <= self._size:
            return
        try:
            async with asyncio.timeout(None if patient else WAIT_S):
                await self._take_more(size - self._size)
        except TimeoutError as error:
            raise Overloaded(
                f"{self._all.held:,} bytes of large requests and answers are under way: try again in "
                f"{RETRY_AFTER_S} s, or ask for less at once"
            ) from error
        self._size = size

    def try_take(self, size: int) -> bool:
        """Hold at least `size` bytes, if they are free now. Return whether it does."""
        if self._has_ended or (size > self._size and not self._try_more(size - self._size)):
            return False
        self._size = max(size, self._size)
        return True

    async def _take_more(self, size: int) -> None:
        own = self._part()
        if own is None:
            await self._all.take(size)
            return
        await own.take(size)
        try:
            await self._all.take(size)
        except BaseException:
            own.give_back(size)
            raise

    def _try_more(self, size: int) -> bool:
        own = self._part()
        if own is None:
            return self._all.try_take(size)
        if not own.try_take(size):
            return False
        if self._all.try_take(size):
            return True
        own.give_back(size)
        return False

    def _part(self) -> ByteBudget | None:
        if self._own is None and self._caller:
            self._own = self._all.part_of(self._caller)
        return self._own

    def keep(self, size: int) -> None:
        """Hold `size` bytes from now on, what it has turned out to need; none after its end."""
        size = 0 if self._has_ended else size
        freed, self._size = self._size - size, size
        self._all.give_back(freed)
        if self._own is not None:
            self._own.give_back(freed)

    def end(self) -> None:
        """Have none any more: the answer was sent, or never will be."""
        self._has_ended = True
        self.keep(0)
