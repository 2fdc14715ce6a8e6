"""What all stages together ask of a store."""

from typing import Protocol

from batchline.stores.capacity_rows import CapacityRows
from batchline.stores.lane_rows import LaneRows
from batchline.stores.timeline_rows import TimelineRows
from batchline.stores.tracker_rows import TrackerRows

__all__ = ["Rows"]


class Rows(TrackerRows, TimelineRows, CapacityRows, LaneRows, Protocol):
    """The tables of all stages, within one transaction."""
