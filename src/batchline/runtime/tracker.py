"""Stage 3: is everything that came out of one event done? Answered exactly, and told exactly once."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from batchline.core.ack import AckOutcome, Item, SealOutcome, collect_items
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
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.call_runner import CallRunner
from batchline.runtime.clock import now_us
from batchline.runtime.expiry_step import ExpireOutcome, ExpiryStep, ended_in
from batchline.runtime.item_finisher import ItemFinisher
from batchline.stores.expiring import expire_fanout
from batchline.stores.listing import cursor_of, failed_items, list_fanouts, pending_items
from batchline.stores.settling import to_propagate, told
from batchline.stores.store import Store
from batchline.stores.tracker_rows import Listing
from batchline.stores.tracking import add_items, open_fanout, seal_fanout

__all__ = ["ExpireOutcome", "Tracker"]


class Tracker:
    """Fanouts in a store. Any number of trackers, in any number of processes, work on one store."""

    def __init__(self, store: Store, *, expiry: ExpiryRules | None = None, clock: Callable[[], int] = now_us):
        """A tracker on a store; `expiry` holds for fanouts that are opened without rules of their own."""
        self._store = store
        self._expiry = expiry or ExpiryRules()
        self._clock = clock_on(store, clock)
        self._calls = CallRunner(store, self._clock.checked_us)
        self._items = ItemFinisher(store, self._calls)

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
        """Open a fanout, with an id of yours or one made here. A repeat is activity and changes nothing else.

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
        moment_us = self._clock.checked_us()
        return self._store.transact(lambda rows: open_fanout(rows, new, moment_us))

    def add(self, fanout: str, count: int, *, add_id: str | None = None) -> list[ItemGroup]:
        """Add items, and answer their groups, 64 to a group. With an `add_id` used before: the same groups again."""
        check_name("the id of a fanout", fanout)
        check_count(count)
        # One of our own, so that repeating it after a lost connection adds nothing twice.
        named = secrets.token_hex(8) if add_id is None else check_name("add_id", add_id)
        moment_us = self._clock.checked_us()
        added = self._store.transact(lambda rows: add_items(rows, fanout, count, named, moment_us))
        return item_groups(fanout, added.number, added.salt, added.count)

    def seal(self, fanout: str, *, call_id: str | None = None) -> SealOutcome:
        """Take no more items. `completed` is true for the one call that made the fanout complete.

        Who repeats a call after a lost answer with the same `call_id` gets the same answer.
        """
        check_name("the id of a fanout", fanout)
        named = _call(call_id)
        endings = self._settled(
            named,
            self._calls.run(named, lambda call: self._store.transact(lambda rows: seal_fanout(rows, fanout, call))),
        )
        completed, failed = ended_in(endings, "complete"), ended_in(endings, "failed")
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
        parts = self._items.finish(asked, reason, call)
        endings = dict.fromkeys(ending for part in parts for ending in part.endings)
        if call_id is not None and any(part.repeated for part in parts):
            # An attempt before may have got part of the way: whatever this call was ever told, it is told now.
            endings = dict.fromkeys(self._store.read(lambda rows: told(rows, call)))
        endings = self._settled(call, endings)
        return AckOutcome(
            changed=sum(part.changed for part in parts),
            repeated=collected.repeated + sum(part.repeated for part in parts),
            completed=tuple(ended_in(endings, "complete")),
            failed=tuple(ended_in(endings, "failed")),
            errors=(*collected.errors, *(error for part in parts for error in part.errors)),
        )

    def _settled(self, call_id: str, endings: Iterable[Ending]) -> dict[Ending, None]:
        """Settle the ancestors that the call's first transactions left. Return all that the call ended."""
        found = dict.fromkeys(endings)
        return found | dict.fromkeys(self._calls.propagate(call_id, to_propagate(found)))

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
        named = _call(call_id)
        looked = self._calls.run(
            named, lambda call: self._store.transact(lambda rows: expire_fanout(rows, fanout, call))
        )
        looked.endings += self._calls.propagate(named, looked.to_propagate)
        outcome = ExpireOutcome(more=looked.to_clear)
        outcome.take(looked)
        return outcome

    def expire_due(self, limit: int = 100) -> ExpireOutcome:
        """One step of expiry, by any instance at any time: look at up to `limit` fanouts that may be due.

        Of the items of an expired fanout, a bounded number goes in each step. A fanout that cannot be processed is
        logged and tried again 10 minutes later; the others of the step are processed.
        """
        check_limit(limit)
        return ExpiryStep(self._store, self._clock.checked_us).run(limit)

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
        return max(BEFORE_ALL_US, min(self._clock() - span_us(check_age(older_than)), AFTER_ALL_US))


def _call(call_id: str | None) -> str:
    """The id of a call: chosen, or one of our own, for repeating it after a lost connection."""
    return secrets.token_hex(8) if call_id is None else check_name("call_id", call_id)
