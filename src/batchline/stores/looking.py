"""What consumers see of messages, on any store, without leasing them."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter

from batchline.core.bundle import Bundle
from batchline.core.item_group import indexes_of
from batchline.core.message import LeasedMessage, Upcoming, bucket_of
from batchline.core.spot import Spot, Together
from batchline.core.topic import Topic
from batchline.stores.leasing import FIRST_SPOTS, covers, leased_messages
from batchline.stores.timeline_rows import BEFORE_ALL, Stretch, TimelineRows

__all__ = ["held_messages", "next_due_ms", "upcoming_messages"]


def held_messages(
    rows: TimelineRows, topics: Iterable[Topic], consumer: str, session: int | None, now_ms: int
) -> list[LeasedMessage]:
    """List the messages that a consumer, or one of its sessions, has active leases on, in the order of leasing."""
    found: list[LeasedMessage] = []
    for topic in topics:
        leased = rows.leased_spots(topic.number, consumer, now_ms)
        spots = [spot for spot in leased if session in (None, spot.session)]
        bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
        for _, together in groupby(spots, attrgetter("together")):
            some = [leased_messages(topic.name, spot, bundles[spot.bundle], spot.at_ms) for spot in together]
            found += sorted(chain(*some), key=attrgetter("place"))
    return found


def upcoming_messages(rows: TimelineRows, stretch: Stretch, topic: Topic, limit: int) -> list[Upcoming]:
    """List the messages on a stretch of the line, in the order in which they are leased; nothing is leased."""
    found: list[tuple[Together, int, Upcoming]] = []
    for spots in _spots_along(rows, stretch, max(limit, FIRST_SPOTS)):
        bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
        for spot in spots:
            if len(found) >= limit and spot.together != found[-1][0]:
                break
            if spot.bundle in bundles:  # else it was removed a moment ago
                bundle = bundles[spot.bundle]
                places = _places_in(stretch.buckets, spot, bundle, topic)
                found += [
                    (spot.together, place, Upcoming(bundle.id_of(place), spot.version, spot.at_ms)) for place in places
                ]
        else:
            continue
        break
    return [upcoming for _, _, upcoming in sorted(found)[:limit]]


def next_due_ms(rows: TimelineRows, stretch: Stretch, topic: Topic) -> int | None:
    """When the next message on a stretch of the line is due."""
    if len(stretch.buckets) == topic.buckets:
        due = rows.due(stretch, BEFORE_ALL, 1)
        return due[0].at_ms if due else None
    for spots in _spots_along(rows, stretch, FIRST_SPOTS):
        for spot in spots:
            # One that reaches over these buckets may have no message in them: who waited for it would never rest.
            if covers(stretch.buckets, spot):
                return spot.at_ms
            bundle = rows.bundles_by_number([spot.bundle]).get(spot.bundle)
            if bundle is not None and _places_in(stretch.buckets, spot, bundle, topic):
                return spot.at_ms
    return None


def _places_in(buckets: range, spot: Spot, bundle: Bundle, topic: Topic) -> list[int]:
    places = indexes_of(spot.bits)
    return [place for place in places if bucket_of(bundle.id_of(place), topic.buckets) in buckets]


def _spots_along(rows: TimelineRows, stretch: Stretch, ask: int) -> Iterator[list[Spot]]:
    """Spots on a stretch of the line, the oldest first, some at a time; without those that were removed meanwhile."""
    after = BEFORE_ALL
    while True:
        due = rows.due(stretch, after, ask)
        spots = {spot.key: spot for spot in rows.spots_of({one.bundle for one in due})} if due else {}
        yield [spots[one.key] for one in due if one.key in spots]
        if len(due) < ask:
            return
        after = due[-1]
