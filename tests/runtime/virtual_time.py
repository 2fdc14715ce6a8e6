"""A loop whose time goes on by itself when everybody waits for it: hours pass in milliseconds, and nobody sleeps."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from tests.doubles import BEGIN_US

__all__ = ["VirtualLoop", "run_virtually", "virtual_seconds", "virtual_wall_us"]

T = TypeVar("T")
#: How long to wait for threads, which take real time, before looking again.
THREADS_S: Final = 0.05


class VirtualSelector(selectors.DefaultSelector):
    """Asked to wait, it moves the time on instead; unless threads are at work, which it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or timeout is None or timeout <= 0:
            return found if found or timeout is not None else super().select(None)
        if self.threads:
            return super().select(THREADS_S)
        # As asyncio sees it, a timer is due after its moment, not at it.
        self.now_s = math.nextafter(self.now_s + timeout, math.inf)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self.virtual = VirtualSelector()
        super().__init__(self.virtual)
        # No timer is due a nanosecond early: time would stand still for who waits for its own moment.
        self._clock_resolution = 0.0

    def time(self) -> float:
        return self.virtual.now_s

    def run_in_executor(  # type: ignore[override] # as asyncio's, with a count
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self.virtual.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self.virtual.threads -= 1


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def virtual_seconds() -> float:
    """The virtual time: the clock for whatever is under test."""
    return asyncio.get_running_loop().time()


def virtual_wall_us() -> int:
    """The moment that it is, in virtual time."""
    return BEGIN_US + round(virtual_seconds() * 1e6)
