"""What must be true after a run, whatever has happened in it: each rule tells what breaks it, in sentences."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.faults.evidence import Evidence, Row

__all__ = ["confirmed", "violations"]

#: Examples that are named.
SHOWN: Final = 5
#: For these reasons a measurement may be refused by stage 1.
VERDICTS: Final = ("late", "future", "duplicate")


def violations(evidence: Evidence) -> list[str]:
    """All that is wrong; nothing, if all is well."""
    return [f"{rule.__doc__} {found}" for rule in RULES for found in rule(evidence)]


def confirmed(log: Sequence[Sequence[Any]]) -> set[int]:
    """The numbers that a broker has promised to keep.

    Mosquitto answers first and writes then, but it writes before it reads on: what was acknowledged is safe when
    something is acknowledged, on the same connection, that was sent only after that.
    """
    safe: set[int] = set()
    acked: list[tuple[int, int]] = []
    sent: dict[int, int] = {}
    for place, (what, *rest) in enumerate(log):
        if what == "sent":
            sent[rest[0]] = place
        elif what == "connected":
            acked = []
        elif what == "acked":
            safe |= {number for number, at in acked if at < sent[rest[0]]}
            acked = [(number, at) for number, at in acked if number not in safe]
            acked.append((rest[0], place))
    return safe


def _everything_landed(evidence: Evidence) -> Iterator[str]:
    """What the broker has promised to keep has landed:"""
    landed = {row.number for row in evidence.landed} | set(evidence.malformed)
    yield from _some("missing", confirmed(evidence.device) - landed)


def _one_fate(evidence: Evidence) -> Iterator[str]:
    """A row that has landed was refused, has arrived or is a dead letter, one of these and once:"""
    landed = Counter(row.sequence for row in evidence.landed)
    fates = Counter(row.sequence for row in (*evidence.rejected, *evidence.arrived, *evidence.dead))
    yield from _some("landed twice", (one for one, count in landed.items() if count > 1))
    yield from _some("without a fate", landed.keys() - fates.keys())
    yield from _some("out of nowhere", fates.keys() - landed.keys())
    yield from _some("with several fates", (one for one, count in fates.items() if count > 1))


def _once(evidence: Evidence) -> Iterator[str]:
    """A measurement arrives once, by its id, in one parcel:"""
    times = Counter(row.id for row in (*evidence.arrived, *evidence.dead))
    yield from _some("more than once", (one for one, count in times.items() if count > 1))


def _refused_for_a_reason(evidence: Evidence) -> Iterator[str]:
    """A row is refused because it is late, from the future, or a copy of one that was accepted:"""
    accepted = {row.id for row in (*evidence.arrived, *evidence.dead)}
    yield from _some("for another reason", (row for row in evidence.rejected if row.verdict not in VERDICTS))
    copies = (row for row in evidence.rejected if row.verdict == "duplicate" and row.id not in accepted)
    yield from _some("copies of nothing", copies)


def _in_order(evidence: Evidence) -> Iterator[str]:
    """The parcels of a lane arrive in order, without a gap:"""
    lanes: dict[int, list[int]] = {}
    for parcel in evidence.parcels:
        lanes.setdefault(parcel.lane, []).append(parcel.number)
    dead = {(parcel.lane, parcel.number) for parcel in evidence.dead_parcels}
    for lane, numbers in sorted(lanes.items()):
        yield from _some(f"lane {lane} out of order", _falls(numbers))
        last = max(numbers)
        gaps = (number for number in range(1, last) if number not in numbers and (lane, number) not in dead)
        yield from _some(f"lane {lane} without", gaps)


def _told_once(evidence: Evidence) -> Iterator[str]:
    """Each fanout is complete, and told so once:"""
    told = Counter(evidence.completed)
    yield from _some(
        "not complete", (f"{name} is {state}" for name, state in evidence.fanouts.items() if state != "complete")
    )
    yield from _some("not told", evidence.fanouts.keys() - told.keys())
    yield from _some("told of nothing", told.keys() - evidence.fanouts.keys())
    yield from _some("told more than once", (name for name, count in told.items() if count > 1))


def _nothing_left(evidence: Evidence) -> Iterator[str]:
    """Nothing is left:"""
    yield from (f"{count:,} {what}" for what, count in evidence.left.items() if count)


def _counted(evidence: Evidence) -> Iterator[str]:
    """What the driver has counted is what was there:"""
    rejected = Counter(row.verdict for row in evidence.rejected)
    there = {"read": len(evidence.landed), "batched": len(evidence.arrived) + len(evidence.dead)} | rejected
    counted = {name: count for name, count in evidence.counted.items() if count}
    yield from _some("counted and there", [f"{counted} and {there}"] if counted != there else [])


def _refused_on_purpose(evidence: Evidence) -> Iterator[str]:
    """There are dead letters only if the receiver has refused parcels:"""
    if not evidence.refused_on_purpose:
        yield from _some("dead", [row.id for row in evidence.dead])


def _strays_apart(evidence: Evidence) -> Iterator[str]:
    """A parcel that publishing has not made becomes a dead letter, as a stray and once, and nothing else:"""
    dead = Counter(evidence.dead_strays)
    yield from _some("arrived", evidence.arrived_strays)
    yield from _some("taken for parcels", evidence.mistaken_strays)
    yield from _some("nowhere", set(evidence.strays) - dead.keys())
    yield from _some("more than once", (mark for mark, count in dead.items() if count > 1))


def _unharmed(evidence: Evidence) -> Iterator[str]:
    """A process with a wrong clock changes nothing that others share:"""
    yield from evidence.harm


def _recovered(evidence: Evidence) -> Iterator[str]:
    """After each fault every lane goes on in time:"""
    yield from (str(stall) for stall in evidence.stalls if stall.is_too_long)


RULES: Final[tuple[Callable[[Evidence], Iterable[str]], ...]] = (
    _everything_landed,
    _one_fate,
    _once,
    _refused_for_a_reason,
    _in_order,
    _told_once,
    _nothing_left,
    _counted,
    _refused_on_purpose,
    _strays_apart,
    _unharmed,
    _recovered,
)


def _falls(numbers: Sequence[int]) -> Iterator[str]:
    for before, after in pairwise(numbers):
        if after < before:
            yield f"{after} after {before}"


def _some(what: str, found: Iterable[int | str | Row | tuple[str, ...]]) -> Iterator[str]:
    all_found = sorted(map(str, found))
    if all_found:
        yield f"{what}: {len(all_found):,}, such as {', '.join(all_found[:SHOWN])}"
