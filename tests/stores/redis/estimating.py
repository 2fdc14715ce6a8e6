"""Fanouts that are counted, for tests."""

from typing import Any

from batchline.runtime.estimated_tracker import EstimatedTracker

__all__ = ["opened"]


def opened(tracker: EstimatedTracker, items: int = 0, **options: Any) -> str:
    """A new fanout with so many items."""
    fanout = tracker.open(**options).id
    if items:
        tracker.add(fanout, items)
    return fanout
