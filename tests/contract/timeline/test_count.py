"""Counting by state, in ranges, and the load of the future: as counted one by one, whatever has been summed."""

import random

import pytest

from batchline import NewMessage, Store, Timeline
from batchline.core.future_load import SLICE_MS
from batchline.core.message import ms_of
from tests.contract.timeline.line import Line, leases_of, prune
from tests.doubles import HandClock

FEW, MANY = 2 * SLICE_MS + 777, 40 * SLICE_MS


def counted(line: Line, begin: int, end: int) -> tuple[int, int, int]:
    """Message by message."""
    states = [one.state for one in line.messages() if one.topic == line.topic and begin <= ms_of(one.at) < end]
    return states.count("waiting"), states.count("processing"), states.count("available")


def told(line: Line, begin: int, end: int) -> tuple[int, int, int]:
    found = line.timeline.count(line.topic, begin, end)
    assert found.total == found.waiting + found.processing + found.available
    return found.waiting, found.processing, found.available


def ranges(line: Line, chance: random.Random) -> list[tuple[int, int]]:
    """Ranges that begin and end at, before and after now, slices and messages."""
    now = line.now
    slice_begin = (now // SLICE_MS + 1) * SLICE_MS
    marks = [0, now - 1, now, now + 1, slice_begin - 1, slice_begin, slice_begin + 1, slice_begin + 3 * SLICE_MS]
    marks += [now + FEW, now + MANY, now - MANY, 10**14]
    marks += [ms_of(chance.choice(line.messages()).at) + chance.choice((0, 1)) for _ in range(3)]
    return [(chance.choice(marks), chance.choice(marks)) for _ in range(25)]


def check_all(line: Line, chance: random.Random) -> None:
    for begin, end in ranges(line, chance):
        assert told(line, begin, end) == counted(line, begin, end)


def live_through(line: Line, chance: random.Random) -> None:
    """Something of everything happens, over slices before and after now."""
    ids = [f"m{number}" for number in range(150)]
    new = [NewMessage(at=line.now + chance.randint(-MANY, MANY), id=id) for id in ids]
    line.timeline.create(line.topic, new, producer_group=line.group)
    line.move(**{id: line.now + chance.randint(-FEW, FEW) for id in ids[:40]})
    line.cancel(*ids[30:50])
    leases = leases_of(line.lease(limit=40))
    line.timeline.done(leases[:5])
    line.timeline.release(leases[5:10], line.now + FEW)
    line.timeline.extend(leases[10:15])
    line.wait(60_000)  # the others are lost


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_are_those_of_the_messages_before_and_after_they_are_summed(fresh_line: Line, seed: int) -> None:
    line, chance = fresh_line, random.Random(seed)
    live_through(line, chance)
    check_all(line, chance)
    prune(line.timeline._store, line.clock)
    check_all(line, chance)
    line.cancel(*(one.id for one in line.messages()[:20]))
    line.move(**{one.id: line.now + 5 for one in line.messages()[40:60]})
    check_all(line, chance)
    prune(line.timeline._store, line.clock)
    prune(line.timeline._store, line.clock)
    check_all(line, chance)


def test_a_range_has_its_beginning_and_not_its_end(line: Line) -> None:
    line.create("a", at=line.now + 10)
    now = line.now
    assert [told(line, now + 10, now + 11), told(line, now + 9, now + 10), told(line, now + 11, now + 99)] == [
        (1, 0, 0),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert told(line, now + 10, now + 10) == told(line, now + 11, now + 5) == (0, 0, 0)


@pytest.mark.parametrize(("off", "state"), [(-1, (1, 0, 0)), (0, (0, 0, 1)), (1, (0, 0, 1))])
def test_the_state_is_that_of_now(line: Line, off: int, state: tuple[int, int, int]) -> None:
    at = line.now + 1_000
    line.create("a", at=at)
    line.until(at + off)
    assert line.counts() == state


@pytest.mark.parametrize(("off", "state"), [(-1, (0, 1, 0)), (0, (0, 0, 1)), (1, (0, 0, 1))])
def test_a_lease_that_ends_makes_it_available(line: Line, off: int, state: tuple[int, int, int]) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    assert line.counts() == state
    assert told(line, lease.until_ms, lease.until_ms + 1) == state


def test_a_topic_counts_its_own(line: Line) -> None:
    other = Line(line.timeline, line.clock).make()
    line.create("a", "b")
    other.create("a", at=line.now + 1)
    assert (line.counts(), other.counts()) == ((0, 0, 2), (1, 0, 0))


# --- load -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "length", "bins"),
    [
        (0, 60_000, 60),
        (0, FEW, 7),
        (1, SLICE_MS, 1),
        (12_345, SLICE_MS + 1, 1),
        (0, MANY, 10),
        (0, MANY, 40),
        (777, MANY, 39),
        (-5_000, MANY + 9, 3),
        (0, 1, 1),
        (0, 10, 100),
    ],
)
def test_the_load_is_that_of_the_messages_that_wait(
    fresh_line: Line, clock: HandClock, begin: int, length: int, bins: int
) -> None:
    line, chance = fresh_line, random.Random(begin + length)
    live_through(line, chance)
    first, last = line.now + begin, line.now + begin + length
    free = [ms_of(one.at) for one in line.messages() if one.consumer is None]
    lost = [ms_of(one.at) for one in line.messages() if one.attempts and one.state == "available"]
    for _ in range(2):
        load = line.timeline.load(line.topic, from_=first, to=last, bins=bins)
        assert (ms_of(load.bins[0].begin), ms_of(load.bins[-1].end)) == (first, last)
        assert load.messages_per_second is None
        for one in load.bins:
            inside = range(ms_of(one.begin), ms_of(one.end))
            most = sum(at in inside for at in free)
            assert most - sum(at in inside for at in lost) <= one.count <= most
        prune(line.timeline._store, clock)


@pytest.mark.parametrize("length", [60_000, MANY])
def test_spikes_are_more_than_the_live_consumers_have_shown(timeline: Timeline, clock: HandClock, length: int) -> None:
    line = Line(timeline, clock).make()
    line.until((line.now // SLICE_MS + 1) * SLICE_MS)
    width_s = length / 10 / 1_000
    line.create(*(f"a{number}" for number in range(30)), at=line.now + 1)
    line.create(*(f"b{number}" for number in range(31)), at=line.now + length // 2)
    assert timeline.load(line.topic, to=line.now + length, bins=10).spikes == ()
    timeline.heartbeat(line.topic, "v", messages_per_second=20 / width_s)
    timeline.heartbeat(line.topic, "w", messages_per_second=10 / width_s)
    timeline.heartbeat(line.topic, "w", messages_per_second=1 / width_s)  # the best counts
    load = timeline.load(line.topic, to=line.now + length, bins=10)
    assert load.messages_per_second == pytest.approx(30 / width_s)
    assert [one.count for one in load.bins if one.count] == [30, 31]
    assert [one.count for one in load.spikes] == [31]


def test_counting_needs_no_broker_that_is_right(store: Store, line: Line) -> None:
    line.create("a")
    assert Timeline(store, clock=line.clock).count(line.topic).available == 1
