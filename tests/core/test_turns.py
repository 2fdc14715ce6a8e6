"""Watchers take turns: each gets its part of the capacity, whenever it comes and whatever it costs."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.balance import Balance, Balances, Unlimited
from batchline.core.buffer import Buffer
from batchline.core.cost import Amounts
from batchline.core.operation import Operation, Watcher
from batchline.core.taking import take_batches
from tests.core.dispatching import watcher


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
