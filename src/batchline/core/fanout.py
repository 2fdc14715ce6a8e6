"""Stage 3: a fanout's life. What came out of one event, and whether all of it is done.

       open ──seal──▶ sealed ──last item done──▶ complete
         │              │
         ├── more failed than tolerated ───────▶ failed
         └── no activity for too long, from any state ──▶ expired

A fanout ends once: it is complete or failed, and exactly one call is told so. Its pending items are counted in shards,
each of which is changed under its own lock; the fanout itself knows how many shards have any, and is touched only when
one becomes empty. So whoever empties the last shard, or seals a fanout without any, is the one who ends it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from batchline.core.moment import moment_of
from batchline.errors import FanoutExpired, FanoutSealed

__all__ = ["STATES", "Ending", "FailedItem", "Fanout", "FanoutPage", "FanoutStatus", "NewFanout", "State", "status_of"]

State = Literal["open", "sealed", "complete", "failed", "expired"]
STATES: Final[tuple[State, ...]] = ("open", "sealed", "complete", "failed", "expired")


@dataclass(frozen=True, slots=True)
class NewFanout:
    """What a fanout is opened with."""

    id: str
    #: Makes the uuids of its groups unlike those of any other fanout.
    salt: int
    parent: str | None
    #: How many items may fail; None for any number.
    tolerate: int | None
    labels: dict[str, str]
    unsealed_for_us: int
    sealed_for_us: int
    tombstone_for_us: int
    #: The message to publish when it is complete, as a text.
    on_complete: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """A fanout ended by this call."""

    fanout: str
    #: "complete" or "failed".
    state: State
    #: Its number while its parent has yet to be told of its end; None otherwise.
    to_propagate: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class Fanout:
    """A fanout as a store keeps it: read under its lock, changed by a rule, written back."""

    number: int
    id: str
    salt: int
    #: The parent's number, and the group in which one item stands for this fanout.
    parent: int | None
    parent_slot: int | None
    tolerate: int | None
    unsealed_for_us: int
    sealed_for_us: int
    tombstone_for_us: int
    opened_us: int
    #: The last activity that touched the fanout itself; that of acks is in its shards.
    active_us: int
    #: When expiry looks at it next.
    due_us: int
    total: int = 0
    failed: int = 0
    #: How many of its shards have pending items.
    open_shards: int = 0
    sealed_us: int | None = None
    completed_us: int | None = None
    failed_us: int | None = None
    expired_us: int | None = None
    #: The call that was told of its end; after its expiry, the one that was told of that.
    told_to: str | None = None
    #: The message to publish when it is complete, as a text.
    on_complete: str | None = None

    @property
    def state(self) -> State:
        """The one state it is in."""
        if self.expired_us is not None:
            return "expired"
        if self.failed_us is not None:
            return "failed"
        if self.completed_us is not None:
            return "complete"
        return "open" if self.sealed_us is None else "sealed"

    @property
    def ended_as(self) -> State | None:
        """How it ended, as its parent counts it: complete, failed, or expired before either. None while it lives."""
        if self.failed_us is not None:
            return "failed"
        if self.completed_us is not None:
            return "complete"
        return None if self.expired_us is None else "expired"

    def check_alive(self) -> None:
        """Raise FanoutExpired if it has expired."""
        if self.expired_us is not None:
            raise FanoutExpired(f"fanout {self.id!r} expired at {moment_of(self.expired_us).isoformat()}")

    def add(self, count: int, opened_shards: int, now_us: int) -> None:
        """Take so many more items, which gave so many empty shards something to count."""
        self.check_alive()
        if self.sealed_us is not None:
            sealed_at = moment_of(self.sealed_us).isoformat()
            raise FanoutSealed(f"fanout {self.id!r} was sealed at {sealed_at}: no item can be added")
        self.total += count
        self.open_shards += opened_shards
        self.touch(now_us)

    def seal(self, now_us: int, call_id: str) -> Ending | None:
        """Take no more items. Sealing again changes nothing."""
        self.check_alive()
        if self.sealed_us is not None:
            return None
        self.sealed_us = now_us
        self.touch(now_us)
        return self._end(now_us, call_id)

    def settle(self, closed_shards: int, failures: int, now_us: int, call_id: str) -> Ending | None:
        """Note that so many shards have become empty, and so many items failed."""
        self.open_shards -= closed_shards
        self.failed += failures
        self.touch(now_us)
        return self._end(now_us, call_id)

    def _end(self, now_us: int, call_id: str) -> Ending | None:
        if self.completed_us is not None or self.failed_us is not None or self.expired_us is not None:
            return None
        if self.tolerate is not None and self.failed > self.tolerate:
            self.failed_us = now_us
        elif self.sealed_us is not None and self.open_shards == 0:
            self.completed_us = now_us
        else:
            return None
        self.told_to = call_id
        return Ending(self.id, self.state)

    def quiet_until_us(self, shards_active_us: int | None) -> int:
        """When it expires, unless something happens before."""
        span_us = self.unsealed_for_us if self.sealed_us is None else self.sealed_for_us
        return max(self.active_us, shards_active_us or 0) + span_us

    def expire(self, now_us: int, call_id: str) -> None:
        """Give it up. If it had not ended, it ends as expired."""
        self.expired_us = self.due_us = now_us
        self.told_to = call_id

    def touch(self, now_us: int) -> None:
        """Note activity: what a caller did, repeats included.

        An ended fanout never gets a later due time: its end may have yet to reach its parent.
        """
        self.active_us = max(self.active_us, now_us)
        if self.expired_us is None:
            quiet_until_us = self.quiet_until_us(None)
            self.due_us = quiet_until_us if self.ended_as is None else min(self.due_us, quiet_until_us)


@dataclass(frozen=True, slots=True)
class FanoutStatus:
    """What is known of a fanout; the counts are exact."""

    id: str
    state: State
    total: int
    pending: int
    acked: int
    failed: int
    tolerate: int | None
    #: The id of its parent.
    parent: str | None
    opened_at: datetime
    sealed_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    expired_at: datetime | None
    last_activity_at: datetime
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def sealed(self) -> bool:
        """Whether no item can be added any more."""
        return self.sealed_at is not None

    @property
    def completed(self) -> bool:
        """Whether every item is done, and no more failed than were tolerated."""
        return self.completed_at is not None


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that failed for good."""

    id: str
    reason: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class FanoutPage:
    """Some fanouts, and where the next page begins; None if this is the last."""

    fanouts: tuple[FanoutStatus, ...]
    next: int | None


def status_of(
    fanout: Fanout, parent: str | None, pending: int, shards_active_us: int | None, labels: dict[str, str]
) -> FanoutStatus:
    """A fanout's status, from what is kept of it and its shards."""
    return FanoutStatus(
        id=fanout.id,
        state=fanout.state,
        total=fanout.total,
        pending=pending,
        acked=fanout.total - pending - fanout.failed,
        failed=fanout.failed,
        tolerate=fanout.tolerate,
        parent=parent,
        opened_at=moment_of(fanout.opened_us),
        sealed_at=_moment(fanout.sealed_us),
        completed_at=_moment(fanout.completed_us),
        failed_at=_moment(fanout.failed_us),
        expired_at=_moment(fanout.expired_us),
        last_activity_at=moment_of(max(fanout.active_us, shards_active_us or 0)),
        labels=labels,
    )


def _moment(us: int | None) -> datetime | None:
    return None if us is None else moment_of(us)
