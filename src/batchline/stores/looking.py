"""What consumers see of messages, on any store, without leasing them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter

from batchline.core.bundle import Bundle
from batchline.core.item_group import indexes_of
from batchline.core.message import LeasedMessage, Upcoming, bucket_of
from batchline.core.spot import Spot, Together
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.stores.bodies import bundles_in_parts, content_bounds, first_within
from batchline.stores.leasing import FIRST_SPOTS, covers, leased_messages
from batchline.stores.timeline_rows import BEFORE_ALL, Stretch, TimelineRows

__all__ = ["HeldQuery", "held_messages", "next_due_ms", "upcoming_messages"]


@dataclass(frozen=True, slots=True)
class HeldQuery:
    """Whose leases are looked for, from where on, and how many bytes of bodies a page may have."""

    consumer: str
    session: int | None
    now_ms: int
    #: How long after it was seen last a session counts as alive.
    live_for_ms: int
    #: The last bundle of the page before, with the name of its topic.
    after: tuple[str, int] = ("", -1)
    max_bytes: int = LEASED_BYTES


def held_messages(
    rows: TimelineRows, topics: Iterable[Topic], query: HeldQuery
) -> tuple[list[LeasedMessage], tuple[str, int] | None]:
    """List messages that a session has active leases on, in the order of leasing, and where the next page begins.

    Without a session: all of the consumer's, but those of live sessions, which go on with them.
    Pages go by topic and bundle, which do not change when a lease is extended; in a page it is the order of leasing.
    """
    found: list[LeasedMessage] = []
    left = query.max_bytes
    for topic in sorted(topics, key=attrgetter("name")):
        if topic.name < query.after[0]:
            continue
        leased = rows.leased_spots(topic.number, query.consumer, query.now_ms)
        first = query.after[1] if topic.name == query.after[0] else -1
        spots = [spot for spot in _of_session(rows, topic, leased, query) if spot.bundle > first]
        numbers = sorted({spot.bundle for spot in spots})
        sizes = content_bounds(rows, spots, left)
        if found and numbers and sizes.get(numbers[0], 0) > left:
            return found, (topic.name, -1)
        end = first_within(numbers, 0, sizes, left)
        taken = set(numbers[:end])
        bundles = rows.bundles_by_number(taken) if taken else {}
        found += _held_on(topic, [spot for spot in spots if spot.bundle in taken], bundles)
        if end < len(numbers):
            return found, (topic.name, numbers[end - 1])
        left = max(left - sum(sizes.get(number, 0) for number in taken), 0)
    return found, None


def _held_on(topic: Topic, spots: Iterable[Spot], bundles: Mapping[int, Bundle]) -> Iterator[LeasedMessage]:
    for _, together in groupby(spots, attrgetter("together")):
        some = [leased_messages(topic.name, spot, bundles[spot.bundle], spot.at_ms) for spot in together]
        yield from sorted(chain(*some), key=attrgetter("place"))


def _of_session(rows: TimelineRows, topic: Topic, leased: Sequence[Spot], query: HeldQuery) -> Iterator[Spot]:
    """Choose the spots that a session has leased; without a session, those that no live one has."""
    if query.session is not None:
        return (spot for spot in leased if spot.session == query.session)
    if all(spot.session is None for spot in leased):
        return iter(leased)
    seen = rows.sessions(topic.number, query.now_ms - query.live_for_ms)
    live = {one.session for one in seen if one.seen_ms <= query.now_ms + query.live_for_ms}
    return (spot for spot in leased if spot.session not in live)


def upcoming_messages(rows: TimelineRows, stretch: Stretch, topic: Topic, limit: int) -> list[Upcoming]:
    """List the messages on a stretch of the line, in the order in which they are leased; nothing is leased."""
    found: list[tuple[Together, int, Upcoming]] = []
    for spots in _spots_along(rows, stretch, max(limit, FIRST_SPOTS)):
        for spot, bundle in _each_bundle(rows, spots):
            if len(found) >= limit and spot.together != found[-1][0]:
                break
            places = _places_in(stretch.buckets, spot, bundle, topic)
            found += [
                (spot.together, place, Upcoming(bundle.id_of(place), spot.version, spot.at_ms)) for place in places
            ]
        else:
            continue
        break
    return [upcoming for _, _, upcoming in sorted(found)[:limit]]


def _each_bundle(rows: TimelineRows, spots: Sequence[Spot]) -> Iterator[tuple[Spot, Bundle]]:
    """Read the bundles of spots, few bytes at a time; without those that were removed a moment ago."""
    for part, bundles in bundles_in_parts(rows, spots, LEASED_BYTES) if spots else ():
        for spot in part:
            if spot.bundle in bundles:
                yield spot, bundles[spot.bundle]


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
