"""An estimate: a fanout whose items are counted and have no ids, so that an item acknowledged twice counts twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from batchline.core.fanout import State
from batchline.core.moment import moment_of

__all__ = ["EstimateOutcome", "EstimateStatus", "estimate_status"]


@dataclass(frozen=True, slots=True)
class EstimateOutcome:
    """What a seal, an ack or a fail did."""

    fanout: str
    #: What is left by count; below zero if more was acknowledged than added.
    pending: int
    #: Whether this call, and no other, completed the fanout.
    completed: bool
    #: Whether this call, and no other, made the fanout fail.
    failed: bool


@dataclass(frozen=True, slots=True)
class EstimateStatus:
    """What is known of a fanout by count."""

    id: str
    state: State
    total: int
    #: Below zero if more was acknowledged than added.
    pending: int
    acked: int
    failed: int
    #: How many items may fail; None for any number.
    tolerate: int | None
    #: How long it is kept after its last activity.
    ttl: timedelta
    opened_at: datetime
    sealed_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    last_activity_at: datetime
    #: What it was opened with.
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def sealed(self) -> bool:
        """Whether no item can be added any more."""
        return self.sealed_at is not None

    @property
    def completed(self) -> bool:
        """Whether as many items were done as were added, and no more failed than were tolerated."""
        return self.completed_at is not None

    @property
    def double_counted(self) -> bool:
        """Whether something was certainly counted twice; if not, it may have been all the same."""
        return self.pending < 0


def estimate_status(id: str, kept: Mapping[str, int], labels: Mapping[str, str]) -> EstimateStatus:
    """A fanout's status, from the numbers that are kept of it."""
    total, pending, failed = kept["total"], kept["pending"], kept["failed"]
    return EstimateStatus(
        id=id,
        state=_state(kept),
        total=total,
        pending=pending,
        acked=total - pending - failed,
        failed=failed,
        tolerate=kept.get("tolerate"),
        ttl=timedelta(milliseconds=kept["ttl_ms"]),
        opened_at=moment_of(kept["opened_us"]),
        sealed_at=_moment(kept, "sealed_us"),
        completed_at=_moment(kept, "completed_us"),
        failed_at=_moment(kept, "failed_us"),
        last_activity_at=moment_of(kept["active_us"]),
        labels=labels,
    )


def _state(kept: Mapping[str, int]) -> State:
    if "failed_us" in kept:
        return "failed"
    if "completed_us" in kept:
        return "complete"
    return "sealed" if "sealed_us" in kept else "open"


def _moment(kept: Mapping[str, int], field: str) -> datetime | None:
    return moment_of(kept[field]) if field in kept else None
