"""What was asked of a timeline and what it answered, message by message; and whether that can have been.

    actors ──▶ events, with the moment each call had and when it began and ended ──▶ check, against the rows left over

A life is one message from its creation to its end, by bundle and place: an id that was removed may live again.
In a module that a new process can load.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from batchline.core.bundle import unpack_bundle
from batchline.core.future_load import SLICE_MS
from batchline.core.item_group import ALL_BITS, indexes_of
from batchline.core.message import Lease, bucket_of, made_id
from batchline.core.spot import Spot
from batchline.runtime.timeline import Timeline
from batchline.stores.memory import MemoryStore
from batchline.stores.store import Store
from tests.stores.racing import select

__all__ = ["DEAD", "LINE", "MAX_ATTEMPTS", "Event", "Left", "check_history", "what_is_left"]

LINE: Final = "line"
DEAD: Final = "dead"
MAX_ATTEMPTS: Final = 4
Life = tuple[int, int]


class Event(NamedTuple):
    """What one call did to one message."""

    actor: str
    verb: str
    #: By a clock that all processes share and that never runs back.
    begun: float
    ended: float
    #: The moment of the call.
    now_ms: int
    topic: str
    id: str
    outcome: str
    #: Where the message was to stand, or, of a lease, where it stood.
    at_ms: int = 0
    #: The lease that the call had, and the one it was given.
    token: Lease | None = None
    lease: Lease | None = None
    attempts: int = 0
    body: bytes = b""
    #: What the clock showed when the call was over.
    over_ms: int = 0

    @property
    def life(self) -> Life | None:
        """The life that it is about, if the call says so."""
        known = self.lease or self.token
        return None if known is None else (known.bundle, known.place)

    def could_precede(self, other: "Event") -> bool:
        """Whether it may have happened before another."""
        return self.begun <= other.ended

    def precedes(self, other: "Event") -> bool:
        """Whether it happened before another, whatever happened meanwhile."""
        return self.ended < other.begun


# --- what is left -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Left:
    """All rows of messages, and what they say."""

    topics: dict[int, str]
    spots: list[Spot]
    #: The ids of bundles, None if they were made; and to which place ids lead.
    bundles: dict[int, tuple[str, ...] | None]
    places: dict[tuple[str, str], Life]

    def id_of(self, life: Life) -> str:
        """The id of a message."""
        ids = self.bundles[life[0]]
        return made_id(*life) if ids is None else ids[life[1]]

    def alive(self) -> Iterator[tuple[Life, Spot]]:
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


def check_history(seed: str, events: Iterable[Event], left: Left, timeline: Timeline) -> Counter[str]:
    """Check all that happened; how often each verb had each outcome."""
    by_id: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.begun):
        by_id[event.id].append(event)
    alive: dict[str, list[Life]] = defaultdict(list)
    for life, _ in left.alive():
        alive[left.id_of(life)].append(life)
    for id in by_id.keys() | alive.keys():
        try:
            _check_message(by_id[id], alive[id])
        except AssertionError as error:
            shown = "\n".join(map(str, by_id[id]))
            error.add_note(f"seed {seed!r}, message {id!r}, alive {alive[id]}:\n{shown}")
            raise
    check_left(left)
    check_counts(left, timeline)
    return Counter(f"{event.verb} {event.outcome}" for history in by_id.values() for event in history)


def _check_message(history: Sequence[Event], alive: Sequence[Life]) -> None:
    lives: dict[Life, list[Event]] = defaultdict(list)
    for event in history:
        if event.life is not None:
            lives[event.life].append(event)
    owned = [event for event in history if event.life is None]
    created = [event for event in owned if event.outcome == "created"]
    cancelled = [event for event in owned if event.outcome == "cancelled"]
    assert len({event.body for event in history if event.verb in ("create", "lease", "lease_one")}) <= 1, "body"
    endings = {life: _check_life(mine, owned, cancelled) for life, mine in lives.items()}
    done = [life for life, ending in endings.items() if ending == "done"]
    perhaps = [life for life, ending in endings.items() if ending == "done or cancelled"]
    assert not {*done, *perhaps} & set(alive), "done, and on the line"
    assert len(set(alive)) == len(alive), "on the line twice"
    least = len(done) + len(cancelled) + len(alive)
    assert least <= len(created) <= least + len(perhaps), "lost or doubled"
    for event in owned:
        if event.outcome in ("moved", "cancelled"):
            _check_not_leased(event, history)


@dataclass(slots=True)
class _Tokens:
    """The leases of a life, by version, and what ended them."""

    made: dict[int, Event] = field(default_factory=dict)
    released: dict[int, Event] = field(default_factory=dict)
    #: The version of each that was extended, by that of which it was.
    extended: dict[int, int] = field(default_factory=dict)


def _check_life(history: Sequence[Event], owned: Sequence[Event], cancelled: Sequence[Event]) -> str:
    """Check one life; how it ended."""
    tokens = _tokens(history)
    versions = sorted(tokens.made)
    for before, after in pairwise(versions):
        _check_next(tokens, tokens.made[before], tokens.made[after])
    for event in tokens.made.values():
        if event.verb != "extend":
            _check_delivery(event, tokens, owned)
    last = tokens.made[versions[-1]]
    finished = [
        event
        for event in history
        if event.outcome == "done" and event.token == last.lease and versions[-1] not in tokens.released
    ]
    effective = [event for event in finished if last.now_ms <= event.now_ms < _lease(last).until_ms]
    for event in history:
        if event.outcome == "done" and event not in effective:
            ends = [*effective, *(one for one in cancelled if one.topic == last.topic)]
            assert any(end.could_precede(event) for end in ends), f"done by who lost it: {event}"
        if event.outcome == "lost":
            _check_lost(event, tokens, [*effective, *cancelled])
    if effective and all(
        event.over_ms >= _lease(last).until_ms and any(one.could_precede(event) for one in cancelled)
        for event in effective
    ):
        # The lease ran out while it was to be finished, and the owner took its message away: then it is gone as well.
        return "done or cancelled"
    return "done" if effective else ""


def _tokens(history: Sequence[Event]) -> _Tokens:
    tokens = _Tokens()
    for event in history:
        if event.lease is not None:
            assert event.lease.version not in tokens.made, "two leases of one version"
            tokens.made[event.lease.version] = event
    for event in history:
        if event.token is None or event.outcome not in ("extended", "released"):
            continue
        version, given = event.token.version, tokens.made[event.token.version]
        assert event.token == given.lease, "not a lease that was given"
        assert given.now_ms <= event.now_ms < event.token.until_ms, f"not valid then: {event}"
        assert version + 1 not in tokens.released, "two changes to one version"
        assert version not in tokens.released, "a lease was released twice"
        if event.outcome == "released":
            assert version + 1 not in tokens.made, "two changes to one version"
            tokens.released[version] = event
        else:
            assert _lease(event).version == version + 1, "version"
            tokens.extended[version + 1] = version
    return tokens


def _check_next(tokens: _Tokens, before: Event, after: Event) -> None:
    """The next lease begins when the one before has ended: by itself, released, or as its extension."""
    old, new = _lease(before), _lease(after)
    if tokens.extended.get(new.version) == old.version:
        assert new.consumer == old.consumer, "extended by another"
        assert after.attempts == 0, "extended, and counted"
        return
    assert after.outcome == "leased", f"extended what was not the last: {after}"
    release = tokens.released.get(old.version)
    end = old.until_ms if release is None else max(release.now_ms, release.at_ms)
    if release is None or not _may_have_moved(new, old):
        assert after.now_ms >= end, f"two active leases: {before} and {after}"
    else:
        assert after.now_ms >= release.now_ms, f"two active leases: {before} and {after}"


def _may_have_moved(new: Lease, old: Lease) -> bool:
    """Whether its owner may have moved the message between: then there are versions of nobody's lease."""
    return new.version > old.version + 2


