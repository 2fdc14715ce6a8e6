"""What all stages together ask of a store."""

from typing import Protocol

from batchline.stores.capacity_rows import CapacityRows
from batchline.stores.lane_rows import LaneRows
from batchline.stores.report_rows import ReportRows
from batchline.stores.timeline_rows import TimelineRows
from batchline.stores.token_rows import TokenRows
from batchline.stores.tracker_rows import TrackerRows

__all__ = ["Rows"]


class Rows(TrackerRows, TimelineRows, CapacityRows, LaneRows, TokenRows, ReportRows, Protocol):
    """The tables of all stages and of the service, within one transaction."""
