"""Stage 4: sessions, which tell apart the processes that run under one consumer's name.

    worker-1, session 7    ──► drains, ends             its leases stay its own while it is alive
    worker-1, session 8    ───────────► the consumer    takes over what a session left that is not

The newest session is the consumer. An older one that is alive takes nothing more, finishes what it has, and ends.

A client that connects again goes on with its session by its number, and the session gets the next number:

    worker-1, session 7    ──✂              the connection is cut, or is still open at another process of the service
    worker-1, session 7.1     ──────────►   has the leases of 7 under new versions: those of the old connection are void
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from batchline.errors import ConsumerReplaced

__all__ = ["RESUMES", "SessionRow", "Standing", "replaced", "resumed_from", "standing_of"]

#: Numbers that are kept free above that of a new session, for those that go on with it.
RESUMES: Final = 1_024


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


def resumed_from(session: int) -> range:
    """Return the numbers of a session and of all that may have gone on with it, unknown to the client that names it."""
    return range(session, session + RESUMES)


def replaced(consumer: str) -> ConsumerReplaced:
    """Say that a consumer was started elsewhere under the same name."""
    return ConsumerReplaced(
        f"consumer {consumer!r} was started again by another process, so this one takes no more messages: "
        "give each process a name of its own, or stop the old one first"
    )
