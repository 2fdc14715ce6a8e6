"""What producers do with messages, on any store: each verb a function of the rows of one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from batchline.core.bundle import Bundle, Draft, draft_bundles
from batchline.core.item_group import full_mask
from batchline.core.message import (
    Attempt,
    CheckedMessage,
    Lease,
    Message,
    Outcome,
    bucket_of,
    made_place,
    moment_ms,
    state_of,
)
from batchline.core.rate import allowed
from batchline.core.spot import ENDED, Spot
from batchline.core.topic import Topic, span_ms
from batchline.errors import ForeignMessage, InvalidMessage, UnknownMessage
from batchline.stores.connections import Busy
from batchline.stores.line import LineChanges
from batchline.stores.timeline_rows import TimelineRows, TriedSpot

__all__ = [
    "Creation",
    "NumbersTaken",
    "Place",
    "cancel_messages",
    "create_messages",
    "find_places",
    "message_at",
    "move_messages",
    "owned_messages",
    "read_message",
]

Place = tuple[int, int]
#: Bundles that are read together when an owner looks through its messages.
BUNDLES_AT_ONCE: Final = 64


class NumbersTaken(Exception):
    """Somebody else made bundles with the same numbers at the same moment: take others."""


@dataclass(frozen=True, slots=True)
class Creation:
    """What a call creates, and how; the same again when it is repeated."""

    topic: str
    producer_group: str
    messages: Sequence[CheckedMessage]
    now_us: int
    #: The first of the fresh numbers it may use.
    number: int

    @property
    def now_ms(self) -> int:
        """The moment of the call."""
        return self.now_us // 1_000


@dataclass(slots=True)
class _Creating:
    """What has become of the messages of a call so far."""

    topic: Topic
    owner: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)


# --- create -----------------------------------------------------------------------------------------------------------


def create_messages(rows: TimelineRows, topic: Topic, creation: Creation, numbers: Iterator[int]) -> list[Outcome]:
    """Put messages on the line. One that is there already, with the same owner and body, is a success."""
    creating = _Creating(topic, rows.producer_group(creation.producer_group))
    latest_ms = creation.now_ms + span_ms(topic.max_ahead)
    wanted = []
    for index, message in enumerate(creation.messages):
        if message.at_ms > latest_ms:
            reason = f"topic {topic.name!r} takes messages up to {moment_ms(latest_ms).isoformat()}"
            creating.outcomes[index] = Outcome(message.id, "too_far", reason=reason)
        else:
            wanted.append(index)
    wanted = _within_rate(rows, creating, creation, wanted)
    _create(rows, creating, creation, wanted, numbers)
    return [creating.outcomes[index] for index in range(len(creation.messages))]


def _within_rate(rows: TimelineRows, creating: _Creating, creation: Creation, wanted: list[int]) -> list[int]:
    topic = creating.topic
    if topic.rate_limit is None or not wanted:
        return wanted
    used_up_to_us = rows.use_rate(topic.number, creating.owner)
    count, new_us = allowed(topic.rate_limit, used_up_to_us, len(wanted), creation.now_us)
    rows.write_rate(topic.number, creating.owner, new_us)
    for index in wanted[count:]:
        reason = f"{creation.producer_group!r} may create {topic.rate_limit:g} messages a second on {topic.name!r}"
        creating.outcomes[index] = Outcome(creation.messages[index].id, "limited", reason=reason)
    return wanted[:count]


def _create(
    rows: TimelineRows, creating: _Creating, creation: Creation, wanted: list[int], numbers: Iterator[int]
) -> None:
    ours = {index: twin for index in wanted if (twin := made_place(creation.messages[index].id))}
    if ours:
        _meet_twins(rows, creating, creation, ours)
        wanted = [index for index in wanted if index not in ours]
    if not wanted:
        return
    topic = creating.topic
    messages = [creation.messages[index] for index in wanted]
    drafts = draft_bundles(messages, topic.number, creating.owner, topic.buckets, creation.now_ms, numbers)
    for draft in drafts:
        draft.indexes = [wanted[index] for index in draft.indexes]
    new = _insert_bundles(rows, [draft.bundle for draft in drafts])
    twins = _insert_ids(rows, topic, drafts)
    for draft in drafts:
        for place, index in enumerate(draft.indexes):
            if index not in twins:
                creating.outcomes[index] = Outcome(draft.bundle.id_of(place), "created")
    _stand(rows, [draft for draft in drafts if draft.bundle.number in new], twins, numbers)
    if twins:
        _meet_twins(rows, creating, creation, twins)


def _insert_bundles(rows: TimelineRows, bundles: list[Bundle]) -> set[int]:
    """Insert bundles, and tell which are new: all, unless an earlier attempt of this very call was committed."""
    ours = {bundle.number: bundle for bundle in bundles}
    if rows.insert_bundles(bundles) == len(bundles):
        return set(ours)
    if rows.bundles_by_number(ours) != ours:
        raise NumbersTaken
    # An attempt that was committed left none of which all messages had been there already: they are new again.
    return ours.keys() - {spot.bundle for spot in rows.spots_of(ours)}


def _insert_ids(rows: TimelineRows, topic: Topic, drafts: list[Draft]) -> dict[int, Place]:
    """Take the ids that were chosen; those that somebody had taken before are told, with where they are."""
    chosen = {
        id: (draft.bundle.number, place, draft.indexes[place])
        for draft in drafts
        if draft.bundle.ids is not None
        for place, id in enumerate(draft.bundle.ids)
    }
    # In one order, so that two calls with the same ids do not wait for each other in a circle.
    places = sorted((id, bundle, place) for id, (bundle, place, _) in chosen.items())
    if not places or rows.insert_message_ids(topic.number, places) == len(places):
        return {}
    found = rows.message_ids(topic.number, list(chosen))
    if len(found) < len(chosen):
        raise Busy("a message that had one of the ids was removed meanwhile")
    return {chosen[id][2]: place for id, place in found.items() if place != chosen[id][:2]}


def _stand(rows: TimelineRows, drafts: list[Draft], twins: Mapping[int, Place], numbers: Iterator[int]) -> None:
    line, unused = LineChanges(numbers), []
    for draft in drafts:
        kept = full_mask(len(draft.indexes))
        for place, index in enumerate(draft.indexes):
            if index in twins:
                kept &= ~(1 << place)
        for spot in draft.spots(kept, numbers):
            line.create(spot)
        if not kept:
            unused.append(draft.bundle.number)
    rows.delete_bundles(unused)
    line.write(rows)


def _meet_twins(rows: TimelineRows, creating: _Creating, creation: Creation, twins: Mapping[int, Place]) -> None:
    """Compare messages with those that have their ids."""
    bundles = rows.bundles_by_number({bundle for bundle, _ in twins.values()})
    for index, (number, place) in twins.items():
        message, bundle = creation.messages[index], bundles.get(number)
        if bundle is None and made_place(message.id) is None:
            raise Busy("a message that had one of the ids was removed meanwhile")
        if bundle is None or place >= len(bundle.bodies) or bundle.id_of(place) != message.id:
            raise InvalidMessage(f"the id {message.id!r} looks as if it were made here, and was not: choose another")
        if bundle.producer_group != creating.owner:
            reason = "another producer group has a message of this id"
        elif bundle.bodies[place] != message.body:
            reason = "there is a message of this id with another body"
        else:
            creating.outcomes[index] = Outcome(message.id, "exists")
            continue
        creating.outcomes[index] = Outcome(message.id, "conflict", reason=reason)


# --- move and cancel --------------------------------------------------------------------------------------------------


def find_places(rows: TimelineRows, topic: Topic, ids: Iterable[str]) -> dict[str, Place]:
    """Where messages are kept, if there were any of these ids."""
    made = {id: place for id in ids if (place := made_place(id))}
    return made | rows.message_ids(topic.number, [id for id in ids if id not in made])


def move_messages(
    rows: TimelineRows, topic: Topic, owner: str, moments: Mapping[str, int], now_ms: int, numbers: Iterator[int]
) -> list[Outcome]:
    """Let an owner's messages stand at other moments; not while somebody holds a lease on them."""
    latest_ms = now_ms + span_ms(topic.max_ahead)
    too_far = {id for id, at_ms in moments.items() if at_ms > latest_ms}
    line = LineChanges(numbers)
    outcomes: dict[str, Outcome] = {}
    for id, outcome, spot, place in _owned_spots(rows, topic, owner, list(moments), now_ms):
        if spot is None:
            outcomes[id] = outcome
        elif id in too_far:
            reason = f"topic {topic.name!r} takes messages up to {moment_ms(latest_ms).isoformat()}"
            outcomes[id] = Outcome(id, "too_far", reason=reason)
        else:
            line.change(spot, 1 << place, partial(Spot.moved, at_ms=moments[id]))
            outcomes[id] = Outcome(id, "moved")
    line.write(rows)
    return [outcomes[id] for id in moments]


