"""`batchline` in a process whose clock on the wall is off: `python -m tests.faults.skewed_worker SECONDS work …`.

All of it reads the clock in one file: replaced there before anything else is imported, it is off everywhere.
"""

import sys

from batchline.runtime import clock

__all__ = ["main"]


def main(seconds: int, words: list[str]) -> None:
    """Be `batchline` with these words, so many seconds ahead."""
    right = clock.now_us
    clock.now_us = lambda: right() + seconds * 1_000_000
    from batchline.cli import main as batchline

    sys.argv = ["batchline", *words]
    batchline()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
