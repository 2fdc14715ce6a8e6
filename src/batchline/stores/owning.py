"""What producers do with messages they have created, on any store: each verb works on the rows of one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from batchline.core.bundle import Bundle
from batchline.core.message import (
    Attempt,
    Lease,
    Message,
    Outcome,
    bucket_of,
    made_place,
    moment_ms,
    state_of,
)
from batchline.core.spot import CANCELLED, Spot
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.errors import ForeignMessage, UnknownMessage
from batchline.stores.bodies import first_within
from batchline.stores.line import LineChanges
from batchline.stores.timeline_rows import Place, TimelineRows, TriedSpot

__all__ = [
    "cancel_messages",
    "find_places",
    "message_at",
    "move_messages",
    "owned_messages",
    "read_message",
]

#: Bundles that are read together when an owner looks through its messages.
BUNDLES_AT_ONCE: Final = 64


# --- move and cancel --------------------------------------------------------------------------------------------------


def find_places(rows: TimelineRows, topic: Topic, ids: Iterable[str]) -> dict[str, Place]:
    """Where messages are kept, if there were any of these ids."""
    made = {id: place for id in ids if (place := made_place(id))}
    return made | rows.message_ids(topic.number, [id for id in ids if id not in made])


def move_messages(
    rows: TimelineRows, topic: Topic, owner: str, moments: Mapping[str, int], now_ms: int, numbers: Iterator[int]
) -> list[Outcome]:
    """Let an owner's messages stand at other moments; not while somebody holds a lease on them."""
    latest_ms = topic.latest_ms(now_ms)
    too_far = {id for id, at_ms in moments.items() if at_ms > latest_ms}
    line = LineChanges(numbers)
    outcomes: dict[str, Outcome] = {}
    for id, outcome, spot, place in _owned_spots(rows, topic, owner, list(moments), now_ms):
        if spot is None or not spot.is_on_line:
            outcomes[id] = outcome
        elif id in too_far:
            reason = f"topic {topic.name!r} takes messages up to {moment_ms(latest_ms).isoformat()}"
            outcomes[id] = Outcome(id, "too_far", reason=reason)
        else:
            line.note_lost(spot, 1 << place)
            line.change(spot, 1 << place, partial(Spot.moved, at_ms=moments[id]))
            outcomes[id] = Outcome(id, "moved")
    line.write(rows)
    return [outcomes[id] for id in moments]


def cancel_messages(
    rows: TimelineRows, topic: Topic, owner: str, ids: Sequence[str], now_ms: int, numbers: Iterator[int]
) -> list[Outcome]:
    """Take an owner's messages off the line, unless a lease on them is active. Their ids are free at once.

    Cancelling a message again succeeds, until `prune` removes the record of it.
    """
    line = LineChanges(numbers)
    outcomes: dict[str, Outcome] = {}
    for id, outcome, spot, place in _owned_spots(rows, topic, owner, list(dict.fromkeys(ids)), now_ms):
        if spot is None or not spot.is_on_line:
            outcomes[id] = outcome if spot is None else Outcome(id, "cancelled")
        else:
            line.change(spot, 1 << place, partial(Spot.cancelled, now_ms=now_ms))
            outcomes[id] = Outcome(id, "cancelled")
    line.write(rows)
    return [outcomes[id] for id in ids]


def _owned_spots(
    rows: TimelineRows, topic: Topic, owner: str, ids: list[str], now_ms: int
) -> Iterator[tuple[str, Outcome, Spot | None, int]]:
    """For each message its spot, held, or the outcome that says why its owner cannot have it.

    A message that its owner has cancelled comes with both.
    """
    places = find_places(rows, topic, ids)
    bundles = {bundle for bundle, _ in places.values()}
    number = rows.known_group(owner)
    owners = rows.owners_of(bundles) if bundles else {}
    spots = _spots_by_bundle(_hold_all(rows, set(places.values())))
    for id in ids:
        bundle, place = places.get(id, (0, 0))
        spot, is_owner = _spot_of(spots, (bundle, place)), owners.get(bundle) == number
        if spot is None or not _is_known(spot, topic, is_owner=is_owner):
            yield id, _unknown(topic, id), None, place
        elif not is_owner:
            yield id, Outcome(id, "foreign", reason="the message belongs to another producer group"), None, place
        elif spot.is_leased(now_ms):
            reason = f"{spot.consumer!r} has leased the message until {moment_ms(spot.at_ms).isoformat()}"
            yield id, Outcome(id, "leased", reason=reason), None, place
        else:
            yield id, _unknown(topic, id), spot, place


def _unknown(topic: Topic, id: str) -> Outcome:
    return Outcome(id, "unknown", reason=f"there is no message {id!r} on {topic.name!r}")


def _is_known(spot: Spot, topic: Topic, *, is_owner: bool) -> bool:
    """Whether a producer group may know of a message on a topic: while it is there, and its owner once cancelled."""
    return spot.topic == topic.number and (spot.is_on_line or (is_owner and spot.segment == CANCELLED))


