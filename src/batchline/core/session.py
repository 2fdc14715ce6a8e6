"""Stage 4: sessions, which tell apart the processes that run under one consumer's name.

    worker-1, session 7    ──► drains, ends             its leases stay its own while it is alive
    worker-1, session 8    ───────────► the consumer    takes over what a session left that is not

The newest session is the consumer. An older one that is alive takes nothing more, finishes what it has, and ends.
"""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["SessionRow", "Standing", "standing_of"]


class SessionRow(NamedTuple):
    """A session of a consumer, as it was seen last."""

    consumer: str
    #: Numbers grow with time: the newest session has the largest.
    session: int
    seen_ms: int
    #: Which process that is, so that others on its machine can see whether it has ended; empty if it does not say.
    process: str = ""


class Standing(NamedTuple):
    """What a session is among those of its name."""

    #: Whether a newer one is alive.
    replaced: bool
    #: The others that are alive.
    others: tuple[SessionRow, ...]


def standing_of(mine: SessionRow, rows: Iterable[SessionRow], now_ms: int, live_for_ms: int) -> Standing:
    """Compare a session with all others of its name that were seen lately, by a clock that may be a little off."""
    others = tuple(
        row
        for row in rows
        if row.consumer == mine.consumer and row.session != mine.session and abs(now_ms - row.seen_ms) <= live_for_ms
    )
    return Standing(any(row.session > mine.session for row in others), others)