def _check_delivery(event: Event, tokens: _Tokens, owned: Sequence[Event]) -> None:
    """Not before its moment, and that is one that somebody gave it, and nobody replaced."""
    if event.verb == "extend":
        return
    lease = _lease(event)
    assert event.at_ms <= event.now_ms, f"early: {event}"
    assert 1 <= event.attempts <= (MAX_ATTEMPTS if event.topic == LINE else 1_000_000), f"attempts: {event}"
    assert event.outcome == "leased", f"outcome: {event}"
    if event.topic != LINE:
        return
    earlier = [one for one in tokens.made.values() if _lease(one).version < lease.version and one.verb != "extend"]
    assert event.attempts == 1 + max((one.attempts for one in earlier), default=0), f"attempts: {event}"
    # A change with a higher version than another came later; those of the owner are placed by when they were.
    stood = [(one, _lease(one).until_ms) for one in tokens.made.values() if _lease(one).version < lease.version]
    stood += [(one, max(one.at_ms, one.now_ms)) for one in tokens.released.values() if one.could_precede(event)]
    stood += [(one, one.at_ms) for one in owned if one.outcome in ("created", "moved") and one.could_precede(event)]
    valid = {
        at_ms
        for one, at_ms in stood
        if not any(one.precedes(other) and other.precedes(event) for other, _ in stood if other is not one)
    }
    assert event.at_ms in valid, f"at none of {sorted(valid)}: {event}"


