"""What consumers do with messages, on any store: each verb a function of the rows of one transaction."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Final

from batchline.core.bundle import LARGEST_BUNDLE, Bundle, narrowed
from batchline.core.item_group import indexes_of
from batchline.core.message import (
    AnyLease,
    Held,
    Lease,
    LeasedMessage,
    Outcome,
    OutcomeWord,
    as_lease,
    bucket_of,
    moment_ms,
)
from batchline.core.spot import Spot, Together, mask_of
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.core.topic import Topic
from batchline.stores.bodies import bundles_in_parts, content_bounds, first_within, spots_within
from batchline.stores.burying import bury, dead_letter_of
from batchline.stores.line import LineChanges
from batchline.stores.owning import find_places, spot_with
from batchline.stores.timeline_rows import (
    BEFORE_ALL,
    Due,
    Key,
    Stretch,
    TimelineRows,
    TriedSpot,
    WholeSpot,
    stretch_of,
)

__all__ = [
    "FIRST_SPOTS",
    "Leasing",
    "alive_places",
    "covers",
    "done_leases",
    "extend_leases",
    "is_active",
    "lease_messages",
    "lease_one_message",
    "leased_messages",
    "release_leases",
    "resume_leases",
    "take_over_leases",
    "topics_of",
]

#: Spots that are asked for first, whatever the limit: most have many messages, and then a few are enough.
FIRST_SPOTS: Final = 8
#: Spots that one call may take or bury, however few messages are left for it.
MOST_SPOTS: Final = 20_000

#: What the history says of a lease that a newer session of the same consumer took over.
TAKEN_OVER: Final = "the consumer was started again"

#: Bundle, spot, version, consumer and the name of the topic.
Group = tuple[int, int, int, str, str]


@dataclass(slots=True)
class Leasing:
    """What a consumer asks for."""

    topic: Topic
    consumer: str
    buckets: range
    limit: int
    until_ms: int
    now_ms: int
    #: How many messages a spot has, and bytes its bundle, more or less: what was seen last.
    spot_size: float = 1.0
    spot_bytes: float = LARGEST_BUNDLE
    #: The session of the consumer, if it has one.
    session: int | None = None
    #: The dead-letter topic, if there is one that takes messages.
    dead_letter: Topic | None = None
    #: Bytes that the bodies of what is found have at most, unless it is one message alone.
    max_bytes: int = LEASED_BYTES
    found: list[LeasedMessage] = field(default_factory=list)
    bytes: int = 0
    #: Whether the next message was too large for what is left of `max_bytes`.
    is_full: bool = False

    @property
    def missing(self) -> int:
        """How many messages are still wanted."""
        return 0 if self.is_full else self.limit - len(self.found)

    @property
    def room(self) -> int:
        """How many bytes of bodies are still wanted."""
        return max(self.max_bytes - self.bytes, 0)

    def ask(self) -> int:
        """How many spots to ask for: if they are as large as those before, with a quarter more than are missing."""
        by_bytes = FIRST_SPOTS + int(1.25 * self.room / self.spot_bytes)
        return min(self.missing, FIRST_SPOTS + int(1.25 * self.missing / self.spot_size), by_bytes)

    def wanted(self, spots: Iterable[Spot], bundle: Bundle) -> int:
        """Choose the messages of a bundle's spots that it may have: in its buckets, and no more than are missing."""
        bits = 0
        for spot in spots:
            bits |= self.inside(spot, bundle)
        if bits.bit_count() > self.missing:
            bits = mask_of(indexes_of(bits)[: self.missing])
        return self.fitting(bits, bundle)

    def fitting(self, bits: int, bundle: Bundle) -> int:
        """Choose the first of a bundle's messages that have room; a message that is the first of all always has."""
        chosen = 0
        for place in indexes_of(bits):
            size = len(bundle.bodies[place])
            if size > self.room and (self.found or chosen):
                self.is_full = True
                break
            chosen |= 1 << place
            self.bytes += size
        return chosen

    def inside(self, spot: Spot, bundle: Bundle) -> int:
        """Choose the messages of a spot that are in its buckets."""
        ids, buckets = bundle.ids, self.topic.buckets
        if ids is None or covers(self.buckets, spot):
            return spot.bits
        return mask_of(place for place in indexes_of(spot.bits) if bucket_of(ids[place], buckets) in self.buckets)

    def is_exhausted(self, spot: Spot) -> bool:
        """Whether messages were leased as often as they may be, so that they are dead letters."""
        return self.dead_letter is not None and self.topic.is_exhausted(spot.attempts)


