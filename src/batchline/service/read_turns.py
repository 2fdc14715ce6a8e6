"""Turns in which connections that send much are read on: one at a time, and all others in between."""

import asyncio
from collections import deque
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

__all__ = ["TURN_BYTES", "HeldFlow", "ReadTurns"]

#: Bytes that come at once from which on a connection waits for its turn to be read on.
TURN_BYTES: int = 64 << 10


class ReadTurns:
    """Works in the loop's thread. Each turn of the loop reads one connection on, the one that has waited longest."""

    def __init__(self) -> None:
        self._line: deque[Callable[[], None]] = deque()

    def wait(self, read_on: Callable[[], None]) -> None:
        """Wait in line; `read_on` is called in turn."""
        self._line.append(read_on)
        if len(self._line) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        read_on = self._line.popleft()
        if self._line:
            asyncio.get_running_loop().call_soon(self._next)
        read_on()


class HeldFlow(FlowControl):
    """Reading that is paused by the server, while a body is not taken, and by us, until it is its turn."""

    is_held = False

    def hold(self) -> None:
        """Read nothing until `let_go`."""
        self.is_held = True
        if not self.read_paused:
            self._transport.pause_reading()

    def let_go(self) -> None:
        """Read on, unless the server pauses."""
        self.is_held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Pause, as the server wants it."""
        if self.is_held:
            self.read_paused = True
        else:
            super().pause_reading()

    def resume_reading(self) -> None:
        """Resume, as the server wants it."""
        if self.is_held:
            self.read_paused = False
        else:
            super().resume_reading()
