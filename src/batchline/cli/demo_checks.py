"""What is said at the end of the demo, and whether it is so: functions of records, each of which has another source.

what the receiver keeps ─┐
the results of Spark ────┼──► statements, each true or not
tracker and timeline ────┘
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from batchline.cli.demo_receiver import Arrival, Identity
from batchline.core.fanout import FanoutStatus
from batchline.core.moment import us_of

__all__ = [
    "Statement",
    "accounted",
    "arrived_once",
    "in_order",
    "known_again",
    "largest_second",
    "most_a_second",
    "nothing_else",
    "same_as_library",
    "told_once",
    "within_capacity",
]

#: How many examples of what is wrong are named.
NAMED: Final = 3
#: What a dispatcher may hand out within a second beyond its capacity: a flush of 20 ms, and 9 ms of a late one.
BEYOND_S: Final = 0.029


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, and whether it is true; if not, why."""

    holds: bool
    said: str
    why_not: str = ""


def _stated(said: str, *wrong: str) -> Statement:
    """True if nothing is wrong."""
    found = [one for one in wrong if one]
    return Statement(not found, said, "; ".join(found))


def _some(things: Collection[object], what: str) -> str:
    """What is wrong with so many things, the first of them by name; nothing without any."""
    if not things:
        return ""
    named = ", ".join(str(one) for one in islice(sorted(things, key=str), NAMED))
    return f"{len(things):,} {what}: {named}{', …' if len(things) > NAMED else ''}"


def _us(identity: Identity) -> tuple[str, str, int, int]:
    """With its event time as a number: the same moment may be written in more than one way."""
    key, type_, event_time, sequence = identity
    return key, type_, us_of(datetime.fromisoformat(event_time)), sequence


Known = tuple[str, str, int, int]


def arrived_once(accepted: Iterable[Known], held: Mapping[str, Iterable[Identity]]) -> Statement:
    """Every measurement that was accepted is at the receiver, once."""
    arrived = Counter(_us(one) for parcel in held.values() for one in parcel)
    wanted = Counter(accepted)
    return _stated(
        f"each of {wanted.total():,} accepted measurements arrived exactly once",
        _some({one for one, count in wanted.items() if count > 1}, "were accepted more than once"),
        _some(wanted.keys() - arrived.keys(), "have not arrived"),
        _some({one for one in wanted if arrived[one] > 1}, "arrived more than once"),
    )


def nothing_else(accepted: Iterable[Known], held: Mapping[str, Iterable[Identity]]) -> Statement:
    """Nothing but accepted measurements is at the receiver."""
    arrived = {_us(one) for parcel in held.values() for one in parcel}
    return _stated("nothing else arrived", _some(arrived - set(accepted), "arrived and were not accepted"))


def in_order(arrivals: Iterable[Arrival]) -> Statement:
    """The parcels of each lane came first in the order of their numbers, from 1 on, without a gap."""
    lanes: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for one in arrivals:
        if one.is_first:
            lanes[one.publication, one.lane].append(one.number)
    wrong = {f"lane {lane}" for (_, lane), numbers in lanes.items() if numbers != list(range(1, len(numbers) + 1))}
    parcels = sum(len(numbers) for numbers in lanes.values())
    return _stated(f"{parcels:,} parcels of {len(lanes)} lanes arrived in order, lane by lane", _some(wrong, "did not"))


def accounted(lines: int, landed: Collection[int], fates: Mapping[str, Sequence[int]], malformed: int) -> Statement:
    """Every line is batched, rejected with a reason, or malformed; measurements are known by their sequence."""
    counted = Counter(one for sequences in fates.values() for one in sequences)
    total = counted.total() + malformed
    rejected = sum(len(sequences) for fate, sequences in fates.items() if fate != "batched")
    named = f"{len(fates.get('batched', ())):,} batched, {rejected:,} rejected, {malformed:,} malformed"
    return _stated(
        f"each of {lines:,} lines is accounted for: {named}",
        _some(set(landed) - counted.keys(), "measurements are nowhere"),
        _some({one for one, count in counted.items() if count > 1}, "measurements are in more than one place"),
        _some(counted.keys() - set(landed), "measurements were never landed"),
        "" if total == lines else f"{total:,} are accounted for",
    )


def same_as_library(expected: Mapping[int, str | None], got: Mapping[int, str | None], batches: int) -> Statement:
    """By the sequence of each measurement, its batch or the reason why it is in none."""
    other = {one for one in expected.keys() | got.keys() if expected.get(one) != got.get(one)}
    said = f"message by message, the library gives the same {batches:,} batches, ids and reasons as Spark"
    return _stated(said, _some(other, "measurements are elsewhere"))


def told_once(told: Sequence[str], fanouts: Sequence[FanoutStatus], parcels: int) -> Statement:
    """Exactly one message says that the one fanout is complete, and the tracker agrees about all its parcels."""
    acked, failed = sum(one.acked for one in fanouts), sum(one.failed for one in fanouts)
    return _stated(
        f"completion was told once, when all of {parcels:,} parcels were acknowledged",
        "" if len(told) == 1 else f"it was told {len(told)} times",
        "" if [one.id for one in fanouts] == list(dict.fromkeys(told)) else f"told were {', '.join(told) or 'none'}",
        "" if all(one.state == "complete" for one in fanouts) else "the tracker does not say that it is complete",
        "" if (acked, failed) == (parcels, 0) else f"{acked:,} are acknowledged and {failed:,} refused",
    )


def most_a_second(capacity: float, largest: int, under_way: int) -> float:
    """The most that may come within a second: what is handed out, one parcel of debt, and what was under way before."""
    return capacity * (1 + BEYOND_S) + largest * (1 + under_way)


def largest_second(arrivals: Sequence[Arrival]) -> int:
    """The most measurements that came within any second, taken or not."""
    window: deque[Arrival] = deque()
    inside = most = 0
    for one in arrivals:
        window.append(one)
        inside += one.count
        while window[0].at_s <= one.at_s - 1:
            inside -= window.popleft().count
        most = max(most, inside)
    return most


def within_capacity(arrivals: Sequence[Arrival], capacity: float, largest: int, under_way: int) -> Statement:
    """Never more than the capacity came within a second, whichever second one looks at."""
    most, allowed = largest_second(arrivals), most_a_second(capacity, largest, under_way)
    return _stated(
        f"at most {most:,} measurements came within a second: capacity {capacity:,.0f}, bound {allowed:,.0f}",
        "" if most <= allowed else f"{most - allowed:,.0f} more than the bound",
    )


def known_again(arrivals: Sequence[Arrival]) -> Statement:
    """Each parcel whose connection was cut came again, and was known."""
    answers = Counter(one.answer for one in arrivals)
    cut = {one.parcel for one in arrivals if one.answer == "cut"}
    again = {one.parcel for one in arrivals if one.answer == "repeated"}
    return _stated(
        f"the receiver answered 429 × {answers['throttled']:,}, 500 × {answers['failed']:,}, and cut × "
        f"{answers['cut']:,}: {len(again):,} parcels came twice, and were known",
        _some(cut - again, "parcels were cut and never came again"),
    )
