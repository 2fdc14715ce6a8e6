"""What is known of many fanouts and items, a page at a time: each a function of the rows of one transaction."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final

from batchline.core.ack import collect_items
from batchline.core.fanout import FailedItem, Fanout, FanoutPage
from batchline.core.item_group import GROUP_SIZE, group_id, indexes_of
from batchline.core.moment import moment_of
from batchline.errors import ForeignGroup, shown
from batchline.stores.tracker_rows import Failure, Listing, TrackerRows
from batchline.stores.tracking import one_fanout

__all__ = ["Cursor", "cursor_of", "failed_items", "list_fanouts", "pending_items"]

#: The slot and index of the item that a page begins after.
Cursor = tuple[int, int]
#: What is read beyond a page: the rest of a group before it, and one that may not be whole.
ROOM: Final = 2 * GROUP_SIZE


def list_fanouts(rows: TrackerRows, listing: Listing, parent: str | None) -> FanoutPage:
    """Fanouts that meet all conditions, in the order in which they were opened."""
    number = None if parent is None else one_fanout(rows, parent).number
    found = rows.list_fanouts(replace(listing, parent=number, limit=listing.limit + 1))
    shown = found[: listing.limit]
    return FanoutPage(tuple(status for _, status in shown), shown[-1][0] if len(found) > listing.limit else None)


def pending_items(rows: TrackerRows, fanout: str, limit: int, cursor: Cursor) -> list[str]:
    """The ids of pending items, in order."""
    found = _alive(rows, fanout)
    # One more than needed: of the first group there may be nothing left after the cursor.
    groups = rows.pending_groups(found.number, cursor[0], limit + 1)
    return [_item_id(found, place) for place in islice(_places(groups, cursor), limit)]


def failed_items(rows: TrackerRows, fanout: str, limit: int, cursor: Cursor) -> list[FailedItem]:
    """The items that failed, with their reasons, in order."""
    found = _alive(rows, fanout)
    failures = _whole_slots(rows.failures(found.number, cursor[0], limit + ROOM), limit + ROOM)
    places = {place: failure for failure in failures for place in _places([(failure.slot, failure.bits)], cursor)}
    return [
        FailedItem(_item_id(found, place), failure.reason, moment_of(failure.at_us))
        for place, failure in sorted(places.items(), key=itemgetter(0))[:limit]
    ]


def cursor_of(fanout: str, after: str | None) -> Cursor:
    """Where a page after this item of the fanout begins; at the first without one."""
    if after is None:
        return (0, -1)
    collected = collect_items([after])
    if not collected.asked:
        raise collected.errors[0].error
    (asked,) = collected.asked
    if asked.fanout != fanout:
        raise ForeignGroup(f"expected an item of fanout {fanout!r}, got {shown(after)}")
    return (asked.slot, asked.mask.bit_length() - 1)


def _alive(rows: TrackerRows, fanout: str) -> Fanout:
    found = one_fanout(rows, fanout)
    found.check_alive()
    return found


def _places(groups: Iterable[tuple[int, int]], cursor: Cursor) -> Iterator[Cursor]:
    """The slot and index of each bit that is set, after the cursor."""
    return ((slot, index) for slot, bits in groups for index in indexes_of(bits) if (slot, index) > cursor)


def _item_id(fanout: Fanout, place: Cursor) -> str:
    slot, index = place
    return f"{fanout.id}:{group_id(slot, fanout.salt)}:{index}"


def _whole_slots(failures: list[Failure], asked: int) -> list[Failure]:
    """Without the last slot, if there may be more of it than was read."""
    if len(failures) < asked:
        return failures
    return [failure for failure in failures if failure.slot != failures[-1].slot]
