"""What is removed in the background, on any store, in bounded steps."""

from collections.abc import Iterable, Iterator
from functools import partial

from batchline.core.bundle import Bundle
from batchline.core.spot import Spot
from batchline.core.topic import Topic
from batchline.stores.line import LineChanges
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import TimelineRows

__all__ = ["end_messages", "prune_ended", "remove_topic"]


def prune_ended(rows: TimelineRows, topic: Topic, before_ms: int, limit: int) -> int:
    """Remove up to so many spots of messages that are done or cancelled, and their ids; bundles go with their last."""
    ended = rows.hold_ended(topic.number, before_ms, limit)
    # One at a time removes spots of a bundle, so that one sees which were the last. Nobody is waited for: who waits
    # for these spots may hold others of the bundle.
    held = rows.hold_bundles({spot.bundle for spot in ended}) if ended else set()
    going = {spot.key for spot in ended if spot.bundle in held}
    if going:
        others = [spot for spot in rows.spots_of(held) if spot.key not in going]
        rows.delete_spots(sorted(going))
        bundles = rows.bundles_by_number(held)
        _free_ids(rows, bundles.values(), others)
        rows.delete_bundles(sorted(held - {spot.bundle for spot in others}))
    return len(ended)


def _free_ids(rows: TimelineRows, bundles: Iterable[Bundle], spots: Iterable[Spot]) -> None:
    """Let the chosen ids of messages be free that are on no spot of their bundles any more."""
    left: dict[int, int] = {}
    for spot in spots:
        left[spot.bundle] = left.get(spot.bundle, 0) | spot.bits
    gone: dict[int, set[tuple[str, int, int]]] = {}
    for bundle in bundles:
        alive = left.get(bundle.number, 0)
        places = {(id, bundle.number, place) for place, id in enumerate(bundle.ids or ()) if not alive >> place & 1}
        for topic in _topics_of(rows, bundle) if places else ():
            gone.setdefault(topic, set()).update(places)
    for topic, theirs in gone.items():
        # An id may stand in several bundles: in that of its message, and in those of calls that met it.
        found = rows.message_ids(topic, sorted({id for id, _, _ in theirs}))
        rows.delete_message_ids(topic, sorted(id for id, place in found.items() if (id, *place) in theirs))


def _topics_of(rows: TimelineRows, bundle: Bundle) -> list[int]:
    """The topics on which messages of a bundle may have had their ids: those whose leases failed may have moved."""
    if not rows.attempts_of(bundle.number):
        return [bundle.topic]
    return [topic.number for topic in rows.topics()]


def end_messages(rows: TimelineRows, topic: Topic, now_ms: int, limit: int, numbers: Iterator[int]) -> int:
    """Take up to so many spots of a topic that is being deleted off the line, but none with an active lease."""
    free = rows.hold_free(topic.number, now_ms, limit)
    line = LineChanges(numbers)
    for spot in free:
        line.change(spot, spot.bits, partial(Spot.ended, now_ms=now_ms))
    line.write(rows)
    return len(free)


def remove_topic(rows: Rows, topic: Topic) -> bool:
    """Forget a topic that is being deleted, if nothing of it is left; tells whether it was so."""
    if rows.has_spots(topic.number):
        return False
    rows.remove_topic(topic.number)
    rows.delete_lanes(topic.number)
    return True
