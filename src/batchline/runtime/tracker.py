"""Stage 3: is everything that came out of one event done? Answered exactly, and told exactly once."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from batchline.core.ack import AckOutcome, Asked, Item, SealOutcome, collect_items
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import STATES, Ending, FailedItem, FanoutPage, FanoutStatus, NewFanout, State
from batchline.core.item_group import SALT_BITS, ItemGroup, item_groups
from batchline.core.moment import AFTER_ALL_US, BEFORE_ALL_US, span_us
from batchline.core.name import check_labels, check_name, reason_text
from batchline.core.on_complete import OnComplete
from batchline.core.tracker_checks import (
    check_age,
    check_count,
    check_items,
    check_limit,
    check_message,
    check_page,
    check_tolerate,
)
from batchline.errors import InvalidInput, UnknownFanout, check_choice
from batchline.runtime.clock import now_us
from batchline.stores.expiring import Looked, clear_fanout, expire_fanout, look_at
from batchline.stores.listing import cursor_of, failed_items, list_fanouts, pending_items
from batchline.stores.store import Store
from batchline.stores.tracker_rows import Listing
from batchline.stores.tracking import Finished, add_items, finish_items, open_fanout, seal_fanout, told

__all__ = ["ExpireOutcome", "Tracker"]

#: Groups that one transaction takes on: a larger call is several, each of them whole.
GROUPS_AT_ONCE: Final = 10_000


@dataclass(slots=True)
class ExpireOutcome:
    """What a step of expiry did."""

    #: Ids of the fanouts that became tombstones.
    expired: list[str] = field(default_factory=list)
    #: Ids of the tombstones that went.
    removed: list[str] = field(default_factory=list)
    #: Ids of the parents that this call, and no other, completed or made fail.
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    #: Whether there is more to do at this moment.
    more: bool = False

    def take(self, looked: Looked) -> None:
        """Add what a look at one fanout led to."""
        self.expired += [looked.expired] if looked.expired else []
        self.removed += [looked.removed] if looked.removed else []
        self.completed += _ended(looked.endings, "complete")
        self.failed += _ended(looked.endings, "failed")


class Tracker:
    """Fanouts in a store. Any number of trackers, in any number of processes, work on one store."""

    def __init__(self, store: Store, *, expiry: ExpiryRules | None = None, clock: Callable[[], int] = now_us):
        """A tracker on a store; `expiry` holds for fanouts that are opened without rules of their own."""
        self._store = store
        self._expiry = expiry or ExpiryRules()
        self._now_us = clock

    def open(
        self,
        id: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
        tolerate: int | None = 0,
        expiry: ExpiryRules | None = None,
        on_complete: OnComplete | None = None,
    ) -> FanoutStatus:
        """Open a fanout, with an id of yours or one made here. Opening it again in the same way changes nothing.

        With a `parent` it counts as one item of that, done when this one is complete. More failed items than
        `tolerate` make it fail; None tolerates any number. The transaction that completes it puts the message of
        `on_complete` on its topic.
        """
        rules = expiry or self._expiry
        new = NewFanout(
            id=check_name("the id of a fanout", id) if id is not None else secrets.token_hex(16),
            salt=secrets.randbits(SALT_BITS),
            parent=None if parent is None else check_name("the id of a parent", parent),
            tolerate=check_tolerate(tolerate),
            labels=check_labels({} if labels is None else labels),
            unsealed_for_us=rules.unsealed_us,
            sealed_for_us=rules.sealed_us,
            tombstone_for_us=rules.tombstone_us,
            on_complete=check_message(on_complete),
        )
        return self._store.transact(lambda rows: open_fanout(rows, new, self._now_us()))

    def add(self, fanout: str, count: int, *, add_id: str | None = None) -> list[ItemGroup]:
        """Add items, and answer their groups, 64 to a group. With an `add_id` used before: the same groups again."""
        check_name("the id of a fanout", fanout)
        check_count(count)
        # One of our own, so that repeating it after a lost connection adds nothing twice.
        named = secrets.token_hex(8) if add_id is None else check_name("add_id", add_id)
        added = self._store.transact(lambda rows: add_items(rows, fanout, count, named, self._now_us()))
        return item_groups(fanout, added.number, added.salt, added.count)

    def seal(self, fanout: str, *, call_id: str | None = None) -> SealOutcome:
        """Take no more items. `completed` is true for the one call that made the fanout complete.

        Who repeats a call after a lost answer with the same `call_id` gets the same answer.
        """
        check_name("the id of a fanout", fanout)
        call = _call(call_id)
        endings = self._store.transact(lambda rows: seal_fanout(rows, fanout, self._now_us(), call))
        completed, failed = _ended(endings, "complete"), _ended(endings, "failed")
        parents = tuple(one for one in completed if one != fanout)
        return SealOutcome(fanout, fanout in completed, parents, tuple(failed))

    def ack(self, items: Iterable[Item] | Mapping[str, int], *, call_id: str | None = None) -> AckOutcome:
        """Acknowledge items, by their ids or as (group, mask), in any order and any number of times.

        A mapping from `fanout:uuid` to a mask names them by group; its errors are told item by item.

        What is no item of a fanout is an error of its own; the rest counts. Who repeats a call after a lost answer
        with the same `call_id` is told the same completions.
        """
        return self._finish(items, None, call_id)

    def fail(
        self, items: Iterable[Item] | Mapping[str, int], reason: object, *, call_id: str | None = None
    ) -> AckOutcome:
        """Give items up for good: they are done, counted and listed apart."""
        return self._finish(items, reason_text(reason), call_id)

    def _finish(self, items: Iterable[Item] | Mapping[str, int], reason: str | None, call_id: str | None) -> AckOutcome:
        collected = collect_items(check_items(items))
        asked, call = collected.asked, _call(call_id)
        parts = [self._part(part, reason, call) for part in _parts(asked)]
        endings = dict.fromkeys(ending for part in parts for ending in part.endings)
        if call_id is not None and any(part.repeated for part in parts):
            # An attempt before may have got part of the way: whatever this call was ever told, it is told now.
            endings = dict.fromkeys(self._store.read(lambda rows: told(rows, call)))
        return AckOutcome(
            changed=sum(part.changed for part in parts),
            repeated=collected.repeated + sum(part.repeated for part in parts),
            completed=tuple(_ended(endings, "complete")),
            failed=tuple(_ended(endings, "failed")),
            errors=(*collected.errors, *(error for part in parts for error in part.errors)),
        )

    def _part(self, asked: list[Asked], reason: str | None, call: str) -> Finished:
        if len(asked) == 1 and reason is None:
            return self._store.ack_group(asked[0], self._now_us(), call)
        return self._store.transact(lambda rows: finish_items(rows, asked, reason, self._now_us(), call))

    def status(self, fanout: str) -> FanoutStatus:
        """What is known of a fanout; its counts are exact, and cost the same for any number of items."""
        check_name("the id of a fanout", fanout)
        found = self._store.read(lambda rows: rows.status(fanout))
        if found is None:
            raise UnknownFanout(f"no fanout {fanout!r} is open")
        return found

    def pending_items(self, fanout: str, limit: int = 100, *, after: str | None = None) -> list[str]:
        """The ids of pending items, in order; `after` is the last of the page before."""
        check_name("the id of a fanout", fanout)
        check_limit(limit)
        cursor = cursor_of(fanout, after)
        return self._store.read(lambda rows: pending_items(rows, fanout, limit, cursor))

    def failed_items(self, fanout: str, limit: int = 100, *, after: str | None = None) -> list[FailedItem]:
        """The items that failed, with their reasons, in order; `after` is the id of the last of the page before."""
        check_name("the id of a fanout", fanout)
        check_limit(limit)
        cursor = cursor_of(fanout, after)
        return self._store.read(lambda rows: failed_items(rows, fanout, limit, cursor))

    def expire(self, fanout: str, *, call_id: str | None = None) -> ExpireOutcome:
        """Give a fanout up now, whatever its activity; a late ack is answered `expired`.

        Who repeats a call after a lost answer with the same `call_id` gets the same answer.
        """
        check_name("the id of a fanout", fanout)
        outcome, call = ExpireOutcome(), _call(call_id)
        looked = self._store.transact(lambda rows: expire_fanout(rows, fanout, self._now_us(), call))
        outcome.take(looked)
        outcome.more = looked.to_clear
        return outcome

    def expire_due(self, limit: int = 100) -> ExpireOutcome:
        """One step of expiry, by any instance at any time: look at up to `limit` fanouts that may be due.

        Of the items of an expired fanout, a bounded number goes in each step.
        """
        check_limit(limit)
        moment_us = self._now_us()
        numbers = self._store.read(lambda rows: rows.due_fanouts(moment_us, limit))
        outcome = ExpireOutcome(more=len(numbers) == limit)
        for number in numbers:
            looked = self._look(number, moment_us)
            outcome.take(looked)
            if not looked.to_clear:
                continue
            if self._store.transact(partial(clear_fanout, number=number)):
                # Its tombstone is left, and may be due as well, if nobody has looked for long.
                outcome.take(self._look(number, moment_us))
            else:
                outcome.more = True
        return outcome

    def _look(self, number: int, moment_us: int) -> Looked:
        call = _call(None)
        return self._store.transact(lambda rows: look_at(rows, number, moment_us, call))

    def list(
        self,
        state: State | None = None,
        labels: Mapping[str, str] | None = None,
        older_than: timedelta | None = None,
        *,
        parent: str | None = None,
        after: int | None = None,
        limit: int = 100,
        newest: bool = False,
    ) -> FanoutPage:
        """Fanouts that meet all conditions, oldest first, a page at a time: `after` is the `next` of the page before.

        `older_than` is counted from when they were opened; with `newest` the newest come first.
        """
        if state is not None:
            check_choice("state", state, STATES, InvalidInput)
        if parent is not None:
            check_name("the id of a parent", parent)
        check_limit(limit)
        wanted = tuple(check_labels({} if labels is None else labels).items())
        listing = Listing(check_page(after), limit, state, wanted, self._before_us(older_than))
        if newest:
            listing = replace(listing, after=0, before=after or None, newest=True)
        return self._store.read(lambda rows: list_fanouts(rows, listing, parent))

    def _before_us(self, older_than: timedelta | None) -> int | None:
        if older_than is None:
            return None
        return max(BEFORE_ALL_US, min(self._now_us() - span_us(check_age(older_than)), AFTER_ALL_US))


def _call(call_id: str | None) -> str:
    """The id of a call: chosen, or one of our own, for repeating it after a lost connection."""
    return secrets.token_hex(8) if call_id is None else check_name("call_id", call_id)


def _ended(endings: Iterable[Ending], state: State) -> list[str]:
    """In an order that a repeated call has, too."""
    return sorted(ending.fanout for ending in endings if ending.state == state)


def _parts(asked: list[Asked]) -> Iterator[list[Asked]]:
    """Pieces in the order of slots, so that neighbours are written together."""
    ordered = sorted(asked, key=lambda one: one.slot) if len(asked) > 1 else asked
    return (ordered[first : first + GROUPS_AT_ONCE] for first in range(0, len(ordered), GROUPS_AT_ONCE))
