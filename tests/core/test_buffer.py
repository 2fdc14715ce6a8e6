"""Operations that wait: in order, counted, with their deadlines."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from batchline.core.buffer import Buffer
from batchline.core.operation import Operation, Watcher
from tests.core.dispatching import watcher

OWNERS = [watcher(name) for name in "ab"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


operations = st.builds(
    Operation,
    st.sampled_from(OWNERS),
    st.sampled_from([0, 1, 3]),
    deadline=st.none() | st.integers(0, 20).map(at),
    priority=st.sampled_from([0, 1]),
)


def shown(buffer: Buffer) -> dict[tuple[Watcher, int], list[Operation]]:
    return {key: list(lane.operations) for key, lane in buffer.lanes.items() if lane.operations}


def books_are_right(buffer: Buffer) -> None:
    waiting = [one for lane in buffer.lanes.values() for one in lane.operations]
    assert buffer.count == len(waiting)
    assert buffer.cost == sum(one.cost for one in waiting)
    assert all(lane.free == sum(not one.cost for one in lane.operations) for lane in buffer.lanes.values())
    assert buffer.deadline_us <= min(
        (one.deadline_us for one in waiting if one.deadline_us is not None), default=math.inf
    )


@given(st.lists(st.lists(operations, max_size=8), max_size=4), st.lists(operations, max_size=8))
def test_lanes_keep_the_order_in_which_operations_came(added: list[list[Operation]], back: list[Operation]) -> None:
    buffer = Buffer()
    for several in added:
        buffer.add(several)
    buffer.put_back(back)
    everything = back + [one for several in added for one in several]
    for (owner, priority), waiting in shown(buffer).items():
        assert waiting == [one for one in everything if (one.watcher, one.priority) == (owner, priority)]
    books_are_right(buffer)


@given(st.lists(operations, max_size=20), st.integers(-1, 21), st.integers(-1, 21))
def test_those_past_their_deadline_are_taken_and_only_those(
    added: list[Operation], first_us: int, second_us: int
) -> None:
    buffer = Buffer()
    buffer.add(added)
    for now_us in (first_us, second_us):
        waiting = [one for lane in buffer.lanes.values() for one in lane.operations]
        expired = buffer.take_expired(now_us)
        assert expired == [one for one in waiting if one.deadline_us is not None and one.deadline_us <= now_us]
        books_are_right(buffer)


@given(st.lists(operations, max_size=20))
def test_everything_can_be_taken_at_once(added: list[Operation]) -> None:
    buffer = Buffer()
    buffer.add(added)
    assert Counter(map(id, buffer.take_all())) == Counter(map(id, added))
    books_are_right(buffer)
    assert not buffer.lanes
    assert buffer.take_expired(10**18) == []


@given(st.lists(operations, max_size=20))
def test_what_costs_nothing_can_be_taken_out_of_a_lane(added: list[Operation]) -> None:
    buffer = Buffer()
    buffer.add(added)
    for lane in buffer.lanes.values():
        before = list(lane.operations)
        assert buffer.take_free(lane) == [one for one in before if not one.cost]
        assert list(lane.operations) == [one for one in before if one.cost]
        assert lane.free == 0


def test_rounding_is_not_carried_on_when_nothing_waits() -> None:
    buffer = Buffer()
    several = [Operation(OWNERS[0], cost) for cost in (0.1, 0.2, 0.3)]
    buffer.add(several)
    for one in several:
        buffer.taken([one], one.cost)
    assert buffer.cost == 0


def test_empty_lanes_are_forgotten_unless_they_have_got_more_than_others() -> None:
    buffer = Buffer()
    for owner, served in zip(OWNERS, (5.0, 10.0), strict=True):
        buffer.add([Operation(owner, 1)])
        buffer.lanes[owner, 0].served = served
    rival = watcher("rival")
    buffer.add([Operation(rival, 1)])
    for owner in OWNERS:
        buffer.lanes[owner, 0].operations.clear()
    buffer.count, buffer.served = 1, {(0, None): 7.0}
    buffer.forget_empty()
    assert set(buffer.lanes) == {(OWNERS[1], 0), (rival, 0)}
    buffer.lanes[rival, 0].operations.clear()
    buffer.forget_empty()
    assert not buffer.lanes
    assert not buffer.served


def test_the_lanes_of_watchers_that_have_gone_are_forgotten_while_others_wait() -> None:
    buffer = Buffer()
    buffer.add([Operation(OWNERS[0], 1)])
    for _ in range(10):
        passing = watcher()
        buffer.add([Operation(passing, 1, priority=9)])
        lane = buffer.lanes[passing, 9]
        lane.served, lane.began = lane.served + 1, lane.served
        buffer.note_turn(lane)
        buffer.taken(list(lane.operations), 1)
        lane.operations.clear()
        buffer.forget_empty()
    assert set(buffer.lanes) == {(OWNERS[0], 0)}