def covers(buckets: range, spot: Spot) -> bool:
    """Whether all messages of a spot are in these buckets."""
    return spot.low_bucket in buckets and spot.high_bucket in buckets


# --- lease ------------------------------------------------------------------------------------------------------------


def lease_messages(rows: TimelineRows, leasing: Leasing, numbers: Iterator[int]) -> list[LeasedMessage]:
    """Lease messages that are available, the oldest first; those that were leased too often are buried instead."""
    leasing.dead_letter = dead_letter_of(rows, leasing.topic)
    line, seen = LineChanges(numbers), set[Key]()
    stretch = stretch_of(leasing.topic, leasing.buckets, leasing.now_ms)
    after, ask = BEFORE_ALL, leasing.ask()
    while leasing.missing and len(seen) < MOST_SPOTS:
        due = rows.due(stretch, after, ask)
        is_end = len(due) < ask
        chosen = _enough(due, leasing.missing)
        if not chosen:
            break
        if chosen[-1] is due[-1] and not is_end:
            chosen += _rest_of_bundle(rows, stretch, chosen[-1])
        leasing.spot_size = sum(one.size for one in chosen) / len(chosen)
        held = rows.hold_due([one.key for one in chosen], leasing.now_ms)
        # One that was buried since it was read is due as well, on another topic; one that was leased for a moment and
        # is due again stands further on, and is met twice.
        new = [spot for spot in held if spot.topic == leasing.topic.number and spot.key not in seen]
        _lease(rows, leasing, line, new)
        seen.update(spot.key for spot in new)
        if is_end and len(chosen) >= len(due):
            break
        after, ask = chosen[-1], leasing.ask()
    line.write(rows)
    return leasing.found


def _enough(due: Sequence[Due], missing: int) -> list[Due]:
    """Choose as many of the oldest as hold what is missing, with all of the last one's bundle that are due together."""
    chosen: list[Due] = []
    for one in due:
        if missing <= 0 and one.together != chosen[-1].together:
            break
        chosen.append(one)
        missing -= one.size
    return chosen


def _rest_of_bundle(rows: TimelineRows, stretch: Stretch, last: Due) -> list[Due]:
    """Read on as long as spots are due together with the last one: their messages come in order of creation."""
    rest: list[Due] = []
    while True:
        due = rows.due(stretch, rest[-1] if rest else last, FIRST_SPOTS)
        together = [one for one in due if one.together == last.together]
        rest += together
        if len(together) < FIRST_SPOTS:
            return rest


def _lease(rows: TimelineRows, leasing: Leasing, line: LineChanges, spots: Iterable[Spot]) -> None:
    groups: dict[Together, list[Spot]] = {}
    for spot in spots:
        groups.setdefault(spot.together, []).append(spot)
    keys = sorted(groups)
    numbers, begin = [bundle for _, _, bundle in keys], 0
    sizes = content_bounds(rows, [spot for some in groups.values() for spot in some], leasing.room)
    while begin < len(keys) and leasing.missing:
        end = first_within(numbers, begin, sizes, leasing.room)
        bundles = rows.bundles_by_number(set(numbers[begin:end]))
        leasing.spot_bytes = max(sum(sum(map(len, one.bodies)) for one in bundles.values()) / (end - begin), 1.0)
        for key in keys[begin:end]:
            if leasing.missing:
                _lease_bundle(rows, leasing, line, groups[key], bundles[key[2]])
        begin = end


def _lease_bundle(
    rows: TimelineRows, leasing: Leasing, line: LineChanges, spots: Sequence[Spot], bundle: Bundle
) -> None:
    """Lease messages of a bundle that are due together, in order of creation: by their places."""
    exhausted = [spot for spot in spots if leasing.is_exhausted(spot)]
    for spot in exhausted:
        _lease_due(rows, leasing, line, spot, bundle, leasing.inside(spot, bundle))
    fit = [spot for spot in spots if spot not in exhausted] if exhausted else spots
    wanted, already = leasing.wanted(fit, bundle), len(leasing.found)
    for spot in fit:
        _lease_due(rows, leasing, line, spot, bundle, spot.bits & wanted)
    if len(fit) > 1:
        leasing.found[already:] = sorted(leasing.found[already:], key=attrgetter("place"))


