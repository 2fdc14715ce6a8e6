"""Waiting for what other processes and threads do, where they give no signal."""

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["wait_until"]

PATIENCE_S: Final = 120.0


def wait_until(what: Callable[[], object], pause_s: float = 0.01) -> None:
    """Ask again and again, a bounded number of times, until it is so."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / pause_s)):
        if what():
            return
        pause.wait(pause_s)
    raise AssertionError(f"it did not come to that in {PATIENCE_S:.0f} s")
