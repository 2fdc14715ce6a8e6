"""What the contract's tests share: fanouts that no other test uses, and acks alone or among others."""

import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from batchline import AckOutcome, Store, Tracker
from batchline.core.ack import Item
from batchline.core.fanout import NewFanout
from batchline.core.item_group import SALT_BITS
from batchline.core.moment import span_us
from batchline.errors import BatchlineError
from batchline.runtime.tracker import ExpireOutcome
from batchline.stores.tracking import open_fanout
from tests.doubles import HandClock, new_id

__all__ = [
    "DAY_US",
    "HOUR_US",
    "Finishing",
    "Way",
    "chain",
    "errors_of",
    "expire_all",
    "new_id",
    "opened",
    "pass_time",
    "recounted",
]

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
#: A call that names one group takes a shorter way than one that names several.
Way = Literal["alone", "among others"]


@dataclass
class Finishing:
    """Acks and fails of items of one group, alone in their call, or beside an item of a bystander."""

    tracker: Tracker
    way: Way

    def ack(self, items: list[Any], **options: Any) -> AckOutcome:
        if self.way == "alone":
            return self.tracker.ack(items, **options)
        return without_bystander(self.tracker.ack([*items, self.bystander()], **options))

    def fail(self, items: list[Any], reason: object = "broken", **options: Any) -> AckOutcome:
        if self.way == "alone":
            return self.tracker.fail(items, reason, **options)
        return without_bystander(self.tracker.fail([*items, self.bystander()], reason, **options))

    def bystander(self) -> Item:
        """An item of another fanout, which stays open."""
        (group,) = self.tracker.add(self.tracker.open(tolerate=None).id, 3)
        return group, 2


def without_bystander(outcome: AckOutcome) -> AckOutcome:
    return replace(outcome, changed=outcome.changed - 1)


def opened(tracker: Tracker, items: int = 0, **options: Any) -> tuple[str, list[str]]:
    """A new fanout, and the ids of its items."""
    fanout = tracker.open(options.pop("id", None) or new_id(), **options).id
    groups = tracker.add(fanout, items) if items else []
    return fanout, [item for group in groups for item in group.items()]


def errors_of(outcome: AckOutcome) -> list[tuple[object, type[BatchlineError]]]:
    """Each item that did not count, and the kind of its error."""
    return [(error.item, type(error.error)) for error in outcome.errors]


def pass_time(clock: HandClock, span: Any) -> None:
    clock.us += span_us(span)


def expire_all(tracker: Tracker) -> ExpireOutcome:
    """Steps of expiry until there is nothing more to do at this moment, as one."""
    whole = ExpireOutcome(more=True)
    while whole.more:
        step = tracker.expire_due()
        whole.expired += step.expired
        whole.removed += step.removed
        whole.completed += step.completed
        whole.failed += step.failed
        whole.more = step.more
    return whole


def recounted(store: Store, fanout: str) -> tuple[int, int]:
    """How many items are pending and how many failed, counted bit by bit and not by the counters."""

    def count(rows: Any) -> tuple[int, int]:
        number = rows.fanouts_by_id([fanout])[fanout].number
        pending = sum(bits.bit_count() for _, bits in rows.pending_groups(number, 0, 100_000))
        failed = sum(one.bits.bit_count() for one in rows.failures(number, 0, 100_000))
        return pending, failed

    return store.read(count)


def chain(store: Store, length: int, now_us: int, parent: str | None = None, **options: Any) -> list[str]:
    """Open fanouts below `parent`, each the parent of the next, and seal all but the last, 500 in a transaction."""
    rules = {"unsealed_for_us": DAY_US, "sealed_for_us": DAY_US, "tombstone_for_us": DAY_US, "tolerate": 0} | options
    root = new_id()
    ids = [root, *(f"{root}/{level}" for level in range(1, length))]

    def work(rows: Any, first: int) -> None:
        for level in range(first, min(first + 500, length)):
            above_id = ids[level - 1] if level else parent
            open_fanout(rows, NewFanout(ids[level], secrets.randbits(SALT_BITS), above_id, labels={}, **rules), now_us)
            if above_id is not None:
                above = rows.hold_fanout(rows.fanouts_by_id([above_id])[above_id].number)
                above.seal(now_us, "")
                rows.write_fanout(above)

    for first in range(0, length, 500):
        store.transact(partial(work, first=first))
    return ids
