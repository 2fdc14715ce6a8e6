"""`batchline` in a process whose clock on the wall is off: `python -m tests.faults.skewed_worker SECONDS work …`.

All of it reads the clock in one file, from one function: that is replaced here.
"""

import sys
import time

__all__ = ["main"]


def main(seconds: int, words: list[str]) -> None:
    """Be `batchline` with these words, so many seconds ahead."""
    right = time.time_ns  # noqa: TID251 - to be read by whom it is meant for, later
    time.time_ns = lambda: right() + seconds * 1_000_000_000  # noqa: TID251
    from batchline.cli import main as batchline

    sys.argv = ["batchline", *words]
    batchline()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
