"""A clock that is moved by hand, and fanouts that no other test uses."""

import uuid
from typing import Any, Final

from batchline.runtime.estimated_tracker import EstimatedTracker

__all__ = ["BEGIN_US", "HandClock", "new_id", "opened"]

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


def opened(tracker: EstimatedTracker, items: int = 0, **options: Any) -> str:
    """A new fanout with so many items."""
    fanout = tracker.open(**options).id
    if items:
        tracker.add(fanout, items)
    return fanout
