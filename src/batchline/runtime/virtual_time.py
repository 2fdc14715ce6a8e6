"""A loop whose time goes on by itself when everybody waits for it: hours pass in seconds, and nobody sleeps."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeVar

__all__ = ["VirtualLoop", "run_virtually", "virtual_seconds", "virtual_wall_us"]

T = TypeVar("T")
#: How long to wait for threads, which take real time, before looking again.
THREADS_S: Final = 0.05
#: The moment at which virtual time begins.
BEGIN_US: Final = 1_800_000_000_000_000


class VirtualSelector(selectors.DefaultSelector):
    """Asked to wait, it moves the time on instead; unless threads are at work, which it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> Any:
        """What has happened; if nothing has, time has passed."""
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None or self.threads:
            return super().select(THREADS_S if timeout else None)
        # However little it is: time goes on.
        self.now_s = math.nextafter(self.now_s + timeout, math.inf)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. With `inline`, what is for a thread is done at once, so that all is as before."""

    def __init__(self, *, inline: bool = False) -> None:
        self.virtual = VirtualSelector()
        super().__init__(self.virtual)
        self._inline = inline

    def time(self) -> float:
        """The virtual time."""
        # A timer is due at its moment, and not a hair early: time would stand still for who waits by its own clock.
        self._clock_resolution = math.ulp(self.virtual.now_s)
        return self.virtual.now_s

    def run_in_executor(  # type: ignore[override] # as asyncio's, which is typed otherwise
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function in a thread, or now."""
        if self._inline:
            future = self.create_future()
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - as from a thread: for the task that waits
                future.set_exception(error)
            return future
        future = super().run_in_executor(executor, func, *args)
        self.virtual.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self.virtual.threads -= 1


def run_virtually(work: Coroutine[Any, Any, T], *, inline: bool = False) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, inline=inline)) as runner:
        return runner.run(work)


def virtual_seconds() -> float:
    """The virtual time: a clock for whatever runs in it."""
    return asyncio.get_running_loop().time()


def virtual_wall_us() -> int:
    """The moment that it is, in virtual time."""
    return BEGIN_US + round(virtual_seconds() * 1e6)
