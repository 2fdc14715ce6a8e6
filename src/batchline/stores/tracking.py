"""Stage 3 on any store: each verb a function of the rows of one transaction, so that it can be repeated as a whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from batchline.core.ack import Asked, ItemError
from batchline.core.fanout import Ending, Fanout, FanoutStatus, NewFanout
from batchline.core.item_group import add_of, count_per_shard, full_mask, indexes_of, place_of, slot_of, upto_of
from batchline.core.on_complete import read_on_complete
from batchline.errors import (
    BatchlineError,
    ChildItem,
    FanoutExists,
    FanoutExpired,
    ForeignGroup,
    InvalidCount,
    StoreError,
    UnknownFanout,
    UnknownGroup,
    UnknownItem,
)
from batchline.stores.publishing import publish_complete
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, propagate, told, write_items
from batchline.stores.topics import live_topic
from batchline.stores.tracker_rows import Add, TrackerRows

__all__ = [
    "Added",
    "Finished",
    "add_items",
    "finish_items",
    "held_fanout",
    "one_fanout",
    "open_fanout",
    "seal_fanout",
    "touch_fanout",
]


@dataclass(frozen=True, slots=True)
class Added:
    """The add of which groups are made."""

    number: int
    salt: int
    count: int


@dataclass(slots=True)
class Finished:
    """What became of the items that a call named."""

    changed: int = 0
    repeated: int = 0
    endings: list[Ending] = field(default_factory=list)
    errors: list[ItemError] = field(default_factory=list)


def one_fanout(rows: TrackerRows, fanout: str) -> Fanout:
    """The fanout of an id, not held; raises UnknownFanout."""
    found = rows.fanouts_by_id([fanout]).get(fanout)
    if found is None:
        raise UnknownFanout(f"no fanout {fanout!r} is open")
    return found


def held_fanout(rows: TrackerRows, number: int) -> Fanout:
    """A fanout that was there a moment ago, held; expiry may have removed it since."""
    found = rows.hold_fanout(number)
    if found is None:
        raise UnknownFanout(f"fanout number {number} expired and was removed a moment ago")
    return found


def touch_fanout(rows: TrackerRows, number: int | None, now_us: int) -> None:
    """Note that a caller repeated a call on a fanout; nothing if it has expired or was removed."""
    fanout = None if number is None else rows.hold_fanout(number)
    if fanout is not None and fanout.expired_us is None:
        fanout.touch(now_us)
        rows.write_fanout(fanout)


# --- open -------------------------------------------------------------------------------------------------------------


def open_fanout(rows: Rows, new: NewFanout, now_us: int) -> FanoutStatus:
    """Open a fanout, and give its parent an item for it. Opening it again in the same way is activity of both."""
    if new.id not in rows.fanouts_by_id([new.id]):
        if new.on_complete is not None:
            live_topic(rows, read_on_complete(new.on_complete).topic)
        parent = None if new.parent is None else one_fanout(rows, new.parent)
        number = rows.insert_fanout(new, None if parent is None else parent.number, now_us)
        if number is not None and parent is not None:
            _join_parent(rows, parent, number, now_us)
        if number is not None:
            return _opened_as(rows, new)[1]
    fanout, _ = _opened_as(rows, new)
    # The child before its parent: as an end goes up.
    for number in (fanout.number, fanout.parent):
        touch_fanout(rows, number, now_us)
    return _opened_as(rows, new)[1]


def _join_parent(rows: TrackerRows, parent: Fanout, number: int, now_us: int) -> None:
    # By number, for an id may be free again and come back; and with a tab, which no name that a user chooses can have.
    added = _add(rows, parent, 1, f"child\t{number}", number, now_us)
    child = held_fanout(rows, number)
    child.parent_slot = slot_of(added.number, 0)
    rows.write_fanout(child)


def _opened_as(rows: Rows, new: NewFanout) -> tuple[Fanout, FanoutStatus]:
    """Return the fanout of this id, if it was opened in the same way."""
    fanout, status = rows.fanouts_by_id([new.id]).get(new.id), rows.status(new.id)
    if fanout is None or status is None:
        raise StoreError(f"fanout {new.id!r} was opened and is not there")
    fanout.check_alive()
    is_there = (status.parent, status.tolerate, status.labels)
    spans = (fanout.unsealed_for_us, fanout.sealed_for_us, fanout.tombstone_for_us)
    wanted = (new.parent, new.tolerate, new.labels)
    if is_there != wanted:
        raise FanoutExists(f"fanout {new.id!r} is there with parent, tolerate, labels {is_there}, got {wanted}")
    if spans != (new.unsealed_for_us, new.sealed_for_us, new.tombstone_for_us):
        raise FanoutExists(f"fanout {new.id!r} is there with other expiry rules")
    if fanout.on_complete != new.on_complete:
        raise FanoutExists(f"fanout {new.id!r} is there with another message for when it is complete, or with none")
    return fanout, status


# --- add --------------------------------------------------------------------------------------------------------------


def add_items(rows: TrackerRows, fanout: str, count: int, add_id: str, now_us: int) -> Added:
    """Add items to a fanout that is not sealed. A repeated `add_id` adds nothing, is activity, and answers the same."""
    found = one_fanout(rows, fanout)
    found.check_alive()
    return _add(rows, found, count, add_id, None, now_us)


def _add(rows: TrackerRows, fanout: Fanout, count: int, add_id: str, child: int | None, now_us: int) -> Added:
    before = rows.add_by_id(fanout.number, add_id)
    if before is None:
        # As it is now, so that a sealed one is refused before a million rows are written; what counts is at the end.
        fanout.add(count, 0, now_us)
        number = rows.insert_add(fanout.number, add_id, count, child)
        if number is not None:
            _take(rows, fanout, number, count, now_us)
            return Added(number, fanout.salt, count)
        before = rows.add_by_id(fanout.number, add_id)
    if before is None:
        raise StoreError(f"the add {add_id!r} of fanout {fanout.id!r} is and is not there")
    if before.count != count:
        raise InvalidCount(f"the add {add_id!r} of fanout {fanout.id!r} had {before.count:,} items, got {count:,}")
    touch_fanout(rows, fanout.number, now_us)
    return Added(before.number, fanout.salt, count)


def _take(rows: TrackerRows, fanout: Fanout, number: int, count: int, now_us: int) -> None:
    rows.insert_groups(number, count)
    opened = rows.grow_shards(fanout.number, count_per_shard(number, count), now_us)
    held = held_fanout(rows, fanout.number)
    held.add(count, opened, now_us)
    rows.write_fanout(held)


# --- seal -------------------------------------------------------------------------------------------------------------


def seal_fanout(rows: Rows, fanout: str, call: Call) -> list[Ending]:
    """Seal a fanout. Return what that ended: it, and its ancestors. A repeated call gets the same, and is activity."""
    held = held_fanout(rows, one_fanout(rows, fanout).number)
    if held.sealed_us is not None:
        held.check_alive()
        held.touch(call.now_us)
        rows.write_fanout(held)
        return told(rows, call.id)
    ending = held.seal(call.now_us, call.id)
    rows.write_fanout(held)
    if ending is None:
        return []
    publish_complete(rows, held, call.now_us)
    return propagate(rows, [held], call)


# --- ack and fail -----------------------------------------------------------------------------------------------------


def finish_items(rows: Rows, asked: Sequence[Asked], reason: str | None, call: Call) -> Finished:
    """Acknowledge items, or fail them for a reason. What cannot be is an error of its own; the rest counts.

    A repeated item changes nothing, and is activity of its fanout.
    """
    bits = rows.hold_groups(sorted({one.slot for one in asked}))
    # Read after the locks were taken: a group without a row is done, unless its fanout has expired by now.
    adds = rows.adds_by_number(sorted({add_of(one.slot) for one in asked}))
    finished = Finished()
    groups = [(one, _upto(one, adds.get(add_of(one.slot)))) for one in asked]
    if refused := [one for one, upto in groups if not upto]:
        finished.errors += _explain(rows, refused, adds)
    changes = _clear_bits((group for group in groups if group[1]), bits, finished)
    reasons = {} if reason is None else dict.fromkeys(changes, reason)
    ended = write_items(rows, changes, bits, adds, reasons, call) if changes else []
    finished.endings = propagate(rows, ended, call) if any(changes.values()) else told(rows, call.id)
    return finished


def _upto(one: Asked, add: Add | None) -> int:
    """How many items the group has; 0 if it is not one of the add's, as the ids say, for users to finish."""
    if (
        add is None
        or add.salt != one.salt
        or add.expired_us is not None
        or add.child is not None
        or (one.fanout is not None and one.fanout != add.fanout_id)
    ):
        return 0
    return upto_of(add.count, place_of(one.slot))


