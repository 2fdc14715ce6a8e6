"""How long nothing went on after a fault, and whether that was too long.

    fault        injured ├──────────┤ mended
    lane 2  ·  · ·  · ·      ·                          · ·  ·        a dot: something went on
                             ├────────── gap ───────────┤
                                    └─── counted ───────┤             from the mend on, or from the injury

Faults overlap. A gap is blamed on one of those that it overlaps: the one that allows it to last longest, unless the gap
was too long already when that fault came. A fault whose gaps are all blamed on others is not measured.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.faults.plan import WORKERS, Fault, kind_of

__all__ = ["ARRIVALS", "Gap", "Happening", "Recovery", "Stall", "gaps_of", "recoveries", "stalls"]

#: Shorter than that is how the path goes on: measurements come in micro-batches, once in a second or two.
NOTED_S: Final = 2.0
#: For how long after its mend a fault may be the reason of a gap that begins only then: its rest, and at least so long.
AFTER_S: Final = 5.0
#: Without any fault, as a kind has them.
QUIET_LIMIT_S, QUIET_WORK_S = 5.0, 5.0
#: Streams whose names begin so are lanes: parcels of theirs arrive.
ARRIVALS: Final = "lane "


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing went on in a stream: a lane, or the link of a part to the database."""

    stream: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Happening:
    """A fault as it came about."""

    fault: Fault
    injured_s: float
    mended_s: float

    def counts_from_s(self, stream: str) -> float:
        """Return from when its time in a stream is limited. A frozen part says nothing itself until it goes on."""
        is_mute = self.fault.target == stream or kind_of(self.fault).since == "mend"
        return self.mended_s if is_mute else self.injured_s

    def allowed_s(self, busy: float) -> float:
        """Return how long a lane may then be without progress, at `busy` runnable processes per processor."""
        kind = kind_of(self.fault)
        return kind.limit_s + kind.work_s * busy

    def explains(self, gap: Gap, busy: float) -> bool:
        """Whether it may be the reason of a gap. What was under way may still arrive before Spark is missed."""
        if not (gap.stream.startswith(ARRIVALS) or _touches(self.fault, gap.stream)):
            return False
        after_s = max(AFTER_S, kind_of(self.fault).rest_s * busy)
        return self.injured_s < gap.to_s and gap.from_s < self.mended_s + after_s


@dataclass(frozen=True, slots=True)
class Stall:
    """A gap, and the fault that it is blamed on."""

    gap: Gap
    #: None if no fault explains it.
    cause: Happening | None
    #: How much of the gap comes after the injury; and how much of it counts, and may be.
    lasted_s: float
    counted_s: float
    allowed_s: float

    @property
    def is_too_long(self) -> bool:
        """Whether progress should have come sooner."""
        return self.counted_s > self.allowed_s

    def __str__(self) -> str:
        what = "no fault" if self.cause is None else str(self.cause.fault).strip()
        return (
            f"{self.gap.stream} without progress from {self.gap.from_s:.1f} s to {self.gap.to_s:.1f} s, "
            f"{self.counted_s:.1f} s of at most {self.allowed_s:.1f} s, after {what}"
        )


def gaps_of(stream: str, moments: Sequence[float], from_s: float, to_s: float) -> Iterator[Gap]:
    """The times between one moment and the next, from here to there, that are worth noting."""
    inside = [one for one in moments if from_s < one < to_s]
    # What began before the end may be over only after it.
    ends = [one for one in moments if one >= to_s][:1] or [to_s]
    for before, after in pairwise([from_s, *inside, *ends]):
        if after - before >= NOTED_S:
            yield Gap(stream, before, after)


def stalls(gaps: Iterable[Gap], happenings: Sequence[Happening], busy: float) -> list[Stall]:
    """Each gap with its cause, and how long it may be on a machine on which `busy` processes want each processor."""
    found = (_stall(gap, happenings, busy) for gap in gaps)
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class Recovery:
    """A fault, and the longest time without progress that is blamed on it."""

    #: Of its kind, as a table has it.
    name: str
    lasted_s: float
    counted_s: float
    limit_s: float
    since: str
    #: Whether all it may have caused is blamed on others: then it was not measured.
    is_hidden: bool = False


def recoveries(happenings: Iterable[Happening], found: Sequence[Stall]) -> Iterator[Recovery]:
    """Each fault with its longest stall."""
    for one in happenings:
        kind, mine = kind_of(one.fault), [stall for stall in found if stall.cause is one]
        explained = any(stall.cause is not one and one.explains(stall.gap, 1) for stall in found)
        longest = max((stall.lasted_s for stall in mine), default=0.0)
        counted = max((stall.counted_s for stall in mine), default=0.0)
        yield Recovery(one.fault.name, longest, counted, kind.limit_s, kind.since, not mine and explained)


def _stall(gap: Gap, happenings: Sequence[Happening], busy: float) -> Stall | None:
    causes = sorted((one for one in happenings if one.explains(gap, busy)), key=lambda one: one.injured_s)
    # The link of a part is idle when the part is: without a fault that says nothing.
    if not causes and not gap.stream.startswith(ARRIVALS):
        return None
    cause, until_s = None, gap.from_s + QUIET_LIMIT_S + QUIET_WORK_S * busy
    for one in causes:
        if one.injured_s > until_s:
            break  # it was too long already
        reaches_s = max(gap.from_s, one.counts_from_s(gap.stream)) + one.allowed_s(busy)
        if reaches_s > until_s:
            cause, until_s = one, reaches_s
    if cause is None:
        length_s = gap.to_s - gap.from_s
        return Stall(gap, None, length_s, length_s, until_s - gap.from_s)
    counted_s = max(gap.to_s - max(gap.from_s, cause.counts_from_s(gap.stream)), 0.0)
    return Stall(gap, cause, gap.to_s - max(gap.from_s, cause.injured_s), counted_s, cause.allowed_s(busy))


def _touches(fault: Fault, part: str) -> bool:
    """Whether a fault may silence the link of a part to the database."""
    others = [one for one in (*WORKERS, "driver", "service") if one != part]
    return fault.target not in others
