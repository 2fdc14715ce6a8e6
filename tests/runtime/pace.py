"""Time for loops under test: it goes on when they have nothing to do, and nobody waits for it."""

import asyncio
from collections.abc import Callable

from tests.doubles import HandClock

__all__ = ["Pace"]


class Pace:
    """A clock that is moved by whoever waits for it."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.begin_us = self.clock.us
        self._wanted: list[tuple[Callable[[], bool], asyncio.Event]] = []

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return (self.clock.us - self.begin_us) / 1e6

    async def wait(self, signal: asyncio.Event, seconds: float) -> None:
        """Let others run; if nobody gives the signal, time has passed."""
        for _ in range(10):
            await asyncio.sleep(0)
            if signal.is_set():
                break
        else:
            self.clock.us += round(seconds * 1e6)
        for wanted, come in self._wanted:
            if not come.is_set() and wanted():
                come.set()
                await asyncio.sleep(0)

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait for others to make something true; who waits for the clock looks whether it is."""
        come = asyncio.Event()
        self._wanted.append((wanted, come))
        await come.wait()