def _clear_bits(asked: Iterable[tuple[Asked, int]], bits: dict[int, int], finished: Finished) -> dict[int, int]:
    """Clear in `bits` what is asked for. Return the bits of each slot that were set: none for a repetition."""
    changes: dict[int, int] = {}
    for one, upto in asked:
        mask = one.mask & full_mask(upto)
        if mask != one.mask:
            finished.errors += _beyond(one, one.mask ^ mask, upto)
        hit = bits.get(one.slot, 0) & mask
        finished.changed += hit.bit_count()
        finished.repeated += (mask ^ hit).bit_count()
        if mask:
            changes[one.slot] = changes.get(one.slot, 0) | hit
        if hit:
            bits[one.slot] ^= hit
    return changes


def _beyond(one: Asked, beyond: int, upto: int) -> list[ItemError]:
    past = ", ".join(map(str, indexes_of(beyond)))
    return one.refused(beyond, UnknownItem(f"group {one.group} has {upto} items, got the index {past}"))


# --- why an item did not count ----------------------------------------------------------------------------------------


def _explain(rows: TrackerRows, refused: Sequence[Asked], adds: dict[int, Add]) -> list[ItemError]:
    named = rows.fanouts_by_id(sorted({one.fanout for one in refused if one.fanout is not None}))
    salted = rows.fanouts_by_salt(sorted({one.salt for one in refused}))
    errors: list[ItemError] = []
    for one in refused:
        owner = salted.get(one.salt)
        try:
            named_one = _named(one, owner, named)
            error = _no_group(one, named_one, owner, adds.get(add_of(one.slot)))
        except (UnknownFanout, FanoutExpired) as reason:
            error = reason
        errors += one.refused(one.mask, error)
    return errors


def _named(one: Asked, owner: Fanout | None, named: dict[str, Fanout]) -> Fanout | None:
    """The fanout that is meant; raises UnknownFanout and FanoutExpired."""
    fanout = owner if one.fanout is None else named.get(one.fanout)
    if fanout is None and one.fanout is not None:
        raise UnknownFanout(f"no fanout {one.fanout!r} is open")
    if fanout is not None:
        fanout.check_alive()
    return fanout


def _no_group(one: Asked, fanout: Fanout | None, owner: Fanout | None, add: Add | None) -> BatchlineError:
    if fanout is None or owner is None:
        return UnknownGroup(f"no group {one.group} was ever given out")
    if owner.number != fanout.number:
        return ForeignGroup(f"group {one.group} belongs to fanout {owner.id!r}, not to {fanout.id!r}")
    if add is not None and add.fanout == fanout.number and add.child is not None:
        return ChildItem(f"the item of group {one.group} stands for a child, and is done when that is complete")
    return UnknownGroup(f"fanout {fanout.id!r} was never given the group {one.group}")