def _lease_due(rows: TimelineRows, leasing: Leasing, line: LineChanges, spot: Spot, bundle: Bundle, mask: int) -> None:
    """Lease messages that are due; their last lease, if they had one, ran out."""
    if mask:
        line.note_lost(spot, mask)
        _take_or_bury(rows, leasing, line, spot, bundle, mask)


def _take_or_bury(
    rows: TimelineRows, leasing: Leasing, line: LineChanges, spot: Spot, bundle: Bundle, mask: int
) -> None:
    if leasing.dead_letter is not None and leasing.is_exhausted(spot):
        bury(rows, line, leasing.topic, leasing.dead_letter, spot, bundle, mask, leasing.now_ms)
    else:
        _take(leasing, line, spot, bundle, mask)


def _take(leasing: Leasing, line: LineChanges, spot: Spot, bundle: Bundle, mask: int) -> None:
    def become(part: Spot) -> Spot:
        leased = part.leased(leasing.consumer, leasing.session, leasing.until_ms)
        return leased if part.bits == spot.bits else narrowed(leased, bundle, leasing.topic.buckets)

    leased = line.change(spot, mask, become)
    leasing.found += leased_messages(leasing.topic.name, leased, bundle, spot.at_ms)


def leased_messages(topic: str, spot: Spot, bundle: Bundle, at_ms: int) -> list[LeasedMessage]:
    """The messages of a spot that is leased, and was due at that moment."""
    lease = (spot.version, spot.consumer or "", spot.at_ms, spot.bundle, spot.number)
    held = Held(topic, *lease, spot.attempts, bundle.owner, at_ms, bundle.all_ids(), bundle.bodies)
    return [LeasedMessage(held, place) for place in indexes_of(spot.bits)]


def lease_one_message(
    rows: TimelineRows, leasing: Leasing, id: str, version: int, numbers: Iterator[int]
) -> LeasedMessage | None:
    """Lease one message, if it is available and still has this version; one leased too often is buried instead."""
    place = find_places(rows, leasing.topic, [id]).get(id)
    spot = None if place is None else spot_with(rows.hold_spots_of([place[0]]), leasing.topic, place[1])
    if place is None or spot is None or spot.version != version or not spot.is_available(leasing.now_ms):
        return None
    bundle = rows.bundles_by_number([spot.bundle])[spot.bundle]
    line, mask = LineChanges(numbers), 1 << place[1]
    leasing.dead_letter = dead_letter_of(rows, leasing.topic)
    _lease_due(rows, leasing, line, spot, bundle, mask)
    line.write(rows)
    return leasing.found[0] if leasing.found else None


def take_over_leases(
    rows: TimelineRows, leasing: Leasing, live: Callable[[], Collection[int]], numbers: Iterator[int]
) -> list[LeasedMessage]:
    """Lease anew what sessions of the same consumer have leased that are not alive: their leases are void.

    `live` reads which are. A session is noted before it leases, so it is read after the leases: none is missed.
    It takes over as much as `max_bytes` allows: the next call goes on, and finds nothing when there is no more.
    """
    leasing.dead_letter = dead_letter_of(rows, leasing.topic)
    found = rows.leased_spots(leasing.topic.number, leasing.consumer, leasing.now_ms)
    alive = live() if found else ()
    theirs = sorted((spot for spot in found if spot.session not in alive), key=attrgetter("together", "number"))
    line = LineChanges(numbers)
    for part in spots_within(rows, theirs, leasing.max_bytes) if theirs else ():
        _take_over(rows, leasing, line, [spot.key for spot in part], live)
        if leasing.found:
            break
    line.write(rows)
    return leasing.found


def resume_leases(
    rows: TimelineRows,
    topic: Topic,
    consumer: str,
    sessions: Collection[int],
    session: int,
    now_ms: int,
    numbers: Iterator[int],
) -> None:
    """Give leases of sessions of a consumer to another that goes on with them: they end as before, and are no attempt.

    The leases before are void, so that of two connections only the last one holds the messages.
    """

    def is_theirs(spot: Spot) -> bool:
        return spot.session in sessions and spot.is_leased(now_ms)

    found = rows.leased_spots(topic.number, consumer, now_ms)
    theirs = [spot.key for spot in found if is_theirs(spot)]
    line = LineChanges(numbers)
    for spot in rows.hold_spots(theirs).values() if theirs else ():
        if is_theirs(spot) and (spot.consumer, spot.topic) == (consumer, topic.number):
            line.change(spot, spot.bits, partial(Spot.resumed, session=session))
    line.write(rows)