def cancel_messages(
    rows: TimelineRows, topic: Topic, owner: str, ids: Sequence[str], now_ms: int, numbers: Iterator[int]
) -> list[Outcome]:
    """Take an owner's messages off the line; not while somebody holds a lease on them."""
    line = LineChanges(numbers)
    outcomes: dict[str, Outcome] = {}
    for id, outcome, spot, place in _owned_spots(rows, topic, owner, list(dict.fromkeys(ids)), now_ms):
        if spot is None:
            outcomes[id] = outcome
        else:
            line.change(spot, 1 << place, partial(Spot.ended, now_ms=now_ms))
            outcomes[id] = Outcome(id, "cancelled")
    line.write(rows)
    return [outcomes[id] for id in ids]


def _owned_spots(
    rows: TimelineRows, topic: Topic, owner: str, ids: list[str], now_ms: int
) -> Iterator[tuple[str, Outcome, Spot | None, int]]:
    """For each message its spot, held, or the outcome that says why its owner cannot have it."""
    places = find_places(rows, topic, ids)
    bundles = {bundle for bundle, _ in places.values()}
    number = rows.producer_group(owner)
    owners = rows.owners_of(bundles) if bundles else {}
    spots = _spots_by_bundle(_hold_all(rows, topic, set(places.values())))
    for id in ids:
        bundle, place = places.get(id, (0, 0))
        spot = spot_with(spots.get(bundle, ()), topic, place)
        if spot is None:
            yield id, Outcome(id, "unknown", reason=f"there is no message {id!r} on {topic.name!r}"), None, place
        elif owners.get(bundle) != number:
            yield id, Outcome(id, "foreign", reason="the message belongs to another producer group"), None, place
        elif spot.is_leased(now_ms):
            reason = f"{spot.consumer!r} has leased the message until {moment_ms(spot.at_ms).isoformat()}"
            yield id, Outcome(id, "leased", reason=reason), None, place
        else:
            yield id, Outcome(id, "unknown"), spot, place


