"""Whether what a timeline answered can have been, and whether the rows left over agree.

    actors ──▶ record of calls and answers ──▶ an order of the calls for each id, that a sequential model can follow
                                           ──▶ sessions, the order of messages, and the rows

A life is one message from its creation to its end: an id may have many, one after the other. Each has its own bundle.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from batchline.core.bundle import unpack_bundle
from batchline.core.future_load import SLICE_MS
from batchline.core.item_group import ALL_BITS, indexes_of
from batchline.core.message import made_id, made_place
from batchline.core.spot import Spot
from batchline.runtime.timeline import Timeline
from batchline.stores.memory import MemoryStore
from batchline.stores.store import Store
from tests.stores.events import DEAD, LINE, Event, Record
from tests.stores.linear import find_order
from tests.stores.lives import FREE, Background, Life, next_life
from tests.stores.racing import select

__all__ = ["Left", "check_counts", "check_history", "check_left", "what_is_left"]

Place = tuple[int, int]


# --- what is left -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Left:
    """All rows of messages, and what they say."""

    topics: dict[int, str]
    spots: list[Spot]
    #: The ids of bundles, None if they were made; and to which place ids lead.
    bundles: dict[int, tuple[str, ...] | None]
    places: dict[tuple[str, str], Place]

    def id_of(self, life: Place) -> str:
        """The id of a message."""
        ids = self.bundles[life[0]]
        return made_id(*life) if ids is None else ids[life[1]]

    def alive(self) -> Iterator[tuple[Place, Spot]]:
        """The messages on the line, each with its spot."""
        for spot in self.spots:
            if spot.is_on_line:
                for place in indexes_of(spot.bits):
                    yield (spot.bundle, place), spot


def what_is_left(store: Store, url: str) -> Left:
    """Read the rows themselves."""
    if isinstance(store, MemoryStore):
        tables = store._tables
        names = {number: topic.name for number, topic in tables.topics.items()}
        return Left(
            names,
            [spot for spots in tables.spots.values() for spot in spots.values()],
            {number: bundle.ids for number, bundle in tables.bundles.items()},
            {(names[topic], id): place for (topic, id), place in tables.message_ids.items()},
        )
    names = {number: _text(name) for number, name in select(url, "SELECT number, name FROM batchline_topics")}
    rows = [Spot(*row) for row in select(url, f"SELECT {', '.join(Spot._fields)} FROM batchline_spots")]
    bundles = select(url, "SELECT number, ids, content FROM batchline_bundles")
    ids = select(url, "SELECT topic, id, bundle, place FROM batchline_message_ids")
    return Left(
        names,
        [row._replace(bits=row.bits & ALL_BITS, consumer=_text(row.consumer)) for row in rows],
        {number: unpack_bundle(_text(packed), content)[0] for number, packed, content in bundles},
        {(names[topic], _text(id)): (bundle, place) for topic, id, bundle, place in ids},
    )


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


# --- the check --------------------------------------------------------------------------------------------------------


def check_history(seed: str, record: Record) -> Counter[str]:
    """Check all that happened, until nothing was left. Return how often each verb had each outcome."""
    _check_sessions(record)
    _check_newest(record)
    _check_order(record.events)
    histories = _histories(record.events)
    prunes = [event for event in record.events if event.verb == "prune"]
    happened: Counter[str] = Counter()
    for (topic, id, bundle), history in histories.items():
        beside = Background(prunes, record.sessions, [event.bundle for event in history if event.verb == "bury"])
        try:
            happened.update(_check_message(history, beside))
        except AssertionError as error:
            error.add_note(f"seed {seed!r}, message {id!r} on {topic!r}, bundle {bundle or 'any'}")
            raise
    return happened


def _histories(events: Sequence[Event]) -> dict[tuple[str, str, int], list[Event]]:
    """The events of each id on the line, and of each message among the dead letters: there an id may be of several."""
    found: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.begun):
        if event.verb != "prune":
            known = event.lease or event.token
            found[event.topic, event.id, known.bundle if event.topic == DEAD and known else 0].append(event)
    for (topic, id, bundle), history in list(found.items()):
        if topic == DEAD:
            end, begin = _burial(history[0], found[LINE, id, 0], bundle)
            found[LINE, id, 0].append(end)
            history.insert(0, begin)
    return found


def _burial(first: Event, before: Sequence[Event], bundle: int) -> tuple[Event, Event]:
    """When a message left for the dead-letter topic, as its first lease there tells: from one history to the other."""
    assert first.lease is not None, f"never leased, and known: {first}"
    last = [one for one in before if one.lease is not None and one.lease.bundle == bundle]
    assert last, f"dead, and never leased: {first}"
    moved = Event("", "bury", last[-1].begun, first.ended, first.at_ms, LINE, first.id, "buried", bundle=bundle)
    moved = moved._replace(version=first.lease.version - 1, body=first.body)
    return moved, moved._replace(topic=DEAD, verb="unbury")


def _check_message(history: Sequence[Event], beside: Background) -> Iterator[str]:
    """Find an order of the calls that the model can follow to the end of all lives. Yield what happened in it."""
    found = find_order(history, FREE, partial(_follow, beside))
    shown = "\n".join(["in this order:", *map(str, found.order), "none of these is next:", *map(str, found.stuck)])
    assert not found.stuck, shown
    assert isinstance(found.state, Life)
    assert found.state.ended, f"neither done nor cancelled: {found.state}, {shown}"
    happened = [f"{one.verb} {one.outcome}" for one in found.order]
    yield from happened
    yield from (f"{one} again" for one, after in pairwise(happened) if after == one)
    yield from (f"{after} after {one}" for one, after in pairwise(happened) if after == "create created")


def _follow(beside: Background, life: Life, event: Event) -> Life | None:
    return next_life(life, event, beside)


def _check_sessions(record: Record) -> None:
    """Only a session whose process is gone is ended by another."""
    processes = {one.session: one.process for one in record.sessions if one.verb == "attend"}
    for one in record.sessions:
        process = processes[one.session]
        if one.verb == "end" and process != one.process:
            assert record.gone.get(process, one.ended) < one.ended, f"ended by another, and alive: {one}"


def _check_newest(record: Record) -> None:
    """A session leases nothing once a newer one is certainly alive: it was seen lately, and has not ended."""
    beside = Background((), record.sessions, ())
    sessions = {one.session for one in record.sessions}
    for event in record.events:
        if event.verb == "lease" and event.session is not None:
            newer = [one for one in sessions if one > event.session and beside.is_alive(one, event)]
            assert not newer, f"leased although {newer} are alive: {event}"


def _check_order(events: Sequence[Event]) -> None:
    """In one answer, messages that nothing has happened to are in order of due time and creation."""
    created = {(one.bundle, one.id): one for one in events if (one.verb, one.outcome) == ("create", "created")}
    answers: dict[tuple[str, float], list[Event]] = defaultdict(list)
    for event in events:
        if event.verb == "lease":
            answers[event.actor, event.begun].append(event)
    for leased in answers.values():
        # Alone it leases all there is: then whatever happened before is in order.
        untouched = [one for one in leased if one.actor == "drain" or (one.lease and one.lease.version == 2)]
        for before, after in pairwise(untouched):
            assert before.at_ms <= after.at_ms, f"{before} before {after}"
            if before.at_ms == after.at_ms:
                _check_pair(created[before.bundle, before.id], created[after.bundle, after.id])


def _check_pair(before: Event, after: Event) -> None:
    """Calls are told apart by the millisecond, those of one process by their order."""
    if before.bundle == after.bundle:
        assert before.place < after.place, f"created as {before.place} and {after.place} of one call: {before}, {after}"
    elif after.precedes(before):
        same = before.process == after.process or before.now_ms - after.now_ms > 1
        assert not same, f"created later: {before}, {after}"


# --- the rows ---------------------------------------------------------------------------------------------------------


def check_left(left: Left) -> None:
    """Nothing is left behind: no bundle without messages, no id without its message, no message without its id."""
    alive = dict(left.alive())
    standing = {spot.bundle for spot in left.spots}
    assert standing == left.bundles.keys(), "bundles and spots"
    assert not [spot for spot in left.spots if not spot.is_on_line], "not pruned"
    for (topic, id), life in left.places.items():
        assert life in alive, f"the id {id!r} leads nowhere"
        assert left.id_of(life) == id, f"the id {id!r} leads to another message"
        assert left.topics[alive[life].topic] == topic, f"the id {id!r} leads to another topic"
    for life, spot in alive.items():
        topic, id = left.topics[spot.topic], left.id_of(life)
        if made_place(id) is None and topic != DEAD:
            assert left.places.get((topic, id)) == life, f"{id!r} is not found by its id"


def check_counts(left: Left, timeline: Timeline) -> None:
    """The timeline, whose clock stands still, counts what is there; also what is in slices that it has summed."""
    _check_counts(left, timeline)
    later_us = 1_000 * (timeline.now_ms() + 10 * SLICE_MS)
    _check_counts(left, Timeline(timeline._store, clock=lambda: later_us))


def _check_counts(left: Left, timeline: Timeline) -> None:
    now_ms = timeline.now_ms()
    for number, name in left.topics.items():
        states: Counter[str] = Counter()
        for _, spot in left.alive():
            if spot.topic == number:
                held = "processing" if spot.consumer is not None else "waiting"
                states[held if spot.at_ms > now_ms else "available"] += 1
        counts = timeline.count(name)
        found = {"waiting": counts.waiting, "processing": counts.processing, "available": counts.available}
        assert found == {state: states[state] for state in found}, f"counts of {name}"