def _check_lost(event: Event, tokens: _Tokens, ends: Sequence[Event]) -> None:
    """Lost is only what has run out before the call was over, or was changed by another."""
    token = event.token
    assert token is not None
    if event.over_ms >= token.until_ms or any(end.could_precede(event) for end in ends):
        return
    changes = [one for version, one in tokens.made.items() if version > token.version]
    changes += [one for version, one in tokens.released.items() if version >= token.version]
    assert any(one is not event and one.could_precede(event) for one in changes), f"lost for no reason: {event}"


def _check_not_leased(event: Event, history: Sequence[Event]) -> None:
    """While a lease is active, not even the owner moves or cancels."""
    for one in history:
        if one.lease is None or one.topic != event.topic or not one.precedes(event):
            continue
        used = [other for other in history if other.token == one.lease and other.outcome != "lost"]
        if event.over_ms < one.lease.until_ms:
            assert any(other.could_precede(event) for other in used), f"{event} in the lease of {one}"


def _lease(event: Event) -> Lease:
    assert event.lease is not None
    return event.lease


# --- the rows ---------------------------------------------------------------------------------------------------------


def check_left(left: Left) -> None:
    """Nothing is left behind: no bundle without messages, no id without its message, no message without its id."""
    alive = dict(left.alive())
    standing = {spot.bundle for spot in left.spots}
    assert standing == left.bundles.keys(), "bundles and spots"
    assert not [spot for spot in left.spots if not spot.is_on_line], "not pruned"
    for (topic, id), life in left.places.items():
        assert life[0] in left.bundles, f"the id {id!r} leads nowhere"
        assert left.id_of(life) == id, f"the id {id!r} leads to another message"
        if life in alive:
            assert left.topics[alive[life].topic] == topic, f"the id {id!r} leads to another topic"
    for life, spot in alive.items():
        topic = left.topics[spot.topic]
        if left.bundles[life[0]] is not None:
            led = left.places.get((topic, left.id_of(life)))
            assert led == life or topic == DEAD, f"{left.id_of(life)!r} is not found by its id"


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


def in_buckets(id: str, buckets: range, of: int) -> bool:
    """Whether a message is one of these buckets."""
    return bucket_of(id, of) in buckets
