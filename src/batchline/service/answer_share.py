"""What an answer has of the bytes that all answers may have which are made or sent at the same time.

    take ─► lease, encode ─► keep what it is ─► sent ─► end

An answer takes the most that it may have before messages are leased for it: one that cannot be held is never leased.
"""

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
    _size: int = 0
    _has_ended: bool = False

    async def take(self, size: int, *, patient: bool = False) -> None:
        """Hold at least `size` bytes; raise Overloaded if that takes too long, unless it is patient."""
        if size <= self._size:
            return
        try:
            await self._all.take(size - self._size, None if patient else WAIT_S)
        except TimeoutError as error:
            raise Overloaded(
                f"{self._all.held:,} bytes of large requests and answers are under way: try again in "
                f"{RETRY_AFTER_S} s, or ask for less at once"
            ) from error
        self._size = size

    def try_take(self, size: int) -> bool:
        """Hold at least `size` bytes, if they are free now. Return whether it does."""
        if self._has_ended or (size > self._size and not self._all.try_take(size - self._size)):
            return False
        self._size = max(size, self._size)
        return True

    def keep(self, size: int) -> None:
        """Hold `size` bytes from now on, what it has turned out to need; none after its end."""
        size = 0 if self._has_ended else size
        freed, self._size = self._size - size, size
        self._all.give_back(freed)

    def end(self) -> None:
        """Have none any more: the answer was sent, or never will be."""
        self._has_ended = True
        self.keep(0)
