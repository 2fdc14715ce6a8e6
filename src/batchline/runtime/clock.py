"""The one file that reads the clock."""

import time

__all__ = ["elapsed_seconds"]


def elapsed_seconds() -> float:
    """Seconds since some fixed point: only differences mean something, and they never run back."""
    return time.perf_counter()