def _hold_all(rows: TimelineRows, topic: Topic, places: set[Place]) -> list[Spot]:
    """All spots of these messages' bundles, held; also those that were split off one while it was waited for."""
    bundles = {bundle for bundle, _ in places}
    spots, before = rows.hold_spots_of(bundles) if bundles else [], -1
    while len(spots) != before and not _have_all(_spots_by_bundle(spots), topic, places):
        spots, before = rows.hold_spots_of(bundles), len(spots)
    return spots


def _have_all(spots: Mapping[int, list[Spot]], topic: Topic, places: set[Place]) -> bool:
    return all(spot_with(spots.get(bundle, ()), topic, place) for bundle, place in places)


def _spots_by_bundle(spots: Iterable[Spot]) -> dict[int, list[Spot]]:
    found: dict[int, list[Spot]] = {}
    for spot in spots:
        found.setdefault(spot.bundle, []).append(spot)
    return found


def spot_with(spots: Iterable[Spot], topic: Topic, place: int) -> Spot | None:
    """The spot of a message, of those of its bundle."""
    for spot in spots:
        if spot.bits >> place & 1 and spot.topic == topic.number and spot.segment != ENDED:
            return spot
    return None


# --- read -------------------------------------------------------------------------------------------------------------


def read_message(
    rows: TimelineRows, topic: Topic, id: str, owner: str | None, lease: Lease | None, now_ms: int
) -> Message:
    """A message, for its owner or for who holds its lease; raises UnknownMessage and ForeignMessage."""
    place = find_places(rows, topic, [id]).get(id)
    spot = None if place is None else spot_with(rows.spots_of([place[0]]), topic, place[1])
    bundle = None if spot is None else rows.bundles_by_number([spot.bundle]).get(spot.bundle)
    if place is None or spot is None or bundle is None:
        raise UnknownMessage(f"there is no message {id!r} on {topic.name!r}")
    group = rows.producer_group_names([bundle.producer_group])[bundle.producer_group]
    tried = [one for one in rows.attempts_of(bundle.number) if one.bits >> place[1] & 1]
    message = message_at(topic, spot, bundle, place[1], group, tried, now_ms)
    if owner is not None and message.producer_group == owner:
        return message
    if (
        lease is not None
        and spot.is_leased(now_ms)
        and (spot.consumer, spot.version) == (lease.consumer, lease.version)
    ):
        return message
    raise ForeignMessage(f"message {id!r} on {topic.name!r} is neither yours nor leased to you")


