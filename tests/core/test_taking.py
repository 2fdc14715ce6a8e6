"""What is sent: nothing lost, in order, in batches that fit, higher priority first, watchers in turns."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.balance import Balance, Balances, Unlimited, open_balance
from batchline.core.buffer import Buffer
from batchline.core.cost import Amounts
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


# --- fairness ---


@dataclass
class Source:
    """A watcher whose operations cost so much each, with enough of them at any time unless it pauses."""

    owner: Watcher
    cost: Any
    priority: int = 0

    def fill(self, buffer: Buffer, enough: int) -> None:
        lane = buffer.lanes.get((self.owner, self.priority))
        missing = enough - (len(lane.operations) if lane else 0)
        buffer.add([Operation(self.owner, self.cost, batchable=True, priority=self.priority) for _ in range(missing)])


CAPACITY, FLUSH_S = 1_000.0, 0.1
sources = st.builds(
    Source,
    st.builds(watcher, max_batch_size=st.sampled_from([None, 1, 7])),
    st.sampled_from([1.0, 3.0, 10.0, 15.0, 250.0, 1_000.0]) | st.floats(1, 300),
)


def run(
    buffer: Buffer, balance: Balance | Balances, capacity: Any, ticks: range, busy: Callable[[int], list[Source]]
) -> Counter[Watcher]:
    """Flush at each tick, with those who are busy then always having more to send; who has got how much weight."""
    got: Counter[Watcher] = Counter()
    for tick in ticks:
        for source in busy(tick):
            source.fill(buffer, 120)
        balance.accrue(capacity, tick * FLUSH_S)
        for batch in take_batches(buffer, balance, math.inf):
            got[batch.watcher] += balance.weight(batch.cost)  # type: ignore[assignment] # counts of fractions
    return got


@given(st.lists(sources, min_size=2, max_size=5))
def test_saturated_watchers_share_equally_up_to_an_operation(rivals: list[Source]) -> None:
    got = run(Buffer(), Balance(CAPACITY, FLUSH_S, 0.0), CAPACITY, range(1, 80), lambda _: rivals)
    even(got, rivals, max(one.cost for one in rivals))


def even(got: Counter[Watcher], rivals: list[Source], up_to: float) -> None:
    each = [got[one.owner] for one in rivals]
    assert max(each) - min(each) <= up_to + 1e-6
    assert all(each) or max(each) <= up_to


@given(st.lists(sources, min_size=2, max_size=4), st.integers(1, 60), st.booleans())
def test_one_that_comes_back_gets_its_part_and_no_more(rivals: list[Source], away: int, been_here: bool) -> None:
    buffer, balance = Buffer(), Balance(CAPACITY, FLUSH_S, 0.0)
    here = run(buffer, balance, CAPACITY, range(1, 30), lambda _: rivals if been_here else rivals[1:])
    while (rivals[0].owner, 0) in buffer.lanes and buffer.lanes[rivals[0].owner, 0].operations:
        lane = buffer.lanes[rivals[0].owner, 0]
        buffer.taken(list(lane.operations), sum(one.cost for one in lane.operations))
        lane.operations.clear()
    run(buffer, balance, CAPACITY, range(30, 30 + away), lambda _: rivals[1:])
    got = run(buffer, balance, CAPACITY, range(30 + away, 110 + away), lambda _: rivals)
    assert bool(here[rivals[0].owner]) <= been_here
    even(got, rivals, 2 * max(one.cost for one in rivals))


@given(st.integers(1, 5), st.sampled_from([1.0, 10.0, 100.0]), st.integers(1, 100))
def test_a_small_job_beside_huge_ones_is_done_in_its_share_of_the_time(huge: int, cost: float, small: int) -> None:
    rivals = [Source(watcher(), cost) for _ in range(huge)]
    buffer, balance, job = Buffer(), Balance(CAPACITY, FLUSH_S, 0.0), watcher("small")
    run(buffer, balance, CAPACITY, range(1, 20), lambda _: rivals)
    buffer.add([Operation(job, 1) for _ in range(small)])
    seconds = (small * (huge + 1) + 2 * (huge + 1) * cost) / CAPACITY
    end = 20 + math.ceil(seconds / FLUSH_S) + 1
    assert run(buffer, balance, CAPACITY, range(20, end + 1), lambda _: rivals)[job] == small


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_what_others_of_higher_priority_have_got_makes_no_difference(part: float) -> None:
    high, old, new = Source(watcher("high"), CAPACITY * FLUSH_S * part, 5), *(Source(watcher(), 1) for _ in "ab")
    buffer, balance = Buffer(), Balance(CAPACITY, FLUSH_S, 0.0)

    def busy(*low: Source) -> Callable[[int], list[Source]]:
        def at(_: int) -> list[Source]:
            buffer.add([Operation(high.owner, high.cost, priority=5)])
            return list(low)

        return at

    run(buffer, balance, CAPACITY, range(1, 200), busy(old))
    got = run(buffer, balance, CAPACITY, range(200, 300), busy(old, new))
    even(got, [old, new], 2)
    assert got[old.owner] + got[new.owner] == pytest.approx(CAPACITY * 10 * (1 - part), rel=0.05)


def test_of_several_capacities_watchers_share_by_what_they_use_most_of() -> None:
    capacity = Amounts(ru=1_000.0, net=100.0)
    thrifty, greedy = Source(watcher("a"), {"ru": 10, "net": 0.1}), Source(watcher("b"), {"ru": 10, "net": 2})
    got = run(Buffer(), Balances(capacity, FLUSH_S, 0.0), capacity, range(1, 200), lambda _: [thrifty, greedy])
    assert got[thrifty.owner] == pytest.approx(got[greedy.owner], abs=0.02)


def test_who_needs_what_is_left_goes_on_while_another_waits_for_what_is_not() -> None:
    capacity = Amounts(ru=1_000.0, net=100.0)
    ru, net = Source(watcher("ru"), {"ru": 10}), Source(watcher("net"), {"net": 1})
    got = run(Buffer(), Balances(capacity, FLUSH_S, 0.0), capacity, range(1, 101), lambda _: [ru, net])
    assert got[ru.owner] == pytest.approx(10, abs=0.02)
    assert got[net.owner] == pytest.approx(10, abs=0.02)


def test_who_needs_what_many_need_is_not_kept_waiting_by_one_who_needs_something_else() -> None:
    capacity = Amounts(ru=1_000.0, net=1_000.0)
    many, other = [Source(watcher(), {"ru": 10}) for _ in range(5)], Source(watcher("net"), {"net": 10})
    late, late_other = Source(watcher("late"), {"ru": 10}), Source(watcher("late net"), {"net": 10})
    buffer, balances = Buffer(), Balances(capacity, FLUSH_S, 0.0)
    run(buffer, balances, capacity, range(1, 300), lambda _: [*many, other])
    got = run(buffer, balances, capacity, range(300, 480), lambda _: [*many, other, late, late_other])
    assert [got[one.owner] for one in [*many, late]] == pytest.approx([3.0] * 6, abs=0.1)
    assert [got[one.owner] for one in (other, late_other)] == pytest.approx([9.0] * 2, abs=0.1)


def test_the_first_that_needs_something_else_has_no_advantage_over_those_who_need_both() -> None:
    capacity = Amounts(ru=1_000.0, net=1_000.0)
    old, new = Source(watcher("both"), {"ru": 10, "net": 9}), Source(watcher("net"), {"net": 10})
    buffer, balances = Buffer(), Balances(capacity, FLUSH_S, 0.0)
    run(buffer, balances, capacity, range(1, 300), lambda _: [old])
    got = run(buffer, balances, capacity, range(300, 500), lambda _: [old, new])
    assert got[old.owner] == pytest.approx(got[new.owner], abs=0.1)


@pytest.mark.parametrize("served", [0.0, 1e6, 1e12])
@pytest.mark.parametrize("balance", [Unlimited(), Balance(1.0, 1.0, 0.0)], ids=["unlimited", "limited"])
def test_watchers_whose_operations_cost_nothing_take_turns_by_batches(
    balance: Balance | Unlimited, served: float
) -> None:
    buffer, owners = Buffer(), [watcher(name, max_batch_size=10) for name in "abc"]
    buffer.add([Operation(owner, batchable=True) for owner in owners for _ in range(100)])
    for lane in buffer.lanes.values():
        lane.served, lane.new = served, False
    batches = chain.from_iterable(take_batches(buffer, balance, 1) for _ in range(30))
    got = [batch.watcher.name for batch in batches]
    assert got == list("abc") * 10


def test_among_equals_the_oldest_lane_is_first() -> None:
    buffer, owners = Buffer(), [watcher(name) for name in "cab"]
    buffer.add([Operation(owner, 1) for owner in owners])
    assert [batch.watcher.name for batch in take_batches(buffer, holding(9), math.inf)] == ["c", "a", "b"]
