"""`batchline` in a process whose clock on the wall is off: `python -m tests.faults.skewed_worker SECONDS work …`.

All of it reads the clock in one file, from one function: that is replaced here. Instead of SECONDS, the name of a file
that holds them lets a test set the clock while the process runs.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["main"]


def main(off: str | int, words: list[str]) -> None:
    """Be `batchline` with these words and a clock that is off."""
    right, ahead_s = time.time_ns, _reader(str(off))  # noqa: TID251 - to be read by whom it is meant for, later
    time.time_ns = lambda: right() + ahead_s() * 1_000_000_000  # noqa: TID251
    from batchline.cli import main as batchline

    sys.argv = ["batchline", *words]
    batchline()


def _reader(off: str) -> Callable[[], int]:
    return (lambda: int(off)) if off.removeprefix("-").isdecimal() else (lambda: int(Path(off).read_text()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
