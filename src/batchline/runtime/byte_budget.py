"""Bytes that a process may hold for one purpose at the same time; those who want some wait in line. No I/O."""

import asyncio
from collections import deque
from weakref import WeakValueDictionary

__all__ = ["ByteBudget"]


class ByteBudget:
    """Counts, in the loop's thread. What is larger than all of them is held when there is nothing else."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0
        #: Those that wait, in the order in which they came.
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._parts: WeakValueDictionary[str, ByteBudget] | None = None

    def part_of(self, caller: str) -> "ByteBudget":
        """Return the budget of one caller: half of this one, so that no caller takes all. The same while it is used."""
        if self._parts is None:
            self._parts = WeakValueDictionary()
        part = self._parts.get(caller)
        if part is None:
            part = self._parts[caller] = ByteBudget(self._most // 2)
        return part

    def try_take(self, size: int) -> bool:
        """Take bytes, if there are as many and no other waits for some."""
        if self._line or not self._has(size):
            return False
        self.held += size
        return True

    async def take(self, size: int) -> None:
        """Take bytes as soon as there are as many."""
        if self.try_take(size):
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append((size, turn))
        try:
            await turn
        except BaseException:
            self._leave(size, turn)
            raise

    def give_back(self, size: int) -> None:
        """Hold fewer bytes, or more if it is negative; those that wait take what is free."""
        self.held -= size
        while self._line and self._has(self._line[0][0]):
            wanted, turn = self._line.popleft()
            if not turn.done():
                self.held += wanted
                turn.set_result(None)

    def _has(self, size: int) -> bool:
        return self.held + size <= self._most or not self.held

    def _leave(self, size: int, turn: "asyncio.Future[None]") -> None:
        if turn.done() and not turn.cancelled():
            self.give_back(size)  # it was its turn just now
        else:
            self._line = deque(one for one in self._line if one[1] is not turn)
            self.give_back(0)
