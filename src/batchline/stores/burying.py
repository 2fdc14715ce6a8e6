"""Messages that were leased too often, on any store: they go to the topic's dead-letter topic."""

from collections.abc import Iterator
from functools import partial

from batchline.core.bundle import Bundle
from batchline.core.item_group import indexes_of
from batchline.core.message import bucket_of, made_place
from batchline.core.spot import Spot, mask_of, segment_of
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.stores.bodies import bundles_in_parts
from batchline.stores.line import LineChanges
from batchline.stores.timeline_rows import IdPlace, TimelineRows

__all__ = ["bury", "bury_expired", "dead_letter_of"]


def dead_letter_of(rows: TimelineRows, topic: Topic) -> Topic | None:
    """The dead-letter topic, if there is one that takes messages."""
    found = None if topic.dead_letter is None else rows.topic(topic.dead_letter)
    return None if found is None or found.deleted else found


def bury_expired(rows: TimelineRows, topic: Topic, now_ms: int, limit: int, numbers: Iterator[int]) -> int:
    """Bury messages whose last allowed lease has run out; tells how many spots there were."""
    dead = dead_letter_of(rows, topic)
    if dead is None or topic.max_attempts is None:
        return 0
    line = LineChanges(numbers)
    spots = rows.hold_exhausted(topic.number, topic.max_attempts, now_ms, limit)
    for part, bundles in bundles_in_parts(rows, spots, LEASED_BYTES) if spots else ():
        for spot in part:
            line.note_lost(spot, spot.bits)
            bury(rows, line, topic, dead, spot, bundles[spot.bundle], spot.bits, now_ms)
    line.write(rows)
    return len(spots)


def bury(
    rows: TimelineRows,
    line: LineChanges,
    topic: Topic,
    dead: Topic,
    spot: Spot,
    bundle: Bundle,
    mask: int,
    now_ms: int,
) -> None:
    """Move messages that were leased too often to the dead-letter topic, ids and history with them."""
    buckets = {place: bucket_of(bundle.id_of(place), dead.buckets) for place in indexes_of(mask)}
    segments: dict[int, list[int]] = {}
    for place, bucket in buckets.items():
        segments.setdefault(segment_of(bucket, dead.buckets), []).append(place)
    for segment, places in segments.items():
        inside = [buckets[place] for place in places]
        become = partial(Spot.buried, topic=dead.number, segment=segment, buckets=inside, now_ms=now_ms)
        line.change(spot, mask_of(places), become)
    if bundle.ids is not None:
        chosen = ((bundle.ids[place], place) for place in buckets if made_place(bundle.ids[place]) is None)
        ids = sorted(IdPlace(id, bundle.number, place) for id, place in chosen)
        rows.delete_message_ids(topic.number, ids)
        # An id that is taken there stays with the message that has it; this one is leased, and not found by its id.
        rows.insert_message_ids(dead.number, ids)
