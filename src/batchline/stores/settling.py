"""What finished items change: their shards, their fanouts and, level by level, the ancestors of fanouts that end.

    items ──▶ shards ──▶ fanout ends ──▶ item of its parent ──▶ … ──▶ 64 levels up │ the next transaction ──▶ …

One transaction goes up at most `Call.levels` levels. Below the top it leaves two marks, both durable: the last ended
fanout is due soon, and the item of its parent is still pending. Whoever finds them goes on: the same call in its next
transaction, a repetition of that call, or expiry in any process. The item is finished once, under its lock, so an end
reaches a parent once whoever carries it there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from batchline.core.fanout import Ending, Fanout
from batchline.core.item_group import add_of, shard_of
from batchline.stores.publishing import publish_complete
from batchline.stores.rows import Rows
from batchline.stores.tracker_rows import Add, Failure, Shard, TrackerRows

__all__ = [
    "HEAD_START_US",
    "LEVELS_AT_ONCE",
    "Call",
    "propagate",
    "propagate_from",
    "settle",
    "to_propagate",
    "told",
    "write_items",
]

#: Levels of ancestors that one transaction settles.
LEVELS_AT_ONCE: Final = 64
#: How long expiry leaves the rest of a chain to the call that is working on it.
HEAD_START_US: Final = 10_000_000
#: The item for a child is the only one of its group.
CHILD_MASK: Final = 1


@dataclass(slots=True)
class Call:
    """One attempt of a call: its id, its moment, and how far its transaction goes up."""

    id: str
    now_us: int
    levels: int = LEVELS_AT_ONCE
    #: How long expiry waits before it takes over what this transaction leaves.
    head_start_us: int = HEAD_START_US
    #: The fanout whose parent is being told of its end, for the log; None outside of that.
    telling_parent_of: str | None = None


def to_propagate(endings: Iterable[Ending]) -> list[int]:
    """Return the numbers of fanouts whose parents have yet to be told of these endings."""
    return [ending.to_propagate for ending in endings if ending.to_propagate is not None]


def told(rows: TrackerRows, call_id: str) -> list[Ending]:
    """Return the endings that earlier transactions of the same call caused."""
    found = rows.told(call_id)
    has_parents = any(fanout.parent_slot is not None for fanout in found)
    left = set(rows.unpropagated(call_id) if has_parents else ())
    return [Ending(one.id, one.state, one.number if one.number in left else None) for one in found]


# --- items, shards and fanouts ----------------------------------------------------------------------------------------


def write_items(
    rows: Rows,
    changes: dict[int, int],
    bits: dict[int, int],
    adds: dict[int, Add],
    reasons: dict[int, str],
    call: Call,
) -> list[Fanout]:
    """Write groups, shards and fanouts, in the order of locks. Return the fanouts that this ended.

    `changes` has the finished items of each named slot: none for a repetition, which is activity only.
    """
    hits = {slot: hit for slot, hit in changes.items() if hit}
    rows.write_groups([(slot, bits[slot]) for slot in hits if bits[slot]])
    rows.delete_groups([slot for slot in hits if not bits[slot]])
    failures: dict[int, int] = {}
    if failed := [Failure(slot, hit, reasons[slot], call.now_us) for slot, hit in hits.items() if slot in reasons]:
        rows.insert_failures(failed)
    for one in failed:
        number = adds[add_of(one.slot)].fanout
        failures[number] = failures.get(number, 0) + one.bits.bit_count()
    closed = _count_down(rows, changes, adds, call.now_us)
    counts = {number: (closed.get(number, 0), failures.get(number, 0)) for number in closed.keys() | failures.keys()}
    return _settle_fanouts(rows, counts, call)


def _count_down(rows: TrackerRows, changes: dict[int, int], adds: dict[int, Add], now_us: int) -> dict[int, int]:
    """Count shards down and note their activity. Return how many shards of each fanout this emptied."""
    done: dict[tuple[int, int], int] = {}
    for slot, hit in changes.items():
        shard = (adds[add_of(slot)].fanout, shard_of(slot))
        done[shard] = done.get(shard, 0) + hit.bit_count()
    held = rows.hold_shards(sorted(done))
    left = [
        Shard(one.fanout, one.shard, one.pending - done[one.fanout, one.shard], max(one.active_us, now_us))
        for one in held
    ]
    rows.write_shards(left)
    closed: dict[int, int] = {}
    for one in left:
        if not one.pending and done[one.fanout, one.shard]:
            closed[one.fanout] = closed.get(one.fanout, 0) + 1
    return closed


def settle(rows: Rows, counts: dict[int, tuple[int, int]], call: Call) -> list[Ending]:
    """Count emptied shards and failed items into fanouts. Return what that ended, ancestors included."""
    return propagate(rows, _settle_fanouts(rows, counts, call), call)


def _settle_fanouts(rows: Rows, counts: dict[int, tuple[int, int]], call: Call) -> list[Fanout]:
    """Count emptied shards and failed items into fanouts. Return those that ended, their messages published."""
    ended: list[Fanout] = []
    for number, (closed_shards, failures) in sorted(counts.items()):
        fanout = rows.hold_fanout(number)
        if fanout is None:
            continue  # its tombstone went a moment ago
        ending = fanout.settle(closed_shards, failures, call.now_us, call.id)
        rows.write_fanout(fanout)
        if ending is not None:
            ended.append(fanout)
    # Only now: all locks of this level are held, so two calls seldom wait for each other in a circle.
    for fanout in ended:
        publish_complete(rows, fanout, call.now_us)
    return ended


# --- ancestors --------------------------------------------------------------------------------------------------------


def propagate(rows: Rows, ended: Sequence[Fanout], call: Call) -> list[Ending]:
    """Tell parents of fanouts that have ended, level by level. Return these endings first, then those above.

    The fanouts at which the call's levels end are left due, with `to_propagate` in their endings.
    """
    endings: list[Ending] = []
    level: Sequence[Fanout] = ended
    for _ in range(call.levels):
        endings += [_ending(fanout) for fanout in level]
        level = _tell_parents(rows, [fanout for fanout in level if fanout.parent_slot is not None], call)
        if not level:
            return endings
    return endings + [_leave(rows, fanout, call) for fanout in level]


def propagate_from(rows: Rows, numbers: Sequence[int], call: Call) -> list[Ending]:
    """Go on from fanouts that an earlier transaction left. Return the endings above them.

    If there are none, return all that the call ended before: an attempt whose answer was lost may be among that.
    """
    held = [rows.hold_fanout(number) for number in sorted(numbers)]
    ended = [fanout for fanout in held if fanout is not None and fanout.ended_as is not None]
    return propagate(rows, ended, call)[len(ended) :] or told(rows, call.id)


def _tell_parents(rows: Rows, children: Sequence[Fanout], call: Call) -> list[Fanout]:
    """Finish the items that parents have for these children. Return the parents that this ended."""
    by_slot = {child.parent_slot: child for child in children if child.parent_slot is not None}
    if not by_slot:
        return []
    call.telling_parent_of = children[0].id
    bits = rows.hold_groups(sorted(by_slot))
    adds = rows.adds_by_number(sorted({add_of(slot) for slot in bits})) if bits else {}
    # A slot without a row was told before, or its fanout has expired.
    slots = [slot for slot in sorted(bits) if add_of(slot) in adds]
    reasons = {
        slot: f"child {by_slot[slot].id!r} {by_slot[slot].ended_as}"
        for slot in slots
        if by_slot[slot].ended_as != "complete"
    }
    cleared = {slot: bits[slot] & ~CHILD_MASK for slot in slots}
    ended = write_items(rows, dict.fromkeys(slots, CHILD_MASK), cleared, adds, reasons, call) if slots else []
    call.telling_parent_of = None
    return ended


def _ending(fanout: Fanout) -> Ending:
    return Ending(fanout.id, fanout.ended_as or fanout.state)


def _leave(rows: TrackerRows, fanout: Fanout, call: Call) -> Ending:
    """Leave a fanout to a later transaction, if it has a parent to tell."""
    ending = _ending(fanout)
    if fanout.parent_slot is None:
        return ending
    fanout.due_us = call.now_us + call.head_start_us
    rows.write_fanout(fanout)
    return Ending(ending.fanout, ending.state, fanout.number)
