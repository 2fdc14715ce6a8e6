"""Numbers for what is new: they grow with time, and hardly ever meet those of another process."""

import secrets
from typing import Final

from batchline.stores.forks import fork_safe_lock

__all__ = ["fresh_number", "number_after"]

#: 2020-01-01: 41 bits of milliseconds from then on last until 2089.
BEGIN_MS: Final = 1_577_836_800_000
CHANCE_BITS: Final = 22
_lock: Final = fork_safe_lock()
_last = 0


def fresh_number(now_ms: int, count: int) -> int:
    """The first of so many numbers that nobody has used, unless by a rare chance; then the store says so."""
    global _last
    by_time = max(now_ms - BEGIN_MS, 0) << CHANCE_BITS | secrets.randbits(CHANCE_BITS)
    with _lock:
        # Should the clock stand still or go back: after the last, and not at once, as forked processes all would.
        first = by_time if by_time > _last else _last + secrets.randbits(CHANCE_BITS // 2)
        _last = first + count
    return first


def number_after(number: int) -> int:
    """A number that is larger than another, and hardly ever the one that another process takes after it."""
    return number + 1 + secrets.randbits(CHANCE_BITS)
