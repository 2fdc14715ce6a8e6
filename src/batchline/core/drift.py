"""Stage 4: whose clock is wrong.

Processes compare clocks by way of the database: each notes how far its own is ahead of the database's. The database's
clock is the reference, unless a majority of all clocks, the database's among them, agrees on another time. A host has
one vote, however many processes run or ran on it. There is one reference at a time, so all processes that may write
agree with each other, within twice the drift that is allowed:

    hosts ahead by (s)        reference     degraded
    0  0  0                   the database  none
    3600                      the database  this host: one clock against one
    0  3600                   the database  the second
    0  3600 3600              the database  the second and the third: two clocks against two
    3600 3600 3600            3600          none: three clocks against the database's
    0  3600 3600 3600         3600          the first: it agrees with a database that is wrong
    0  0  3600 3600 3600      the database  the last three: three clocks against three
    3600 7200 -900            the database  all of them: no majority agrees on anything
"""

from collections.abc import Collection, Iterable
from statistics import median
from typing import Final, NamedTuple

__all__ = ["Reading", "Vote", "ahead_ms", "reference_ms", "stepped_us", "votes_by_host"]

#: Fewer hosts never outvote the database's clock.
FEWEST_HOSTS: Final = 3


class Vote(NamedTuple):
    """What a process on a host has noted of its clock."""

    host: str
    #: When it did, by the database's clock.
    seen_ms: int
    ahead_ms: int


class Reading(NamedTuple):
    """A reading of the clock on the wall, between two readings of a steady one."""

    wall_us: int
    steady_us: int
    #: How long it took, by the steady clock. A process can be stopped in between.
    took_us: int


def ahead_ms(before_ms: int, shown_ms: int, after_ms: int) -> int:
    """Return how far a clock is at least ahead of the database's, which was read between two readings of the clock.

    Negative for a clock that is behind. 0 if it may be right: a slow answer makes no clock wrong.
    """
    return min(max(shown_ms, before_ms), after_ms) - shown_ms


def votes_by_host(votes: Iterable[Vote]) -> dict[str, int]:
    """Return how far each host is ahead: what the last of its processes has noted, for it has replaced the others.

    A vote without a host does not count: processes before this rule have noted none.
    """
    ordered = sorted(votes, key=lambda vote: vote.seen_ms)
    return {vote.host: vote.ahead_ms for vote in ordered if vote.host}


def reference_ms(hosts_ahead_ms: Collection[int], max_drift_ms: int) -> float:
    """Return how far the right time is ahead of the database's clock: 0 unless a majority of all clocks outvotes it."""
    hosts = len(hosts_ahead_ms)
    if hosts < FEWEST_HOSTS:
        return 0.0
    middle = median(hosts_ahead_ms)
    agreeing = sum(abs(one - middle) <= max_drift_ms for one in hosts_ahead_ms)
    is_outvoted = 2 * agreeing > hosts + 1 and abs(middle) > max_drift_ms
    return float(middle) if is_outvoted else 0.0


def stepped_us(then: Reading, now: Reading) -> int:
    """Return how far the clock on the wall was set between two readings: what it moved more than the steady one."""
    moved_us, steady_us = now.wall_us - then.wall_us, now.steady_us - then.steady_us
    least_us, most_us = steady_us - then.took_us, steady_us + now.took_us
    return moved_us - min(max(moved_us, least_us), most_us)
