"""What producers do with messages, on any store: each verb a function of the rows of one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from batchline.core.bundle import Bundle, Draft, draft_bundles
from batchline.core.item_group import full_mask
from batchline.core.message import (
    Attempt,
    CheckedMessages,
    Lease,
    Message,
    Outcome,
    OutcomeWord,
    bucket_of,
    made_place,
    moment_ms,
    state_of,
)
from batchline.core.rate import allowed
from batchline.core.spot import ENDED, Spot
from batchline.core.topic import Topic
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
UNDECIDED: Final = Outcome("", "unknown")
#: Bundles that are read together when an owner looks through its messages.
BUNDLES_AT_ONCE: Final = 64


class NumbersTaken(Exception):
    """Somebody else made bundles with the same numbers at the same moment: take others."""


@dataclass(frozen=True, slots=True)
class Creation:
    """What a call creates, and how; the same again when it is repeated."""

    topic: str
    producer_group: str
    messages: CheckedMessages
    now_us: int

    @property
    def now_ms(self) -> int:
        """The moment of the call."""
        return self.now_us // 1_000


class _Creating:
    """What becomes of the messages of a call."""

    def __init__(self, topic: Topic, creation: Creation, owner: int):
        self.topic, self.creation, self.owner = topic, creation, owner
        self.ids = creation.messages.ids
        self.outcomes: list[Outcome] = [UNDECIDED] * len(self.ids)

    def refuse(self, indexes: Iterable[int], word: OutcomeWord, reason: str) -> None:
        """Say why some cannot be created."""
        for index in indexes:
            self.outcomes[index] = Outcome(self.ids[index], word, None, reason)


# --- create -----------------------------------------------------------------------------------------------------------


def create_messages(
    rows: TimelineRows, topic: Topic, owner: int, creation: Creation, numbers: Iterator[int]
) -> list[Outcome]:
    """Put messages on the line. One that is there already, with the same owner and body, is a success."""
    creating = _Creating(topic, creation, owner)
    moments = creation.messages.at_ms
    latest_ms = topic.latest_ms(creation.now_ms)
    wanted: Sequence[int] = range(len(moments))
    if moments and max(moments) > latest_ms:
        reason = f"topic {topic.name!r} takes messages up to {moment_ms(latest_ms).isoformat()}"
        creating.refuse([index for index in wanted if moments[index] > latest_ms], "too_far", reason)
        wanted = [index for index in wanted if moments[index] <= latest_ms]
    _create(rows, creating, _within_rate(rows, creating, wanted), numbers)
    return creating.outcomes


def _within_rate(rows: TimelineRows, creating: _Creating, wanted: Sequence[int]) -> Sequence[int]:
    topic, creation = creating.topic, creating.creation
    if topic.rate_limit is None or not wanted:
        return wanted
    used_up_to_us = rows.use_rate(topic.number, creating.owner)
    count, new_us = allowed(topic.rate_limit, used_up_to_us, len(wanted), creation.now_us)
    rows.write_rate(topic.number, creating.owner, new_us)
    reason = f"{creation.producer_group!r} may create {topic.rate_limit:g} messages a second on {topic.name!r}"
    creating.refuse(wanted[count:], "limited", reason)
    return wanted[:count]


def _create(rows: TimelineRows, creating: _Creating, wanted: Sequence[int], numbers: Iterator[int]) -> None:
    ids, creation = creating.ids, creating.creation
    again = {index: twin for index in wanted if ids[index] and (twin := made_place(ids[index]))}
    if again:
        _meet_twins(rows, creating, again)
        wanted = [index for index in wanted if index not in again]
    if not wanted:
        return
    drafts = draft_bundles(creation.messages, wanted, creating.topic, creating.owner, creation.now_ms, numbers)
    new = _insert_bundles(rows, [draft.bundle for draft in drafts])
    twins = _insert_ids(rows, creating.topic, drafts)
    outcomes = creating.outcomes
    for draft in drafts:
        for index, id in zip(draft.indexes, draft.bundle.all_ids(), strict=True):
            outcomes[index] = Outcome(id, "created")
    _stand(rows, [draft for draft in drafts if draft.bundle.number in new], twins, numbers)
    if twins:
        _meet_twins(rows, creating, twins)


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


def _meet_twins(rows: TimelineRows, creating: _Creating, twins: Mapping[int, Place]) -> None:
    """Compare messages with those that have their ids."""
    bundles = rows.bundles_by_number({bundle for bundle, _ in twins.values()})
    for index, (number, place) in twins.items():
        id, bundle = creating.ids[index], bundles.get(number)
        if bundle is None and made_place(id) is None:
            raise Busy("a message that had one of the ids was removed meanwhile")
        made_elsewhere = bundle is not None and bundle.ids is None and bundle.topic != creating.topic.number
        if bundle is None or made_elsewhere or place >= len(bundle.bodies) or bundle.id_of(place) != id:
            raise InvalidMessage(f"the id {id!r} looks as if it were made here, and was not: choose another")
        if bundle.producer_group != creating.owner:
            creating.refuse([index], "conflict", "another producer group has a message of this id")
        elif bundle.ids is None and _is_elsewhere(rows, creating.topic, number, place):
            creating.refuse([index], "conflict", "the message of this id has gone to a dead-letter topic")
        elif bundle.bodies[place] != creating.creation.messages.bodies[index]:
            creating.refuse([index], "conflict", "there is a message of this id with another body")
        else:
            creating.outcomes[index] = Outcome(id, "exists")


def _is_elsewhere(rows: TimelineRows, topic: Topic, bundle: int, place: int) -> bool:
    """Whether a message stands on another topic than that on which it was created."""
    spots = [spot for spot in rows.spots_of([bundle]) if spot.bits >> place & 1 and spot.segment != ENDED]
    return any(spot.topic != topic.number for spot in spots)


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
        if spot is None:
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
    number = rows.known_group(owner)
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
    tried = [one for one in rows.attempts_of(bundle.number) if one.bits >> place[1] & 1]
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
    rows: TimelineRows, owner: str, after: Place, limit: int, now_ms: int
) -> list[tuple[Place, Message]]:
    """The messages of a producer group on all topics, in the order of their creation, from after a place on."""
    topics = {topic.number: topic for topic in rows.topics()}
    number, begin = rows.known_group(owner), after[0]
    found: list[tuple[Place, Message]] = []
    while number is not None and len(found) < limit:
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
            message = message_at(topics[spot.topic], spot, bundles[bundle], place, (), now_ms)
            found.append(((bundle, place), message))
        if len(numbers) < BUNDLES_AT_ONCE:
            break
        begin = numbers[-1] + 1
    return found
