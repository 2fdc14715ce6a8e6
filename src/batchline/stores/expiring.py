"""Expiry of fanouts, in steps that any instance may take: each a function of the rows of one transaction.

A fanout without activity becomes a tombstone; what is known of its items goes piece by piece; at last it goes, too.
Groups are never deleted while their fanout is held: acks take these locks the other way round.
"""

from dataclasses import dataclass, field

from batchline.core.fanout import Ending, Fanout
from batchline.stores.rows import Rows
from batchline.stores.tracker_rows import TrackerRows
from batchline.stores.tracking import announce, held_fanout, one_fanout, told

__all__ = ["Looked", "clear_fanout", "expire_fanout", "look_at"]

#: Groups of an expired fanout that go in one transaction.
CLEARED_AT_ONCE = 10_000


@dataclass(slots=True)
class Looked:
    """What a look at one fanout led to."""

    #: Its id, if it expired now.
    expired: str | None = None
    #: Parents that this ended.
    endings: list[Ending] = field(default_factory=list)
    #: Whether what is known of its items is still to be cleared.
    to_clear: bool = False
    #: Its id, if its tombstone went.
    removed: str | None = None


def look_at(rows: Rows, number: int, now_us: int, call_id: str) -> Looked:
    """Look at a fanout that is due: expire it, or see when to look again."""
    fanout = rows.hold_fanout(number)
    if fanout is None or fanout.due_us > now_us:
        return Looked()  # somebody else was here
    if fanout.told_to == call_id:
        return _looked_before(rows, fanout, call_id)
    if fanout.expired_us is not None:
        return _look_at_tombstone(rows, fanout, now_us)
    quiet_until_us = fanout.quiet_until_us(rows.shards_active_us(number))
    if rows.has_live_child(number):
        # What its children do is activity of its own.
        quiet_until_us = fanout.quiet_until_us(now_us)
    if quiet_until_us > now_us:
        fanout.due_us = quiet_until_us
        rows.write_fanout(fanout)
        return Looked()
    return _expire(rows, fanout, now_us, call_id)


def expire_fanout(rows: Rows, fanout: str, now_us: int, call_id: str) -> Looked:
    """Expire a fanout now, whatever its activity."""
    held = held_fanout(rows, one_fanout(rows, fanout).number)
    if held.told_to == call_id:
        return _looked_before(rows, held, call_id)
    if held.expired_us is not None:
        return Looked()
    return _expire(rows, held, now_us, call_id)


def _looked_before(rows: TrackerRows, fanout: Fanout, call_id: str) -> Looked:
    """What an earlier attempt of the same call did, whose answer was lost."""
    parents = [ending for ending in told(rows, call_id) if ending.fanout != fanout.id]
    return Looked(expired=fanout.id, endings=parents, to_clear=True)


def _expire(rows: Rows, fanout: Fanout, now_us: int, call_id: str) -> Looked:
    looked = Looked(expired=fanout.id, to_clear=True)
    had_not_ended = fanout.expire(now_us, call_id)
    rows.write_fanout(fanout)
    if had_not_ended:
        looked.endings = announce(rows, fanout, Ending(fanout.id, "expired"), now_us, call_id)
    return looked


def _look_at_tombstone(rows: TrackerRows, fanout: Fanout, now_us: int) -> Looked:
    if rows.has_adds(fanout.number):
        return Looked(to_clear=True)
    gone_us = (fanout.expired_us or 0) + fanout.tombstone_for_us
    if gone_us <= now_us:
        rows.delete_fanout(fanout.number)
        return Looked(removed=fanout.id)
    fanout.due_us = gone_us
    rows.write_fanout(fanout)
    return Looked()


def clear_fanout(rows: TrackerRows, number: int) -> bool:
    """Forget a piece of what is known of an expired fanout's items; tells whether that was the last."""
    return rows.clear_fanout(number, CLEARED_AT_ONCE)
