"""A clock that is moved by hand, ids that no other test uses, and a look at leases that are not the test's own."""

import uuid
from typing import Final

from batchline import LeasedMessage, Timeline
from batchline.core.timeline_checks import MOST_BYTES
from batchline.stores.looking import HeldQuery, held_messages
from batchline.stores.topics import known_topic

__all__ = ["BEGIN_US", "HandClock", "leases_of_all_sessions", "new_id"]

BEGIN_US: Final = 1_800_000_000_123_457


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.us = BEGIN_US

    def __call__(self) -> int:
        """The moment it shows."""
        return self.us


def new_id() -> str:
    """An id that nobody else uses."""
    return f"import-{uuid.uuid4()}"


def leases_of_all_sessions(timeline: Timeline, consumer: str, topic: str) -> list[LeasedMessage]:
    """List what a consumer has leased, in whichever session: as if none of them were alive."""
    query = HeldQuery(consumer, None, timeline.now_ms(), live_for_ms=-1 << 40, max_bytes=MOST_BYTES)
    return timeline._store.read(lambda rows: held_messages(rows, [known_topic(rows, topic)], query))[0]
