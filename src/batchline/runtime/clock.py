"""The one file that reads the clock."""

import time

__all__ = ["elapsed_seconds", "now_us"]


def elapsed_seconds() -> float:
    """Seconds since some fixed point: only differences mean something, and they never run back."""
    return time.perf_counter()


def now_us() -> int:
    """Now, in microseconds since the epoch."""
    return time.time_ns() // 1_000
