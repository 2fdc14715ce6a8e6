"""What became of parcels that a worker had leased, on any store: told to tracker, timeline and lanes at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final

from batchline.core.ack import Asked, collect_items
from batchline.core.consignment import Consignment, message_id
from batchline.core.fanout import Ending
from batchline.core.message import AnyLease, CheckedMessages, Outcome
from batchline.core.topic import Topic
from batchline.stores.leasing import done_leases
from batchline.stores.owning import Creation, create_messages
from batchline.stores.rows import Rows
from batchline.stores.topics import known_topic
from batchline.stores.tracking import finish_items, told

__all__ = ["DEAD", "Delivery", "Settled", "dead_letters_of", "settle_deliveries"]

#: What is added to a topic's name for the parcels that nobody takes.
DEAD: Final = "-dead"
#: How far in the future what is left of a parcel may stand, whatever its topic allows.
LONGEST_PAUSE: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A parcel that was sent, by its lease, and what its receiver did not take of it."""

    lease: AnyLease
    parcel: Consignment
    #: What was refused for good, with its reason: it becomes a dead letter.
    dead: Consignment | None = None
    #: What is to be sent again, and when; until that has arrived the lane stands.
    rest: Consignment | None = None
    rest_at_ms: int = 0
    #: Under which id: one that no message of the parcel has had.
    rest_id: str = ""


@dataclass(slots=True)
class Settled:
    """What that led to."""

    outcomes: list[Outcome]
    #: Fanouts that this call, and no other, completed or made fail.
    endings: list[Ending] = field(default_factory=list)


def dead_letters_of(topic: str) -> str:
    """The topic to which parcels go that nobody takes."""
    return f"{topic}{DEAD}"


def settle_deliveries(
    rows: Rows,
    topic: str,
    producer_group: str,
    deliveries: Sequence[Delivery],
    now_us: int,
    numbers: Iterator[int],
    call_id: str,
) -> Settled:
    """Note that parcels have arrived: their items done, their messages gone, their lanes that much further."""
    known = known_topic(rows, topic)
    whole = [one for one in deliveries if one.rest is None]
    _move_lanes(rows, known, [one.parcel for one in whole])
    endings = _finish(rows, whole, now_us, call_id)
    outcomes = done_leases(rows, [one.lease for one in deliveries], now_us // 1_000, numbers)
    _write(rows, known, producer_group, deliveries, outcomes, now_us, numbers)
    return Settled(outcomes, endings)


def _move_lanes(rows: Rows, topic: Topic, parcels: Sequence[Consignment]) -> None:
    reached: dict[str, dict[int, int]] = {}
    for parcel in parcels:
        lanes = reached.setdefault(parcel.publication, {})
        lanes[parcel.lane] = max(parcel.number, lanes.get(parcel.lane, 0))
    for publication, lanes in sorted(reached.items()):
        held = rows.hold_lanes(topic.number, publication, sorted(lanes))
        moved = [row._replace(delivered=lanes[row.lane]) for row in held if row.delivered < lanes[row.lane]]
        if moved:
            rows.write_lanes(topic.number, publication, moved)


def _finish(rows: Rows, whole: Sequence[Delivery], now_us: int, call_id: str) -> list[Ending]:
    """Acknowledge the items of parcels; what was refused has failed, for its reason."""
    by_reason: dict[str | None, list[str]] = {}
    for one in whole:
        if one.parcel.item is not None:
            reason = one.dead.reason if one.dead is not None else None
            by_reason.setdefault(reason, []).append(one.parcel.item)
    endings: list[Ending] = []
    for reason, items in by_reason.items():
        asked: list[Asked] = sorted(collect_items(items).asked, key=attrgetter("slot"))
        if asked:
            endings += finish_items(rows, asked, reason, now_us, call_id).endings
    return list(dict.fromkeys([*endings, *told(rows, call_id)])) if by_reason else []


def _write(
    rows: Rows,
    topic: Topic,
    producer_group: str,
    deliveries: Sequence[Delivery],
    outcomes: Sequence[Outcome],
    now_us: int,
    numbers: Iterator[int],
) -> None:
    """Put what is left of parcels where it belongs; not of a lease that was lost: whoever has it now will do so."""
    ours = [one for one, outcome in zip(deliveries, outcomes, strict=True) if outcome.outcome == "done"]
    dead = {_id(one.parcel): one.dead for one in ours if one.dead is not None}
    if dead:
        name = dead_letters_of(topic.name)
        if rows.topic(name) is None:
            rows.insert_topic(Topic(name, buckets=topic.buckets))
        _create(rows, known_topic(rows, name), producer_group, dead, now_us // 1_000, now_us, numbers)
    rests = sorted((one for one in ours if one.rest is not None), key=attrgetter("rest_at_ms"))
    for at_ms, some in groupby(rests, attrgetter("rest_at_ms")):
        left = {one.rest_id: one.rest for one in some if one.rest is not None}
        _create(rows, topic, producer_group, left, at_ms, now_us, numbers)


def _create(
    rows: Rows,
    topic: Topic,
    producer_group: str,
    parcels: Mapping[str, Consignment],
    at_ms: int,
    now_us: int,
    numbers: Iterator[int],
) -> None:
    bodies = [parcel.as_body() for parcel in parcels.values()]
    checked = CheckedMessages(list(parcels), [at_ms] * len(parcels), bodies, [0] * len(parcels))
    creation = Creation(topic.name, producer_group, checked, now_us)
    # Neither a limit for producers nor how far ahead they may look keeps it away.
    free = replace(topic, rate_limit=None, max_ahead=max(topic.max_ahead, LONGEST_PAUSE))
    owner = rows.producer_group(producer_group)
    outcomes = create_messages(rows, free, owner, creation, numbers)
    taken = [place for place, outcome in enumerate(outcomes) if outcome.outcome == "conflict"]
    if taken:
        # Somebody has used the id for something else: better another id than no message.
        left = len(taken)
        again = CheckedMessages([""] * left, [at_ms] * left, [bodies[place] for place in taken], [0] * left)
        create_messages(rows, free, owner, replace(creation, messages=again), numbers)


def _id(parcel: Consignment) -> str:
    return message_id(parcel.publication, parcel.lane, parcel.number)
