"""What became of parcels that a worker had leased, on any store: told to tracker, timeline and lanes at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, Literal

from batchline.core.ack import Asked, collect_items
from batchline.core.consignment import Consignment
from batchline.core.fanout import Ending
from batchline.core.message import AnyLease, Outcome, as_lease
from batchline.core.topic import Topic
from batchline.stores.lane_rows import LaneRow
from batchline.stores.leasing import alive_places, done_leases, is_active
from batchline.stores.letters import dead_letter_id, dead_letter_topic, put_letters
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, told
from batchline.stores.topics import known_topic
from batchline.stores.tracking import finish_items

__all__ = ["Delivery", "Settled", "settle_deliveries"]

Lanes = Mapping[tuple[str, int], LaneRow]
#: Why a parcel is not settled that no lane has.
UNPUBLISHED: Final = "it was not published"
#: What a delivery tells: something new, what was told before, or what another has made void.
News = Literal["first", "repeated", "void"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A parcel that was sent, by its lease, and what its receiver did not take of it."""

    lease: AnyLease
    parcel: Consignment
    #: What was refused for good, with its reason: it becomes a dead letter.
    dead: Consignment | None = None
    #: What is to be sent again, and how long from now; until that has arrived the lane waits.
    rest: Consignment | None = None
    rest_after_ms: int = 0
    #: Under which id: one that no message of the parcel has had.
    rest_id: str = ""


@dataclass(slots=True)
class Settled:
    """What that led to."""

    outcomes: list[Outcome]
    #: Fanouts that this call, and no other, completed or made fail.
    endings: list[Ending] = field(default_factory=list)


def settle_deliveries(
    rows: Rows,
    topic: str,
    producer_group: str,
    deliveries: Sequence[Delivery],
    numbers: Iterator[int],
    call: Call,
) -> Settled:
    """Note that parcels have arrived: their items done, their messages gone, their lanes that much further.

    What was not published is `lost`, whatever the parcel says: no lane goes further than it is published.
    """
    known, now_ms = known_topic(rows, topic), call.now_us // 1_000
    lanes = _hold_lanes(rows, known, deliveries)
    unpublished = {one.lease.id for one in deliveries if not _is_published(one.parcel, lanes)}
    if unpublished:
        rest = [one for one in deliveries if one.lease.id not in unpublished]
        settled = settle_deliveries(rows, topic, producer_group, rest, numbers, call)
        said = {one.id: one for one in settled.outcomes}
        outcomes = [said.get(one.lease.id) or Outcome(one.lease.id, "lost", reason=UNPUBLISHED) for one in deliveries]
        return Settled(outcomes, settled.endings)
    alive = alive_places(rows, [as_lease(one.lease) for one in deliveries])
    news = [_news(rows, one, lanes, alive, now_ms) for one in deliveries]
    first = [one for one, word in zip(deliveries, news, strict=True) if word == "first"]
    _move_lanes(rows, known, lanes, [one.parcel for one in first if one.rest is None])
    endings = _finish(rows, [one for one, word in zip(deliveries, news, strict=True) if word != "void"], call)
    outcomes = done_leases(rows, [one.lease for one in deliveries], now_ms, numbers)
    _write(rows, known, producer_group, lanes, first, call.now_us, numbers)
    return Settled(outcomes, endings)


def _hold_lanes(rows: Rows, topic: Topic, deliveries: Sequence[Delivery]) -> Lanes:
    """The lanes of parcels: nobody else tells what became of them until the transaction ends."""
    wanted: dict[str, set[int]] = {}
    for one in deliveries:
        wanted.setdefault(one.parcel.publication, set()).add(one.parcel.lane)
    return {
        (publication, row.lane): row
        for publication, lanes in sorted(wanted.items())
        for row in rows.hold_lanes(topic.number, publication, sorted(lanes))
    }


def _is_published(parcel: Consignment, lanes: Lanes) -> bool:
    lane = lanes.get((parcel.publication, parcel.lane))
    return lane is not None and parcel.number <= lane.published


def _news(rows: Rows, one: Delivery, lanes: Lanes, alive: Mapping[int, int], now_ms: int) -> News:
    """Whether a delivery is the first to tell what became of its parcel.

    Several may have sent it, each after the one before had lost its lease. If all of it has come to an end, whoever
    tells so first is right, with or without the lease; unless another has made something else of the message, so that
    what is left of the parcel is on its way. If some is to be sent again, only who has the lease may say so.
    """
    lane, lease = lanes[one.parcel.publication, one.parcel.lane], as_lease(one.lease)
    if lane.delivered >= one.parcel.number:
        return "repeated"
    if one.rest is not None:
        return "first" if is_active(rows, lease, now_ms) else "void"
    return "first" if alive.get(lease.bundle, 0) >> lease.place & 1 else "void"


def _move_lanes(rows: Rows, topic: Topic, lanes: Lanes, parcels: Sequence[Consignment]) -> None:
    moved: dict[tuple[str, int], LaneRow] = {}
    for parcel in sorted(parcels, key=attrgetter("number")):
        key = (parcel.publication, parcel.lane)
        moved[key] = lanes[key]._replace(delivered=parcel.number)
    for publication, some in groupby(sorted(moved), itemgetter(0)):
        rows.write_lanes(topic.number, publication, [moved[key] for key in some])


def _finish(rows: Rows, deliveries: Sequence[Delivery], call: Call) -> list[Ending]:
    """Acknowledge the items of whole parcels; what was refused has failed, for its reason."""
    by_reason: dict[str | None, list[str]] = {}
    for one in deliveries:
        if one.parcel.item is not None and one.rest is None:
            # What is left of a parcel bears the reason why something of it was refused before.
            why = one.parcel.reason if one.dead is None else one.dead.reason
            by_reason.setdefault(why or None, []).append(one.parcel.item)
    endings: list[Ending] = []
    for reason, items in by_reason.items():
        asked: list[Asked] = sorted(collect_items(items).asked, key=attrgetter("slot"))
        if asked:
            endings += finish_items(rows, asked, reason, call).endings
    return list(dict.fromkeys([*endings, *told(rows, call.id)])) if by_reason else []


def _write(
    rows: Rows,
    topic: Topic,
    producer_group: str,
    lanes: Lanes,
    left: Sequence[Delivery],
    now_us: int,
    numbers: Iterator[int],
) -> None:
    """Put what is left of parcels where it belongs."""
    dead = [(dead_letter_id(one.lease.id), one.dead.as_body()) for one in left if one.dead is not None]
    if dead:
        letters = dead_letter_topic(rows, topic)
        put_letters(rows, letters, producer_group, dead, now_us // 1_000, now_us, numbers)
    rests = sorted((one for one in left if one.rest is not None), key=attrgetter("rest_after_ms"))
    for after_ms, some in groupby(rests, attrgetter("rest_after_ms")):
        again = [(one.rest_id, _signed(one.rest, lanes)) for one in some if one.rest is not None]
        put_letters(rows, topic, producer_group, again, now_us // 1_000 + after_ms, now_us, numbers)


def _signed(rest: Consignment, lanes: Lanes) -> bytes:
    """What is left of a parcel as a body, signed as the parcel was."""
    return rest.as_body(secret=lanes[rest.publication, rest.lane].secret)
