"""What is sent: nothing lost, in order, in batches that fit, higher priority first, watchers in turns."""

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.balance import Balance, Balances, Unlimited, open_balance
from batchline.core.buffer import Buffer
from batchline.core.operation import Operation, Watcher
from batchline.core.taking import Batched, take_batches
from tests.core.dispatching import watcher

Key = tuple[Watcher, int]


def holding(level: float) -> Balance | Balances | Unlimited:
    """A balance with so much in it; infinitely much is no limit."""
    balance = open_balance(None if level == math.inf else 100.0, 1e6, 0.0)
    if isinstance(balance, Balance):
        balance.level = level
    return balance


@dataclass
class Given:
    buffer: Buffer
    operations: list[Operation]
    level: float
    slots: float

    @property
    def lanes(self) -> dict[Key, list[Operation]]:
        return lanes_of(self.operations)


def lanes_of(operations: list[Operation]) -> dict[Key, list[Operation]]:
    lanes: dict[Key, list[Operation]] = defaultdict(list)
    for operation in operations:
        lanes[operation.watcher, operation.priority].append(operation)
    return lanes


@st.composite
def buffers(draw: st.DrawFn, slots: st.SearchStrategy[float] | None = None) -> Given:
    """Operations of few watchers and priorities; many cost nothing, many travel alone."""
    owners = [watcher(name, max_batch_size=draw(st.sampled_from([None, 1, 2, 3]))) for name in "abc"]
    operations = draw(
        st.lists(
            st.builds(
                Operation,
                st.sampled_from(owners),
                st.sampled_from([0, 0, 1, 2, 5, 60]),
                batchable=st.sampled_from([True, True, False]),
                priority=st.sampled_from([0, 0, 1, -3]),
            ),
            max_size=40,
        )
    )
    buffer = Buffer()
    cut = draw(st.integers(0, len(operations)))
    buffer.add(operations[:cut])
    for operation in operations[cut:]:
        buffer.add([operation])
    level = draw(st.sampled_from([-1.0, 0.0, 1.0, 7.0, 30.0, 500.0, math.inf]))
    some = st.sampled_from([math.inf, math.inf, 0, 1, 2, 5]) if slots is None else slots
    return Given(buffer, operations, level, draw(some))


def taken(given: Given) -> tuple[list[Batched], list[Operation]]:
    """What is sent, and what is left."""
    batches = take_batches(given.buffer, holding(given.level), given.slots)
    return batches, [one for lane in given.buffer.lanes.values() for one in lane.operations]


def sent_in(batches: list[Batched]) -> list[Operation]:
    return [operation for batch in batches for operation in batch.operations]


@given(buffers())
def test_nothing_is_lost_or_invented(given: Given) -> None:
    batches, left = taken(given)
    assert Counter(map(id, sent_in(batches) + left)) == Counter(map(id, given.operations))
    assert given.buffer.count == len(left)
    assert given.buffer.cost == sum(one.cost for one in left)
    assert [batch.cost for batch in batches] == [sum(one.cost for one in batch.operations) for batch in batches]
    for lane in given.buffer.lanes.values():
        assert lane.free == sum(not one.cost for one in lane.operations)


@given(buffers())
def test_batches_are_of_one_watcher_and_no_larger_than_it_can_take(given: Given) -> None:
    batches, _ = taken(given)
    assert len(batches) <= given.slots
    for batch in batches:
        assert {one.watcher for one in batch.operations} == {batch.watcher}
        assert len(batch.operations) <= (batch.watcher.max_batch_size or math.inf)
        assert len(batch.operations) == 1 or all(one.batchable for one in batch.operations)


@given(buffers())
def test_order_is_kept_except_that_what_costs_nothing_overtakes_what_waits_for_capacity(given: Given) -> None:
    batches, left = taken(given)
    sent, still = lanes_of(sent_in(batches)), lanes_of(left)
    for key, lane in given.lanes.items():
        assert paid(sent[key]) + paid(still[key]) == paid(lane)
        assert free(sent[key]) + free(still[key]) == free(lane)
        overtaken = [one for one in sent[key] if one in lane[len(sent[key]) :]]
        assert not any(one.cost for one in overtaken)
        if overtaken:
            assert given.level <= sum(cost_of(one) for one in sent_in(batches))