def _hold_all(rows: TimelineRows, places: set[Place]) -> list[Spot]:
    """All spots of these messages' bundles, held; also those that were split off one while it was waited for."""
    bundles = {bundle for bundle, _ in places}
    spots, before = rows.hold_spots_of(bundles) if bundles else [], -1
    while len(spots) != before and not _have_all(_spots_by_bundle(spots), places):
        spots, before = rows.hold_spots_of(bundles), len(spots)
    return spots


def _have_all(spots: Mapping[int, list[Spot]], places: set[Place]) -> bool:
    return all(_spot_of(spots, place) for place in places)


def _spots_by_bundle(spots: Iterable[Spot]) -> dict[int, list[Spot]]:
    found: dict[int, list[Spot]] = {}
    for spot in spots:
        found.setdefault(spot.bundle, []).append(spot)
    return found


def _spot_of(spots: Mapping[int, list[Spot]], place: Place) -> Spot | None:
    return next((spot for spot in spots.get(place[0], ()) if spot.bits >> place[1] & 1), None)


def spot_with(spots: Iterable[Spot], topic: Topic, place: int) -> Spot | None:
    """Find the spot of a message that is on a topic's line, of those of its bundle."""
    for spot in spots:
        if spot.bits >> place & 1 and spot.topic == topic.number and spot.is_on_line:
            return spot
    return None


# --- read -------------------------------------------------------------------------------------------------------------


def read_message(
    rows: TimelineRows, topic: Topic, id: str, owner: str | None, lease: Lease | None, now_ms: int
) -> Message:
    """A message, for its owner or for who holds its lease; raises UnknownMessage and ForeignMessage."""
    message, spot = known_message(rows, topic, id, now_ms)
    if owner is not None and message.producer_group == owner:
        return message
    if lease is not None and spot.is_held(lease.version, lease.consumer, now_ms):
        return message
    raise ForeignMessage(f"message {id!r} on {topic.name!r} is neither yours nor leased to you")


def known_message(rows: TimelineRows, topic: Topic, id: str, now_ms: int) -> tuple[Message, Spot]:
    """A message, whoever asks, and its spot; raises UnknownMessage."""
    place = find_places(rows, topic, [id]).get(id)
    spot = None if place is None else spot_with(rows.spots_of([place[0]]), topic, place[1])
    bundle = None if spot is None else rows.bundles_by_number([spot.bundle]).get(spot.bundle)
    if place is None or spot is None or bundle is None:
        raise UnknownMessage(f"there is no message {id!r} on {topic.name!r}")
    tried = [one for one in rows.attempts_of([bundle.number]) if one.bits >> place[1] & 1]
    return message_at(topic, spot, bundle, place[1], tried, now_ms), spot


def message_at(
    topic: Topic, spot: Spot, bundle: Bundle, place: int, tried: Iterable[TriedSpot], now_ms: int
) -> Message:
    """All that is known of a message."""
    id = bundle.id_of(place)
    return Message(
        topic=topic.name,
        id=id,
        body=bundle.bodies[place],
        state=state_of(spot.at_ms, spot.consumer, now_ms),
        at=moment_ms(spot.at_ms),
        producer_group=bundle.owner,
        consumer=spot.consumer if spot.is_leased(now_ms) else None,
        version=spot.version,
        attempts=spot.attempts,
        priority=-spot.turn,
        bucket=bucket_of(id, topic.buckets),
        history=tuple(Attempt(one.attempt, one.consumer, one.ending, one.ended_ms, one.reason) for one in tried),
    )


def owned_messages(
    rows: TimelineRows, owner: str, after: Place, limit: int, now_ms: int, max_bytes: int = LEASED_BYTES
) -> tuple[list[tuple[Place, Message]], bool]:
    """List messages of a producer group on all topics, in the order of their creation, from after a place on.

    Their bodies have at most `max_bytes`, unless it is one message alone. Tells whether there may be more.
    """
    topics = {topic.number: topic for topic in rows.topics()}
    number, begin = rows.known_group(owner), after[0]
    found: list[tuple[Place, Message]] = []
    while number is not None and len(found) < limit:
        numbers = rows.bundles_of_group(number, begin, BUNDLES_AT_ONCE)
        sizes = rows.content_sizes(numbers) if numbers else {}
        end = first_within(numbers, 0, sizes, max_bytes)
        if found and sum(sizes.get(one, 0) for one in numbers[:end]) > max_bytes:
            return found, True
        is_last, numbers = end == len(numbers) < BUNDLES_AT_ONCE, numbers[:end]
        bundles = rows.bundles_by_number(numbers) if numbers else {}
        max_bytes -= sum(sizes.get(one, 0) for one in numbers)
        spots = rows.spots_of(numbers) if numbers else []
        places = sorted(
            ((spot.bundle, place), spot)
            for spot in spots
            if spot.is_on_line and spot.bundle in bundles and spot.topic in topics
            for place in range(spot.bits.bit_length())
            if spot.bits >> place & 1 and (spot.bundle, place) > after
        )
        for (bundle, place), spot in places[: limit - len(found)]:
            message = message_at(topics[spot.topic], spot, bundles[bundle], place, (), now_ms)
            found.append(((bundle, place), message))
        if is_last:
            return found, len(found) == limit
        begin = numbers[-1] + 1
    return found, len(found) == limit
