"""Expiry of fanouts, in steps that any instance may take: each a function of the rows of one transaction.

A fanout without activity becomes a tombstone; what is known of its items goes piece by piece; at last it goes, too.
Groups are never deleted while their fanout is held: acks take these locks the other way round.
A look also carries on an end that a call could not bring to all ancestors, because its process died.
"""

from dataclasses import dataclass, field

from batchline.core.fanout import Ending, Fanout
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, propagate, to_propagate, told
from batchline.stores.tracker_rows import TrackerRows
from batchline.stores.tracking import held_fanout, one_fanout

__all__ = ["Looked", "clear_fanout", "expire_fanout", "look_at"]

#: Groups of an expired fanout that go in one transaction.
CLEARED_AT_ONCE = 10_000


@dataclass(slots=True)
class Looked:
    """What a look at one fanout led to."""

    #: Its id, if it expired now.
    expired: str | None = None
    #: Ancestors that this ended.
    endings: list[Ending] = field(default_factory=list)
    #: Numbers of fanouts whose parents have yet to be told of their ends.
    to_propagate: list[int] = field(default_factory=list)
    #: Whether what is known of its items is still to be cleared.
    to_clear: bool = False
    #: Its id, if its tombstone went.
    removed: str | None = None

    def tell_parent(self, rows: Rows, fanout: Fanout, call: Call) -> bool:
        """Tell its parent of its end, if that has yet to be told. Return False if that is left for later."""
        if fanout.ended_as is None or fanout.parent_slot is None:
            return True
        own, *above = propagate(rows, [fanout], call)
        self.endings += above
        self.to_propagate += to_propagate([own, *above])
        return own.to_propagate is None


def look_at(rows: Rows, number: int, call: Call) -> Looked:
    """Look at a fanout that is due: expire it, tell its parent of its end, or see when to look again."""
    fanout = rows.hold_fanout(number)
    if fanout is None or fanout.due_us > call.now_us:
        return _looked_before(rows, call.id)  # by another instance, or by this call, whose answer was lost
    if fanout.told_to == call.id:
        return _looked_before(rows, call.id, fanout)
    if fanout.expired_us is not None:
        return _look_at_tombstone(rows, fanout, call)
    quiet_until_us = fanout.quiet_until_us(rows.shards_active_us(number))
    if rows.has_live_child(number):
        # What its children do is activity of its own.
        quiet_until_us = fanout.quiet_until_us(call.now_us)
    if quiet_until_us <= call.now_us:
        return _expire(rows, fanout, call)
    looked = Looked()
    if looked.tell_parent(rows, fanout, call):
        fanout.due_us = quiet_until_us
        rows.write_fanout(fanout)
    return looked


def expire_fanout(rows: Rows, fanout: str, call: Call) -> Looked:
    """Expire a fanout now, whatever its activity."""
    held = held_fanout(rows, one_fanout(rows, fanout).number)
    if held.told_to == call.id:
        return _looked_before(rows, call.id, held)
    if held.expired_us is not None:
        return Looked()
    return _expire(rows, held, call)


def _looked_before(rows: TrackerRows, call_id: str, expired: Fanout | None = None) -> Looked:
    """Return what an earlier attempt of the same call did, whose answer was lost."""
    endings = told(rows, call_id)
    own = None if expired is None else expired.id
    above = [ending for ending in endings if ending.fanout != own]
    return Looked(own, above, to_propagate(endings), to_clear=expired is not None)


def _expire(rows: Rows, fanout: Fanout, call: Call) -> Looked:
    looked = Looked(expired=fanout.id, to_clear=True)
    fanout.expire(call.now_us, call.id)
    rows.write_fanout(fanout)
    looked.tell_parent(rows, fanout, call)
    return looked


def _look_at_tombstone(rows: Rows, fanout: Fanout, call: Call) -> Looked:
    looked = Looked()
    parent_knows = looked.tell_parent(rows, fanout, call)
    if rows.has_adds(fanout.number):
        looked.to_clear = True
    elif parent_knows:
        _remove_tombstone(rows, fanout, call.now_us, looked)
    return looked


def _remove_tombstone(rows: TrackerRows, fanout: Fanout, now_us: int, looked: Looked) -> None:
    """Remove a tombstone whose time is over, or look again when it is."""
    gone_us = (fanout.expired_us or 0) + fanout.tombstone_for_us
    if gone_us <= now_us:
        rows.delete_fanout(fanout.number)
        looked.removed = fanout.id
    else:
        fanout.due_us = gone_us
        rows.write_fanout(fanout)


def clear_fanout(rows: TrackerRows, number: int) -> bool:
    """Forget a piece of what is known of an expired fanout's items; tells whether that was the last."""
    return rows.clear_fanout(number, CLEARED_AT_ONCE)
