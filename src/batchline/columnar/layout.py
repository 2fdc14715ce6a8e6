"""How the kernel of stage 1 lays out rows, batches and its cursor, and how it is compiled.

What the compiled code holds as a constant stands in `kernel.py` itself: a cached compilation follows the file of its
function alone. What stands here is part of the arguments' types, and a change of it is seen.
"""

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from batchline.columnar.columns import frozen

__all__ = [
    "BATCH",
    "CURSOR",
    "KEY",
    "LINK",
    "NONE_OPEN",
    "Codes",
    "Ints",
    "Numbers",
    "Open",
    "Records",
    "Rows",
    "compiled",
    "inlined",
    "step",
]

#: A row's batch and the next member of the same batch.
LINK: Final = np.dtype([("batch", np.int32), ("next", np.int32)])
BATCH: Final = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("closed_at", np.int64),
        ("bytes", np.int64),
        ("key", np.int32),
        ("ordinal", np.int32),
        ("head", np.int32),
        ("count", np.int32),
        ("reason", np.int64),
    ]
)
KEY: Final = np.dtype(
    [
        # Where its rows begin and end; those before `restored` are already in open batches.
        ("begin", np.int64),
        ("restored", np.int64),
        ("end", np.int64),
        # Where its batches end that closed before, among those of all keys.
        ("closed", np.int64),
        # Its clock: before, if it has rows in open batches, and afterwards.
        ("clock", np.int64),
        # Afterwards: the first of its batches since it had no open one; -1 if it has none now.
        ("oldest", np.int64),
    ]
)
CURSOR: Final = np.dtype(
    [
        # Where the open batches begin and end.
        ("low", np.int64),
        ("high", np.int64),
        # How many batches were ever opened, and the first of them since the key at hand had no open one.
        ("opened", np.int64),
        ("oldest", np.int64),
        # The largest receive time of the key at hand.
        ("clock", np.int64),
        # How many places of the two tables are taken.
        ("members", np.int64),
        ("used", np.int64),
        # How many more places of the table of members the row at hand may take.
        ("more", np.int64),
        # The key and the row at hand.
        ("key", np.int64),
        ("row", np.int64),
        # The next of the batches that closed before.
        ("closed", np.int64),
    ]
)

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Records = NDArray[np.void]


class Numbers(NamedTuple):
    """The rules as numbers; max_bytes is -1 for no limit."""

    window: int
    max_delay: int
    leap_limit: int
    max_bytes: int
    anchor: int
    midpoint: bool


class Rows(NamedTuple):
    """The columns of the messages, and what becomes of each."""

    type: Codes
    event: Ints
    receive: Ints
    size: Ints
    verdict: NDArray[np.int8]
    links: Records


class Open(NamedTuple):
    """What was open before these rows: the window of each row that is in one, and the batches closed since."""

    start: Ints
    end: Ints
    ordinal: Codes
    closed_start: Ints
    closed_ordinal: Codes


njit: Any = numba.njit  # its published type does not know the option that `step` needs


def compiled(function: Any, **options: bool) -> Any:
    """Compile to machine code at the first call, and keep the result for the next process where it can be kept."""
    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba's answer where neither the package nor the home directory can be written
        return njit(nogil=True, **options)(function)


def step(function: Any) -> Any:
    """Compile a step that allocates nothing: counting references to its arrays would cost more than the step."""
    return compiled(function, _nrt=False)


def inlined(function: Any) -> Any:
    """A step of the hot path, compiled into its caller: handing the desk over costs as much as the step."""
    return njit(inline="always")(function)


_NO_TIMES, _NO_CODES = frozen(np.empty(0, np.int64)), frozen(np.empty(0, np.int32))
#: Nothing was open before.
NONE_OPEN: Final = Open(_NO_TIMES, _NO_TIMES, _NO_CODES, _NO_TIMES, _NO_CODES)