def message_at(
    topic: Topic, spot: Spot, bundle: Bundle, place: int, owner: str, tried: Iterable[TriedSpot], now_ms: int
) -> Message:
    """All that is known of a message."""
    id = bundle.id_of(place)
    return Message(
        topic=topic.name,
        id=id,
        body=bundle.bodies[place],
        state=state_of(spot.at_ms, spot.consumer, now_ms),
        at=moment_ms(spot.at_ms),
        producer_group=owner,
        consumer=spot.consumer if spot.is_leased(now_ms) else None,
        version=spot.version,
        attempts=spot.attempts,
        priority=-spot.turn,
        bucket=bucket_of(id, topic.buckets),
        history=tuple(Attempt(one.attempt, one.consumer, one.ending, one.ended_ms, one.reason) for one in tried),
    )


def owned_messages(
    rows: TimelineRows, owner: str, after: Place, limit: int, now_ms: int
) -> list[tuple[Place, Message]]:
    """The messages of a producer group on all topics, in the order of their creation, from after a place on."""
    topics = {topic.number: topic for topic in rows.topics()}
    number, begin = rows.producer_group(owner), after[0]
    found: list[tuple[Place, Message]] = []
    while len(found) < limit:
        numbers = rows.bundles_of_group(number, begin, BUNDLES_AT_ONCE)
        bundles = rows.bundles_by_number(numbers) if numbers else {}
        spots = rows.spots_of(numbers) if numbers else []
        places = sorted(
            ((spot.bundle, place), spot)
            for spot in spots
            if spot.segment != ENDED and spot.bundle in bundles and spot.topic in topics
            for place in range(spot.bits.bit_length())
            if spot.bits >> place & 1 and (spot.bundle, place) > after
        )
        for (bundle, place), spot in places[: limit - len(found)]:
            message = message_at(topics[spot.topic], spot, bundles[bundle], place, owner, (), now_ms)
            found.append(((bundle, place), message))
        if len(numbers) < BUNDLES_AT_ONCE:
            break
        begin = numbers[-1] + 1
    return found