def _take_over(
    rows: TimelineRows, leasing: Leasing, line: LineChanges, keys: Sequence[Key], live: Callable[[], Collection[int]]
) -> None:
    held = sorted(rows.hold_spots(keys).values(), key=attrgetter("together", "number"))
    alive = live() if held else ()  # another may have taken them over meanwhile
    spots = [
        one
        for one in held
        if one.is_leased(leasing.now_ms)
        and one.session not in alive
        and (one.consumer, one.topic) == (leasing.consumer, leasing.topic.number)
    ]
    for some, bundles in bundles_in_parts(rows, spots, leasing.max_bytes) if spots else ():
        for spot in some:
            line.note_attempt(spot, spot.bits, leasing.now_ms, "lost", TAKEN_OVER)
            _take_or_bury(rows, leasing, line, spot, bundles[spot.bundle], spot.bits)


# --- with a lease -----------------------------------------------------------------------------------------------------


def extend_leases(
    rows: TimelineRows,
    leases: Sequence[Lease],
    topics: Mapping[str, Topic],
    until_ms: Mapping[str, int],
    now_ms: int,
    numbers: Iterator[int],
    *,
    again: bool = False,
) -> list[Outcome]:
    """Hold messages for longer, by topic until when; each gets a new lease. `again` if it may have been done before."""
    held = _Held(rows, leases, now_ms, topics)
    line = LineChanges(numbers)

    def extend(spot: Spot, mask: int, lease: Lease) -> Spot:
        return line.change(spot, mask, partial(Spot.extended, until_ms=until_ms[lease.topic]))

    outcomes = held.each("extended", extend)
    line.write(rows)
    lost = _lost(leases, outcomes) if again else {}
    for spot in rows.spots_of({lease.bundle for lease in lost.values()}) if lost else ():
        for index, lease in lost.items():
            if (
                (spot.bundle, spot.at_ms) == (lease.bundle, until_ms[lease.topic])
                and spot.bits >> lease.place & 1
                and spot.is_held(lease.version + 1, lease.consumer, now_ms)
            ):
                new = lease._replace(version=spot.version, until_ms=spot.at_ms, spot=spot.number)
                outcomes[index] = Outcome(lease.id, "extended", new)
    return outcomes


def release_leases(
    rows: TimelineRows,
    leases: Sequence[Lease],
    at_ms: int,
    reason: str,
    now_ms: int,
    numbers: Iterator[int],
) -> list[Outcome]:
    """Give messages back, to be offered again at a moment not in the past. Releasing again succeeds."""
    topics = topics_of(rows, leases)
    latest_ms = {name: topic.latest_ms(now_ms) for name, topic in topics.items()}
    far = {name: moment_ms(latest).isoformat() for name, latest in latest_ms.items() if at_ms > latest}
    near = [lease for lease in leases if lease.topic not in far]
    held = _Held(rows, near, now_ms, topics)
    line = LineChanges(numbers)

    def release(spot: Spot, mask: int, _: Lease) -> None:
        line.note_attempt(spot, mask, now_ms, "released", reason)
        line.change(spot, mask, partial(Spot.moved, at_ms=max(at_ms, now_ms)))

    outcomes = held.each("released", release)
    line.write(rows)
    lost = _lost(near, outcomes)
    tried = rows.attempts_of({lease.bundle for lease in lost.values()}) if lost else []
    for index, lease in lost.items():
        if any(_has_released(one, lease) for one in tried):
            outcomes[index] = Outcome(lease.id, "released")
    rest = iter(outcomes)
    return [
        Outcome(lease.id, "too_far", reason=f"the topic takes messages up to {far[lease.topic]}")
        if lease.topic in far
        else next(rest)
        for lease in leases
    ]


def _has_released(tried: TriedSpot, lease: Lease) -> bool:
    """Whether an attempt is the one of a lease, and its consumer gave the message back."""
    same = (tried.bundle, tried.version, tried.consumer) == (lease.bundle, lease.version, lease.consumer)
    return same and tried.ending == "released" and tried.bits >> lease.place & 1 == 1


def _lost(leases: Sequence[Lease], outcomes: Sequence[Outcome]) -> dict[int, Lease]:
    return {index: leases[index] for index, outcome in enumerate(outcomes) if outcome.outcome == "lost"}