def paid(operations: list[Operation]) -> list[Operation]:
    return [one for one in operations if one.cost]


def free(operations: list[Operation]) -> list[Operation]:
    return [one for one in operations if not one.cost]


def cost_of(operation: Operation) -> float:
    assert isinstance(operation.cost, int | float)
    return operation.cost


@given(buffers(slots=st.just(math.inf)))
def test_higher_priority_goes_first_and_what_costs_nothing_always(given: Given) -> None:
    batches, left = taken(given)
    assert not free(left)
    waiting = max((one.priority for one in left), default=-math.inf)
    assert all(one.priority >= waiting for one in paid(sent_in(batches)))


@given(buffers())
def test_what_could_go_has_gone(given: Given) -> None:
    batches, left = taken(given)
    if len(batches) < given.slots:
        assert not left or sum(map(cost_of, sent_in(batches))) >= given.level
        room = [batch for batch in batches if all(one.batchable for one in batch.operations)]
        for owner in {batch.watcher for batch in room}:
            # Batches are filled before new ones are begun, unless one that travels alone, or waits, came between.
            assert owner.max_batch_size is not None or len(room) <= 1 + len(given.operations) - len(lanes_of(left))


@pytest.mark.parametrize("slots", [math.inf, 1])
def test_what_costs_nothing_overtakes_what_waits_for_capacity(slots: float) -> None:
    buffer, owner = Buffer(), watcher()
    first, second, third = (Operation(owner, cost) for cost in (1, 0, 0))
    buffer.add([first, second, third])
    sent = [[second], [third]] if slots > 1 else [[second]]
    assert [batch.operations for batch in take_batches(buffer, holding(0), slots)] == sent
    assert [batch.operations for batch in take_batches(buffer, holding(1), 1)] == (
        [[first]] if slots > 1 else [[third]]
    )


def test_what_waits_for_a_slot_is_not_overtaken_by_what_costs_nothing() -> None:
    buffer, owner = Buffer(), watcher()
    first, second = Operation(owner, 1), Operation(owner, 0)
    buffer.add([first, second])
    assert [batch.operations for batch in take_batches(buffer, holding(5), 1)] == [[first]]


def test_what_comes_after_one_that_travels_alone_does_not_go_before_it() -> None:
    buffer, owner = Buffer(), watcher()
    together, alone, after = Operation(owner, 1, batchable=True), Operation(owner, 1), Operation(owner, batchable=True)
    low = Operation(owner, 1, batchable=True, priority=-1)
    buffer.add([together, alone, after, low])
    assert [batch.operations for batch in take_batches(buffer, holding(9), 1)] == [[together]]
    assert [batch.operations for batch in take_batches(buffer, holding(9), 2)] == [[alone], [after, low]]


class CountedDeque(deque[Operation]):
    """Counts how often something is taken out of it."""

    taken = 0

    def popleft(self) -> Operation:
        self.taken += 1
        return super().popleft()


@pytest.mark.parametrize("every", [4_001, 2, 7])
def test_a_large_buffer_of_operations_that_travel_alone_is_not_gone_through_for_each(every: int) -> None:
    buffer, owner = Buffer(), watcher()
    buffer.add([Operation(owner, batchable=place % every == 1) for place in range(4_000)])
    lane = buffer.lanes[owner, 0]
    lane.operations = counted = CountedDeque(lane.operations)
    assert len(sent_in(take_batches(buffer, Unlimited(), math.inf))) == 4_000
    assert counted.taken <= 100 * 4_000


def test_among_equals_the_oldest_lane_is_first() -> None:
    buffer, owners = Buffer(), [watcher(name) for name in "cab"]
    buffer.add([Operation(owner, 1) for owner in owners])
    assert [batch.watcher.name for batch in take_batches(buffer, holding(9), math.inf)] == ["c", "a", "b"]
