"""What is removed in the background, on any store, in bounded steps."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from batchline.core.bundle import Bundle
from batchline.core.item_group import indexes_of
from batchline.core.message import made_place
from batchline.core.spot import CANCELLED, DONE, Spot
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.stores.bodies import bundles_in_parts
from batchline.stores.line import LineChanges
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import IdPlace, TimelineRows

__all__ = ["end_messages", "prune_ended", "remove_topic"]


def prune_ended(rows: TimelineRows, topic: Topic, before_ms: int, limit: int) -> int:
    """Remove spots of messages that ended, at most `limit`, and their ids; bundles go with their last spot."""
    ended = rows.hold_ended(topic.number, DONE, before_ms, limit)
    if len(ended) < limit:
        ended += rows.hold_ended(topic.number, CANCELLED, before_ms, limit - len(ended))
    # Only one process removes spots of a bundle at a time, so that it sees which were the last. It waits for no other:
    # one that waits for these spots may hold others of the bundle.
    held = rows.hold_bundles({spot.bundle for spot in ended}) if ended else set()
    going = [spot for spot in ended if spot.bundle in held]
    if going:
        rows.delete_spots(sorted(spot.key for spot in going))
        parts = bundles_in_parts(rows, going, LEASED_BYTES)
        rows.delete_message_ids(topic.number, sorted(id for part, bundles in parts for id in _ids_on(part, bundles)))
        rows.delete_bundles(sorted(held - {spot.bundle for spot in rows.spots_of(held)}))
    return len(ended)


def _ids_on(spots: Iterable[Spot], bundles: Mapping[int, Bundle]) -> list[IdPlace]:
    """List the chosen ids of the messages on these spots; another message may have one of them by now."""
    return [
        IdPlace(ids[place], spot.bundle, place)
        for spot in spots
        if (ids := bundles[spot.bundle].ids) is not None
        for place in indexes_of(spot.bits)
        if made_place(ids[place]) is None
    ]


def end_messages(rows: TimelineRows, topic: Topic, now_ms: int, limit: int, numbers: Iterator[int]) -> int:
    """Take up to so many spots of a topic that is being deleted off the line, but none with an active lease."""
    free = rows.hold_free(topic.number, now_ms, limit)
    line = LineChanges(numbers)
    for spot in free:
        line.change(spot, spot.bits, partial(Spot.cancelled, now_ms=now_ms))
    line.write(rows)
    return len(free)


def remove_topic(rows: Rows, topic: Topic) -> bool:
    """Forget a topic that is being deleted, if nothing of it is left; tells whether it was so."""
    if rows.has_spots(topic.number):
        return False
    rows.remove_topic(topic.number)
    rows.delete_lanes(topic.number)
    return True
