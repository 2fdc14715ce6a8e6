"""What consumers do with messages, on any store: each verb a function of the rows of one transaction."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from batchline.core.bundle import Bundle, narrowed
from batchline.core.item_group import indexes_of
from batchline.core.message import Lease, LeasedMessage, Outcome, OutcomeWord, Upcoming, bucket_of, moment_ms
from batchline.core.spot import Spot, mask_of, segment_of, segments_of
from batchline.core.topic import Topic, span_ms
from batchline.stores.line import LineChanges
from batchline.stores.owning import find_places, spot_with
from batchline.stores.timeline_rows import BEFORE_ALL, Due, Key, Stretch, TimelineRows, WholeSpot

__all__ = [
    "Leasing",
    "bury_expired",
    "done_leases",
    "extend_leases",
    "held_messages",
    "lease_messages",
    "lease_one_message",
    "next_due_ms",
    "release_leases",
    "upcoming_messages",
]

#: Spots that are asked for first, whatever the limit: most have many messages, and then a few are enough.
FIRST_SPOTS: Final = 8


@dataclass(slots=True)
class Leasing:
    """What a consumer asks for."""

    topic: Topic
    consumer: str
    buckets: range
    limit: int
    until_ms: int
    now_ms: int
    #: The dead-letter topic, if there is one that takes messages.
    dead_letter: Topic | None = None
    found: list[LeasedMessage] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """How many messages are still wanted."""
        return self.limit - len(self.found)

    def stretch(self) -> Stretch:
        """Where to look."""
        segments = segments_of(self.buckets.start, self.buckets.stop - 1, self.topic.buckets)
        return Stretch(self.topic.number, segments, self.buckets, 0, self.now_ms)

    def wanted(self, spot: Spot, bundle: Bundle) -> int:
        """The messages of a spot that it may have: in its buckets, and no more than are missing."""
        bits = spot.bits
        if bundle.ids is not None and not _covers(self.buckets, spot):
            inside = (place for place in indexes_of(bits) if self._has(bundle.ids[place]))
            bits = mask_of(inside)
        return mask_of(indexes_of(bits)[: self.missing]) if bits.bit_count() > self.missing else bits

    def _has(self, id: str) -> bool:
        return bucket_of(id, self.topic.buckets) in self.buckets


def _covers(buckets: range, spot: Spot) -> bool:
    return spot.low_bucket in buckets and spot.high_bucket in buckets


# --- lease ------------------------------------------------------------------------------------------------------------


def lease_messages(rows: TimelineRows, leasing: Leasing, numbers: Iterator[int]) -> list[LeasedMessage]:
    """Lease messages that are available, the oldest first; those that were leased too often are buried instead."""
    leasing.dead_letter = _dead_letter(rows, leasing.topic)
    line, seen = LineChanges(numbers), set[Key]()
    after, ask = BEFORE_ALL, min(leasing.limit, FIRST_SPOTS + leasing.limit // 8)
    while leasing.missing:
        due = rows.due(leasing.stretch(), after, ask)
        chosen = _enough(due, leasing.missing)
        if not chosen:
            break
        held = rows.hold_due([one.key for one in chosen], leasing.now_ms)
        # One that was buried since it was read is due as well, on another topic; one that was leased for a moment and
        # is due again stands further on, and is met twice.
        new = [spot for spot in held if spot.topic == leasing.topic.number and spot.key not in seen]
        _lease(rows, leasing, line, new)
        seen.update(spot.key for spot in new)
        if len(chosen) == len(due) < ask:
            break
        after, ask = chosen[-1], _next_ask(due, leasing.missing)
    line.write(rows)
    return leasing.found


def _next_ask(due: Sequence[Due], missing: int) -> int:
    """How many spots to ask for next, if they hold as many messages each as those before, and a quarter more."""
    spots = len(due) * missing // sum(one.size for one in due)
    return min(missing, FIRST_SPOTS + spots + spots // 4)


def _enough(due: Sequence[Due], missing: int) -> list[Due]:
    """As many of the oldest as hold what is missing."""
    chosen: list[Due] = []
    for one in due:
        if missing <= 0:
            break
        chosen.append(one)
        missing -= one.size
    return chosen


def _lease(rows: TimelineRows, leasing: Leasing, line: LineChanges, spots: Sequence[Spot]) -> None:
    bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
    for spot in sorted(spots, key=_order):
        bundle = bundles[spot.bundle]
        mask = leasing.wanted(spot, bundle)
        if not mask:
            continue
        line.note_lost(spot, mask)
        if leasing.dead_letter is not None and leasing.topic.is_exhausted(spot.attempts):
            _bury(rows, line, leasing.topic, leasing.dead_letter, spot, bundle, mask, leasing.now_ms)
        else:
            _take(leasing, line, spot, bundle, mask)


def _order(spot: Spot) -> tuple[int, int, int, int]:
    return spot.at_ms, spot.turn, spot.bundle, spot.number


def _take(leasing: Leasing, line: LineChanges, spot: Spot, bundle: Bundle, mask: int) -> None:
    def become(part: Spot) -> Spot:
        leased = part.leased(leasing.consumer, leasing.until_ms)
        return leased if part.bits == spot.bits else narrowed(leased, bundle, leasing.topic.buckets)

    leased = line.change(spot, mask, become)
    leasing.found += _leased_messages(leasing.topic.name, leased, bundle, spot.at_ms)


def _leased_messages(topic: str, spot: Spot, bundle: Bundle, at_ms: int) -> Iterator[LeasedMessage]:
    ids, bodies, attempts, owner = bundle.all_ids(), bundle.bodies, spot.attempts, bundle.owner
    version, consumer, until_ms, number, key = spot.version, spot.consumer or "", spot.at_ms, spot.bundle, spot.number
    for place in indexes_of(spot.bits):
        id = ids[place]
        lease = Lease(topic, id, version, consumer, until_ms, number, key, place)
        yield LeasedMessage(id, bodies[place], lease, attempts, owner, at_ms)


def _dead_letter(rows: TimelineRows, topic: Topic) -> Topic | None:
    """The dead-letter topic, if there is one that takes messages."""
    found = None if topic.dead_letter is None else rows.topic(topic.dead_letter)
    return None if found is None or found.deleted else found


def bury_expired(rows: TimelineRows, topic: Topic, now_ms: int, limit: int, numbers: Iterator[int]) -> int:
    """Bury messages whose last allowed lease has run out; tells how many spots there were."""
    dead = _dead_letter(rows, topic)
    if dead is None or topic.max_attempts is None:
        return 0
    line = LineChanges(numbers)
    spots = rows.hold_exhausted(topic.number, topic.max_attempts, now_ms, limit)
    bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
    for spot in spots:
        line.note_lost(spot, spot.bits)
        _bury(rows, line, topic, dead, spot, bundles[spot.bundle], spot.bits, now_ms)
    line.write(rows)
    return len(spots)


def _bury(
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
        ids = {bundle.ids[place]: place for place in buckets}
        # On a topic that is a dead-letter topic itself, another message may have the id.
        found = rows.message_ids(topic.number, list(ids))
        rows.delete_message_ids(topic.number, [id for id, at in found.items() if at == (bundle.number, ids[id])])
        # An id that is taken there stays with the message that has it; this one is leased, and not found by its id.
        rows.insert_message_ids(dead.number, sorted((id, bundle.number, place) for id, place in ids.items()))


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
    line.note_lost(spot, mask)
    dead = _dead_letter(rows, leasing.topic)
    if dead is not None and leasing.topic.is_exhausted(spot.attempts):
        _bury(rows, line, leasing.topic, dead, spot, bundle, mask, leasing.now_ms)
    else:
        _take(leasing, line, spot, bundle, mask)
    line.write(rows)
    return leasing.found[0] if leasing.found else None


# --- with a lease -----------------------------------------------------------------------------------------------------


def extend_leases(
    rows: TimelineRows,
    leases: Sequence[Lease],
    until_ms: Mapping[str, int],
    now_ms: int,
    numbers: Iterator[int],
    *,
    again: bool = False,
) -> list[Outcome]:
    """Hold messages for longer, by topic until when; each gets a new lease. `again` if it may have been done before."""
    held = _Held(rows, leases, now_ms)
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
    *,
    again: bool = False,
) -> list[Outcome]:
    """Give messages back, to be offered again at a moment not in the past. `again` if it may have been done before."""
    topics = {name: rows.topic(name) for name in dict.fromkeys(lease.topic for lease in leases)}
    latest_ms = {name: now_ms + span_ms(topic.max_ahead) for name, topic in topics.items() if topic}
    far = {name: moment_ms(latest).isoformat() for name, latest in latest_ms.items() if at_ms > latest}
    near = [lease for lease in leases if lease.topic not in far]
    held = _Held(rows, near, now_ms)
    line = LineChanges(numbers)

    def release(spot: Spot, mask: int, _: Lease) -> None:
        line.note_attempt(spot, mask, now_ms, "released", reason)
        line.change(spot, mask, partial(Spot.moved, at_ms=max(at_ms, now_ms)))

    outcomes = held.each("released", release)
    line.write(rows)
    for index, lease in (_lost(near, outcomes) if again else {}).items():
        for tried in rows.attempts_of(lease.bundle):
            ended = (tried.consumer, tried.ending, tried.ended_ms)
            if tried.bits >> lease.place & 1 and ended == (lease.consumer, "released", now_ms):
                outcomes[index] = Outcome(lease.id, "released")
    rest = iter(outcomes)
    return [
        Outcome(lease.id, "too_far", reason=f"the topic takes messages up to {far[lease.topic]}")
        if lease.topic in far
        else next(rest)
        for lease in leases
    ]


def _lost(leases: Sequence[Lease], outcomes: Sequence[Outcome]) -> dict[int, Lease]:
    return {index: leases[index] for index, outcome in enumerate(outcomes) if outcome.outcome == "lost"}


def done_leases(rows: TimelineRows, leases: Sequence[Lease], now_ms: int, numbers: Iterator[int]) -> list[Outcome]:
    """Finish messages. What is gone already is done; what somebody else may have is not."""
    groups = _groups(leases)
    whole = [
        WholeSpot(*group[:3], mask_of([leases[index].place for index in indexes]), group[3])
        for group, indexes in groups.items()
    ]
    if rows.end_spots(whole, now_ms) == len(whole):
        return [Outcome(lease.id, "done") for lease in leases]
    # Those that were whole are gone by now, which is as good as done.
    held = _Held(rows, leases, now_ms)
    line = LineChanges(numbers)

    def finish(spot: Spot, mask: int, _: Lease) -> None:
        line.change(spot, mask, partial(Spot.ended, now_ms=now_ms))

    outcomes = held.each("done", finish)
    line.write(rows)
    lost = _lost(leases, outcomes)
    if lost:
        alive: dict[int, int] = {}
        for spot in rows.spots_of({lease.bundle for lease in lost.values()}):
            alive[spot.bundle] = alive.get(spot.bundle, 0) | spot.bits  # one that has ended has none
        for index, lease in lost.items():
            if not alive.get(lease.bundle, 0) >> lease.place & 1:
                outcomes[index] = Outcome(lease.id, "done")
    return outcomes


class _Held:
    """The spots of leases, held, and which of the leases are active."""

    def __init__(self, rows: TimelineRows, leases: Sequence[Lease], now_ms: int):
        self._leases = leases
        self._now_ms = now_ms
        self._groups = _groups(leases)
        self._spots = rows.hold_spots(list({group[:2] for group in self._groups})) if leases else {}

    def each(self, word: OutcomeWord, act: Callable[[Spot, int, Lease], Spot | None]) -> list[Outcome]:
        """Act once on each spot with active leases; the outcome of those is the word, of others that they are lost."""
        leases = self._leases
        outcomes = [Outcome(lease.id, word) for lease in leases]
        for (bundle, number, version, consumer), indexes in self._groups.items():
            spot, new, active = self._spots.get((bundle, number)), None, 0
            if spot is not None and spot.is_held(version, consumer, self._now_ms):
                active = mask_of([leases[index].place for index in indexes]) & spot.bits
                new = act(spot, active, leases[indexes[0]]) if active else None
            if new is not None or active.bit_count() < len(indexes):
                for index in indexes:
                    outcomes[index] = _outcome(leases[index], word, active, new)
        return outcomes


def _groups(leases: Sequence[Lease]) -> dict[tuple[int, int, int, str], list[int]]:
    """The indexes of leases by bundle, spot, version and consumer."""
    groups: dict[tuple[int, int, int, str], list[int]] = {}
    for index, (_, _, version, consumer, _, bundle, spot, _) in enumerate(leases):
        group = (bundle, spot, version, consumer)
        if group in groups:
            groups[group].append(index)
        else:
            groups[group] = [index]
    return groups


def _outcome(lease: Lease, word: OutcomeWord, active: int, new: Spot | None) -> Outcome:
    if not active >> lease.place & 1:
        return Outcome(lease.id, "lost", reason="the lease has ended, or was used before")
    if new is None:
        return Outcome(lease.id, word)
    return Outcome(lease.id, word, lease._replace(version=new.version, until_ms=new.at_ms, spot=new.number))


# --- look -------------------------------------------------------------------------------------------------------------


def held_messages(rows: TimelineRows, topics: Iterable[Topic], consumer: str, now_ms: int) -> list[LeasedMessage]:
    """The messages that a consumer has active leases on, so that it can go on with them."""
    found: list[LeasedMessage] = []
    for topic in topics:
        spots = rows.leased_spots(topic.number, consumer, now_ms)
        bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
        for spot in spots:
            found += _leased_messages(topic.name, spot, bundles[spot.bundle], spot.at_ms)
    return found


def upcoming_messages(rows: TimelineRows, stretch: Stretch, topic: Topic, limit: int) -> list[Upcoming]:
    """The messages on a stretch of the line, the oldest first, with their versions; nothing is leased."""
    found: list[Upcoming] = []
    for spots in _spots_along(rows, stretch, max(limit, FIRST_SPOTS)):
        bundles = rows.bundles_by_number({spot.bundle for spot in spots}) if spots else {}
        for spot in spots:
            if spot.bundle in bundles:  # else it was removed a moment ago
                ids = _ids_in(stretch.buckets, spot, bundles[spot.bundle], topic)
                found += [Upcoming(id, spot.version, spot.at_ms) for id in ids]
        if len(found) >= limit:
            break
    return found[:limit]


def next_due_ms(rows: TimelineRows, stretch: Stretch, topic: Topic) -> int | None:
    """When the next message on a stretch of the line is due."""
    if len(stretch.buckets) == topic.buckets:
        due = rows.due(stretch, BEFORE_ALL, 1)
        return due[0].at_ms if due else None
    for spots in _spots_along(rows, stretch, FIRST_SPOTS):
        for spot in spots:
            # One that reaches over these buckets may have no message in them: who waited for it would never rest.
            if _covers(stretch.buckets, spot):
                return spot.at_ms
            bundle = rows.bundles_by_number([spot.bundle]).get(spot.bundle)
            if bundle is not None and _ids_in(stretch.buckets, spot, bundle, topic):
                return spot.at_ms
    return None


def _ids_in(buckets: range, spot: Spot, bundle: Bundle, topic: Topic) -> list[str]:
    ids = (bundle.id_of(place) for place in indexes_of(spot.bits))
    return [id for id in ids if bucket_of(id, topic.buckets) in buckets]


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
