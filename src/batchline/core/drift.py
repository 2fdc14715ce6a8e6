"""Stage 4: whose clock is wrong.

Brokers compare clocks by way of the database: each notes how far its own is ahead of the database's.
"""

from collections.abc import Sequence
from statistics import median

__all__ = ["drift_ms"]


def drift_ms(ahead_ms: int, all_ahead_ms: Sequence[int]) -> float:
    """How far a broker's clock is off, given how far every live broker, it included, is ahead of the database.

    From three brokers on that is off their median; with fewer there is no majority, and the database's clock decides.
    """
    return ahead_ms - median(all_ahead_ms) if len(all_ahead_ms) > 2 else float(ahead_ms)
