"""The one file that reads the clock, and that waits for it."""

import asyncio
import time
from contextlib import suppress
from typing import Final

__all__ = ["elapsed_seconds", "now_us", "wait_for", "wake_after"]


#: It goes on while the machine sleeps, where there is such a clock: leases run out meanwhile.
STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Seconds since some fixed point: only differences mean something, and they never run back."""
    return time.clock_gettime(STEADY)


def now_us() -> int:
    """Now, in microseconds since the epoch."""
    return time.time_ns() // 1_000


async def wait_for(signal: asyncio.Event, seconds: float) -> None:
    """Wait until the signal is given, but not for longer than so many seconds."""
    if signal.is_set():
        await asyncio.sleep(0)  # others have their turn all the same
        return
    # Not asyncio.wait_for: before Python 3.12 it forgets that it was cancelled, if that was when the signal was given.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await signal.wait()


async def wake_after(signal: asyncio.Event, seconds: float) -> None:
    """Wait for a signal; set it after this number of seconds.

    Unlike a timeout it cancels nothing: while a task waits here, its `cancelling()` counts real cancellations only.
    """
    if signal.is_set():
        await asyncio.sleep(0)  # others have their turn all the same
        return
    timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), signal.set)
    try:
        await signal.wait()
    finally:
        timer.cancel()