def done_leases(rows: TimelineRows, given: Sequence[AnyLease], now_ms: int, numbers: Iterator[int]) -> list[Outcome]:
    """Finish messages. What is gone already is done; what somebody else may have is not."""
    groups = _groups(given)
    whole = [
        WholeSpot(*group[:3], mask_of([given[index].place for index in indexes]), *group[3:])
        for group, indexes in groups.items()
    ]
    if rows.end_spots(whole, now_ms) == len(whole):
        return [Outcome(lease.id, "done") for lease in given]
    # Those that were whole are gone by now, which is as good as done.
    leases = [as_lease(lease) for lease in given]
    held = _Held(rows, leases, now_ms)
    line = LineChanges(numbers)

    def finish(spot: Spot, mask: int, _: Lease) -> None:
        line.change(spot, mask, partial(Spot.done, now_ms=now_ms))

    outcomes = held.each("done", finish)
    line.write(rows)
    lost = _lost(leases, outcomes)
    if lost:
        alive = alive_places(rows, lost.values())
        for index, lease in lost.items():
            if not alive.get(lease.bundle, 0) >> lease.place & 1:
                outcomes[index] = Outcome(lease.id, "done")
    return outcomes


def alive_places(rows: TimelineRows, leases: Iterable[Lease]) -> dict[int, int]:
    """Of the bundles of leases, the places whose messages are still there, whoever has them now."""
    alive: dict[int, int] = {}
    for spot in rows.spots_of({lease.bundle for lease in leases}):
        if spot.is_on_line:
            alive[spot.bundle] = alive.get(spot.bundle, 0) | spot.bits
    return alive


def is_active(rows: TimelineRows, lease: Lease, now_ms: int) -> bool:
    """Whether a lease holds; if it does, its message stays as it is until the transaction ends."""
    (outcome,) = _Held(rows, [lease], now_ms).each("leased", lambda *_: None)
    return outcome.outcome == "leased"


def topics_of(rows: TimelineRows, leases: Iterable[Lease]) -> dict[str, Topic]:
    """Return the topics that leases name, those that are there."""
    names = dict.fromkeys(lease.topic for lease in leases)
    return {name: topic for name in names if (topic := rows.topic(name))}


class _Held:
    """The spots of leases, held, and which of the leases are active. A lease is good for its own topic only."""

    def __init__(
        self, rows: TimelineRows, leases: Sequence[Lease], now_ms: int, topics: Mapping[str, Topic] | None = None
    ):
        self._leases = leases
        self._now_ms = now_ms
        self._groups = _groups(leases)
        self._spots = rows.hold_spots(list({group[:2] for group in self._groups})) if leases else {}
        self._topics = topics_of(rows, leases) if topics is None else topics

    def each(self, word: OutcomeWord, act: Callable[[Spot, int, Lease], Spot | None]) -> list[Outcome]:
        """Act once on each spot with active leases; the outcome of those is the word, of others that they are lost."""
        leases = self._leases
        outcomes = [Outcome(lease.id, word) for lease in leases]
        for (bundle, number, version, consumer, topic), indexes in self._groups.items():
            spot, known, new, active = self._spots.get((bundle, number)), self._topics.get(topic), None, 0
            is_there = spot is not None and known is not None and spot.topic == known.number
            if spot is not None and is_there and spot.is_held(version, consumer, self._now_ms):
                active = mask_of([leases[index].place for index in indexes]) & spot.bits
                new = act(spot, active, leases[indexes[0]]) if active else None
            if new is not None or active.bit_count() < len(indexes):
                for index in indexes:
                    outcomes[index] = _outcome(leases[index], word, active, new)
        return outcomes


def _groups(leases: Sequence[AnyLease]) -> dict[Group, list[int]]:
    """The indexes of leases by bundle, spot, version, consumer and topic."""
    groups: dict[Group, list[int]] = {}
    last, indexes = None, []
    for index, lease in enumerate(leases):
        if isinstance(lease, LeasedMessage):
            held = lease[0]
            if held is last:  # leased together, and mostly finished together
                indexes.append(index)
                continue
            last, group = held, (held.bundle, held.spot, held.version, held.consumer, held.topic)
        else:
            last, group = None, (lease.bundle, lease.spot, lease.version, lease.consumer, lease.topic)
        indexes = groups.setdefault(group, [])
        indexes.append(index)
    return groups


def _outcome(lease: Lease, word: OutcomeWord, active: int, new: Spot | None) -> Outcome:
    if not active >> lease.place & 1:
        return Outcome(lease.id, "lost", reason="the lease has ended, or was used before")
    if new is None:
        return Outcome(lease.id, word)
    return Outcome(lease.id, word, lease._replace(version=new.version, until_ms=new.at_ms, spot=new.number))
