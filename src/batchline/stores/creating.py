"""Creating messages, on any store: a function of the rows of one transaction.

A chosen id is taken by a row of its own, so that two calls with the same id meet there, whoever comes first. What a
call answers for an id that is taken depends on the message that has it:

    on the line                       exists, if owner and body are the same; else conflict
    done, within the topic's `keep`   the same
    done before, cancelled, removed   created: the id was free
    buried                            created: the id was free
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from batchline.core.bundle import Bundle, Draft, draft_bundles
from batchline.core.item_group import full_mask
from batchline.core.message import CheckedMessages, Outcome, OutcomeWord, made_place, moment_ms
from batchline.core.rate import allowed
from batchline.core.spot import CANCELLED, DONE, Spot
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.errors import InvalidMessage
from batchline.stores.bodies import read_bundles
from batchline.stores.connections import Busy
from batchline.stores.line import LineChanges
from batchline.stores.timeline_rows import IdPlace, Place, TimelineRows

__all__ = ["Creation", "NumbersTaken", "create_messages", "create_under_free_ids"]

UNDECIDED: Final = Outcome("", "unknown")


class NumbersTaken(Exception):
    """Another call has made bundles with the same numbers: take others."""


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
    """Outcomes of the messages of a call, while they are decided."""

    def __init__(self, topic: Topic, creation: Creation, owner: int):
        self.topic, self.creation, self.owner = topic, creation, owner
        self.ids, self.bodies = creation.messages.ids, creation.messages.bodies
        self.outcomes: list[Outcome] = [UNDECIDED] * len(self.ids)

    def refuse(self, indexes: Iterable[int], word: OutcomeWord, reason: str) -> None:
        """Say why some cannot be created."""
        for index in indexes:
            self.outcomes[index] = Outcome(self.ids[index], word, None, reason)

    def undecided(self, wanted: Iterable[int]) -> list[int]:
        """Those of the messages wanted that have no outcome yet."""
        return [index for index in wanted if self.outcomes[index] is UNDECIDED]


class _Twins:
    """The messages that have the ids of a call, as they are now: bundles, and the spot of each message."""

    def __init__(self, rows: TimelineRows, creating: _Creating, places: Iterable[Place]):
        self._topic = creating.topic
        self._kept_since_ms = creating.topic.kept_since_ms(creating.creation.now_ms)
        numbers = {bundle for bundle, _ in places}
        #: Of bodies only what tells them apart: others' may be far larger than those of the call.
        self.bundles = {
            number: replace(bundle, bodies=tuple(map(_digest, bundle.bodies)))
            for bundles in read_bundles(rows, sorted(numbers), LEASED_BYTES)
            for number, bundle in bundles.items()
        }
        self._spots: dict[int, list[Spot]] = {}
        for spot in rows.spots_of(numbers) if numbers else ():
            self._spots.setdefault(spot.bundle, []).append(spot)

    def spot(self, place: Place) -> Spot | None:
        """The spot of a message; None once it was removed, or is done and not kept any longer."""
        found = next((spot for spot in self._spots.get(place[0], ()) if spot.bits >> place[1] & 1), None)
        is_forgotten = found is not None and found.segment == DONE and found.at_ms < self._kept_since_ms
        return None if is_forgotten else found

    def has_left(self, place: Place) -> bool:
        """Whether a message was cancelled, forgotten, or went to a dead-letter topic, so that its chosen id is free."""
        spot = self.spot(place)
        return spot is None or spot.segment == CANCELLED or spot.topic != self._topic.number


def create_messages(
    rows: TimelineRows,
    topic: Topic,
    owner: int,
    creation: Creation,
    numbers: Iterator[int],
    *,
    repeats: int | None = None,
) -> list[Outcome]:
    """Put messages on the line. One that exists already, with the same owner and body, is a success.

    `repeats` is the first of the numbers, if the same call may have been committed before.
    """
    creating = _Creating(topic, creation, owner)
    moments = creation.messages.at_ms
    latest_ms = topic.latest_ms(creation.now_ms)
    wanted: Sequence[int] = range(len(moments))
    if moments and max(moments) > latest_ms:
        reason = f"topic {topic.name!r} takes messages up to {moment_ms(latest_ms).isoformat()}"
        creating.refuse([index for index in wanted if moments[index] > latest_ms], "too_far", reason)
        wanted = creating.undecided(wanted)
    made = {index: twin for index in wanted if creating.ids[index] and (twin := made_place(creating.ids[index]))}
    if made:
        _meet_twins(creating, made, _Twins(rows, creating, made.values()))
        wanted = creating.undecided(wanted)
    if topic.rate_limit is not None and wanted:
        wanted = _within_rate(rows, creating, wanted, topic.rate_limit, repeats)
    if wanted:
        _create(rows, creating, wanted, numbers)
    return creating.outcomes


def create_under_free_ids(
    rows: TimelineRows, topic: Topic, owner: int, creation: Creation, numbers: Iterator[int]
) -> list[Outcome]:
    """Put messages on the line. One whose id another message has gets a made id: better another id than no message."""
    outcomes = create_messages(rows, topic, owner, creation, numbers)
    taken = [place for place, outcome in enumerate(outcomes) if outcome.outcome == "conflict"]
    if taken:
        again = replace(creation, messages=creation.messages.chosen(taken)._replace(ids=[""] * len(taken)))
        renamed = create_messages(rows, topic, owner, again, numbers)
        for place, outcome in zip(taken, renamed, strict=True):
            outcomes[place] = outcome
    return outcomes


def _create(rows: TimelineRows, creating: _Creating, wanted: Sequence[int], numbers: Iterator[int]) -> None:
    creation = creating.creation
    drafts = draft_bundles(creation.messages, wanted, creating.topic, creating.owner, creation.now_ms, numbers)
    new = _insert_bundles(rows, [draft.bundle for draft in drafts])
    outcomes = creating.outcomes
    for draft in drafts:
        for index, id in zip(draft.indexes, draft.bundle.all_ids(), strict=True):
            outcomes[index] = Outcome(id, "created")
    twins = _insert_ids(rows, creating, drafts, new)
    _stand(rows, [draft for draft in drafts if draft.bundle.number in new], twins, numbers)


# --- the rate limit ---------------------------------------------------------------------------------------------------


def _within_rate(
    rows: TimelineRows, creating: _Creating, wanted: Sequence[int], rate_limit: float, repeats: int | None
) -> Sequence[int]:
    """Refuse what exceeds the rate limit. What exists already is answered first, and costs nothing."""
    topic, creation = creating.topic, creating.creation
    repeated = repeats is not None and _answer_again(rows, creating, wanted, repeats)
    _meet_known(rows, creating, creating.undecided(wanted))
    new, count = creating.undecided(wanted), 0
    # A repeated call creates nothing more than it did: the first one refused the rest.
    if new and not repeated:
        used_up_to_us = rows.use_rate(topic.number, creating.owner)
        count, new_us = allowed(rate_limit, used_up_to_us, len(new), creation.now_us)
        rows.write_rate(topic.number, creating.owner, new_us)
    reason = f"{creation.producer_group!r} may create {rate_limit:g} messages a second on {topic.name!r}"
    creating.refuse(new[count:], "limited", reason)
    return new[:count]


def _meet_known(rows: TimelineRows, creating: _Creating, wanted: Sequence[int]) -> None:
    """Answer for messages whose chosen ids are taken."""
    indexes = {creating.ids[index]: index for index in wanted if creating.ids[index]}
    found = rows.message_ids(creating.topic.number, list(indexes))
    twins = _Twins(rows, creating, found.values())
    taken = {indexes[id]: place for id, place in found.items() if not twins.has_left(place)}
    _meet_twins(creating, taken, twins)


def _answer_again(rows: TimelineRows, creating: _Creating, wanted: Sequence[int], first: int) -> bool:
    """Answer for what this very call created when it was committed before; False if it was not."""
    found = rows.bundles_by_number(range(first, first + len(creating.ids)))
    before = [found[number] for number in sorted(found)]
    taken = rows.message_ids(creating.topic.number, [id for bundle in before for id in bundle.ids or ()])
    rest = iter(wanted)
    for bundle in before:
        if (bundle.topic, bundle.producer_group) != (creating.topic.number, creating.owner):
            raise NumbersTaken
        for place, (id, body) in enumerate(zip(bundle.all_ids(), bundle.bodies, strict=True)):
            # In their order, some left out: those that were refused, or existed before.
            index = next((index for index in rest if _is_same(creating, index, id, body)), None)
            if index is None:
                raise NumbersTaken
            if taken.get(id, (bundle.number, place)) == (bundle.number, place):
                creating.outcomes[index] = Outcome(id, "created")
    return bool(before)


def _is_same(creating: _Creating, index: int, id: str, body: bytes) -> bool:
    chosen = creating.ids[index]
    return creating.bodies[index] == body and (chosen == id if chosen else made_place(id) is not None)


# --- what is stored ---------------------------------------------------------------------------------------------------


def _insert_bundles(rows: TimelineRows, bundles: list[Bundle]) -> set[int]:
    """Insert bundles. Return the numbers of the new ones: all, unless this very call was committed before."""
    ours = {bundle.number: bundle for bundle in bundles}
    if rows.insert_bundles(bundles) == len(bundles):
        return set(ours)
    if rows.bundles_by_number(ours) != ours:
        raise NumbersTaken
    # A committed attempt deleted the bundles whose messages had all existed before: those are new again.
    return ours.keys() - {spot.bundle for spot in rows.spots_of(ours)}


def _insert_ids(rows: TimelineRows, creating: _Creating, drafts: list[Draft], new: set[int]) -> set[int]:
    """Take the chosen ids. Return the indexes of messages whose ids another message has, with their outcomes set.

    Messages of bundles that are not `new` were created or refused when this call was committed before.
    """
    topic = creating.topic.number
    chosen = {
        id: (draft.indexes[place], (draft.bundle.number, place))
        for draft in drafts
        for place, id in enumerate(draft.bundle.ids or ())
        if creating.ids[draft.indexes[place]]
    }
    # In one order, so that two calls with the same ids do not wait for each other in a circle.
    ours = [IdPlace(id, *place) for id, (_, place) in sorted(chosen.items()) if place[0] in new]
    if rows.insert_message_ids(topic, ours) == len(chosen):
        return set()
    found = rows.message_ids(topic, list(chosen))
    if any(one.id not in found for one in ours):
        raise Busy("a message that had one of the ids was removed meanwhile")
    theirs = {id: place for id, place in found.items() if place != chosen[id][1]}
    twins = _Twins(rows, creating, theirs.values())
    free = {id: place for id, place in theirs.items() if chosen[id][1][0] in new and twins.has_left(place)}
    _take_ids(rows, topic, free, [one for one in ours if one.id in free])
    met = {chosen[id][0]: place for id, place in theirs.items() if id not in free}
    _meet_twins(creating, met, twins)
    return set(met)


def _take_ids(rows: TimelineRows, topic: int, free: Mapping[str, Place], ours: Sequence[IdPlace]) -> None:
    """Take ids from messages that have left; one call gets each of them."""
    if free:
        rows.delete_message_ids(topic, [IdPlace(id, *place) for id, place in sorted(free.items())])
        if rows.insert_message_ids(topic, ours) != len(ours):
            raise Busy("another call took one of the ids meanwhile")


def _stand(rows: TimelineRows, drafts: list[Draft], twins: set[int], numbers: Iterator[int]) -> None:
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


def _meet_twins(creating: _Creating, places: Mapping[int, Place], twins: _Twins) -> None:
    """Compare messages with those that have their ids."""
    for index, place in places.items():
        bundle = _twin(creating, creating.ids[index], place, twins)
        creating.outcomes[index] = _compared(creating, index, bundle, place[1], twins.spot(place))


def _twin(creating: _Creating, id: str, place: Place, twins: _Twins) -> Bundle:
    bundle = twins.bundles.get(place[0])
    is_made = made_place(id) is not None
    if bundle is None and not is_made:
        raise Busy("a message that had one of the ids was removed meanwhile")
    elsewhere = is_made and bundle is not None and bundle.topic != creating.topic.number
    if bundle is None or elsewhere or place[1] >= len(bundle.bodies) or bundle.id_of(place[1]) != id:
        raise InvalidMessage(f"the id {id!r} looks as if it were made here, and was not: choose another")
    return bundle


def _compared(creating: _Creating, index: int, bundle: Bundle, place: int, spot: Spot | None) -> Outcome:
    """Tell what a message is beside the one that has its id."""
    id, why = creating.ids[index], ""
    if bundle.producer_group != creating.owner:
        why = "another producer group has a message of this id"
    elif spot is None or spot.segment == CANCELLED:
        why = "the message that had this id has ended: create it without an id, or in another call"
    elif spot.is_on_line and spot.topic != creating.topic.number:
        why = "the message of this id has gone to a dead-letter topic"
    elif bundle.bodies[place] != _digest(creating.bodies[index]):
        why = "there is a message of this id with another body"
    return Outcome(id, "conflict", None, why) if why else Outcome(id, "exists")


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=32).digest()
