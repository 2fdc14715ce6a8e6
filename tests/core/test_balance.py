"""The rate is the rate: what may be handed out in any interval, and what must be in a long one."""

from datetime import timedelta
from itertools import count, cycle
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.balance import Balance, Balances, Unlimited, open_balance
from batchline.core.cost import Amounts
from batchline.core.dispatch import Dispatch
from batchline.core.operation import Operation
from tests.core.dispatching import (
    BEGIN_S,
    Step,
    capacities,
    cost_parts,
    dispatch_of,
    flush_intervals,
    play,
    rate_holds,
    steps,
    watcher,
)

LATE_S = 0.009


@given(st.lists(steps(), max_size=50), capacities, flush_intervals)
def test_in_no_interval_more_is_handed_out_than_the_rate_allows(
    story: list[Step], capacity: float, flush: timedelta
) -> None:
    rate_holds(play(story, capacity, flush), flush)


@given(st.lists(steps(late=True), max_size=50), capacities, flush_intervals)
def test_flushes_that_come_late_make_up_for_ten_milliseconds(
    story: list[Step], capacity: float, flush: timedelta
) -> None:
    rate_holds(play(story, capacity, flush), flush, extra_s=LATE_S)


@given(st.lists(steps(changing=True), max_size=50), capacities, flush_intervals)
def test_a_capacity_that_changes_is_never_exceeded(story: list[Step], capacity: float, flush: timedelta) -> None:
    rate_holds(play(story, capacity, flush), flush)


@given(st.lists(steps(), max_size=50), capacities, capacities, flush_intervals)
def test_of_several_capacities_none_is_exceeded(story: list[Step], ru: float, net: float, flush: timedelta) -> None:
    played = play(story, {"ru": ru, "net": net}, flush)
    rate_holds(played, flush, name="ru")
    rate_holds(played, flush, name="net")


@given(st.floats(0, 1e9), st.sampled_from([0.001, 0.1, 1.0, 5.0, 60.0]))
def test_after_idle_time_there_is_a_slice_and_never_more_than_a_second(idle_s: float, flush_s: float) -> None:
    balance = Balance(1_000.0, flush_s, BEGIN_S)
    balance.accrue(1_000.0, BEGIN_S + idle_s)
    assert balance.level == pytest.approx(1_000 * min(idle_s, flush_s, 1.0), abs=1e-3)


def saturate(dispatch: Dispatch, costs: list[float], capacity: float, moments: list[float]) -> list[Any]:
    """Hand out at these moments with always more in the buffer than may go; what each flush sent."""
    owner, endless, sent = watcher(max_batch_size=500), cycle(costs), []
    while cast("float", dispatch.buffer.cost) <= capacity * (dispatch.rules.flush_interval.total_seconds() + 1):
        dispatch.put([Operation(owner, next(endless), batchable=True) for _ in range(50)])
    for now_s in moments:
        handouts = dispatch.flush(capacity, now_s, 0).handouts
        for handout in handouts:
            dispatch.end(handout, now_s)
            dispatch.put([Operation(owner, one.cost, batchable=True) for one in handout.operations])
        sent.append(sum(handout.cost for handout in handouts))
    return sent


@given(
    capacity=capacities,
    flush=flush_intervals,
    parts=st.lists(cost_parts.filter(lambda part: part >= 0.02), min_size=1, max_size=5),
    gaps=st.lists(st.sampled_from([1.0, 0.25]) | st.floats(0.1, 1), min_size=1, max_size=5),
)
def test_a_saturated_run_uses_all_of_the_capacity(
    capacity: float, flush: timedelta, parts: list[float], gaps: list[float]
) -> None:
    dispatch = dispatch_of(flush_interval=flush)
    dispatch.begin(capacity, BEGIN_S)
    moments, slices = [BEGIN_S], 0.0
    for gap in cycle(gaps):
        moments.append(moments[-1] + gap * flush.total_seconds())
        slices += gap
        if slices >= 100:
            break
    sent = sum(saturate(dispatch, [capacity * part for part in parts], capacity, moments))
    whole = capacity * (moments[-1] - moments[0])
    assert whole * (1 - 1e-6) <= sent <= whole * (1 + 1e-6) + capacity * max(parts)


@pytest.mark.parametrize("flush_ms", [1, 10, 100])
@pytest.mark.parametrize(
    ("capacity", "cost"), [*((20_000, cost) for cost in (1, 10, 15, 1_500, 1_900, 3_000)), (5, 1), (19, 1)]
)
def test_the_rows_on_which_the_seed_fails_are_held(capacity: int, cost: int, flush_ms: int) -> None:
    seconds = 2 if capacity > 100 else 20
    holds_for(capacity, cost, flush_ms, flush_ms, seconds)


@pytest.mark.parametrize(("capacity", "cost"), [(20_000, 10), (20_000, 1_500), (5, 1)])
def test_manual_flushes_every_25_ms_send_no_more(capacity: int, cost: int) -> None:
    holds_for(capacity, cost, 100, 25, 2 if capacity > 100 else 20)


def holds_for(capacity: int, cost: int, flush_ms: int, gap_ms: int, seconds: int) -> None:
    """Every row within 1 % and an operation; no second with more than 1 %, an operation and a slice beyond the rate."""
    dispatch = dispatch_of(flush_interval=timedelta(milliseconds=flush_ms))
    dispatch.begin(capacity, BEGIN_S)
    moments = [BEGIN_S + turn * gap_ms / 1_000 for turn in range(seconds * 1_000 // gap_ms + 1)]
    sent = saturate(dispatch, [cost], capacity, moments)
    assert sum(sent) == pytest.approx(capacity * seconds, rel=0.01, abs=cost)
    a_second = 1_000 // gap_ms
    largest = max(sum(sent[first : first + a_second]) for first in range(len(sent) - a_second + 1))
    assert largest <= 1.01 * capacity + cost + capacity * flush_ms / 1_000


def test_a_late_loop_makes_up_for_a_little_while_operations_wait() -> None:
    dispatch = dispatch_of(flush_interval=timedelta(milliseconds=100))
    dispatch.begin(1_000, 0.0)
    sent = saturate(dispatch, [1], 1_000, [0.1, 0.205, 0.3, 1.3])
    assert sent == [100, 105, 95, 109]


def test_a_cost_larger_than_a_slice_is_a_debt_that_the_next_wait_for() -> None:
    dispatch = dispatch_of(flush_interval=timedelta(milliseconds=100))
    dispatch.begin(20_000, 0.0)
    sent = saturate(dispatch, [3_000], 20_000, [tick / 10 for tick in range(1, 8)])
    assert sent == [3_000, 3_000, 0, 3_000, 3_000, 0, 3_000]


def test_a_capacity_below_an_operation_a_slice_carries_over() -> None:
    dispatch = dispatch_of(flush_interval=timedelta(milliseconds=100))
    dispatch.begin(5, 0.0)
    sent = saturate(dispatch, [1], 5, [tick / 10 for tick in range(1, 22)])
    assert sum(sent) == pytest.approx(10.5, abs=1)
    assert max(sent) == 1


def test_a_capacity_of_nothing_holds_everything_back_that_costs() -> None:
    dispatch = dispatch_of()
    dispatch.begin(100, 0.0)
    dispatch.put([Operation(watcher(), cost) for cost in (1, 0)])
    handouts = dispatch.flush(0, 60.0, 0).handouts
    assert [one.cost for handout in handouts for one in handout.operations] == [0]


def test_every_dimension_must_fit() -> None:
    balances = Balances(Amounts(ru=100.0, net=10.0), 0.1, 0.0)
    balances.accrue(Amounts(ru=100.0, net=10.0), 0.1)
    balances.spend(Amounts(net=1.0))
    assert not balances.fits(Amounts(net=1.0))
    assert not balances.fits(Amounts(ru=1.0, net=0.1))
    assert balances.fits(Amounts(ru=50.0))
    assert balances.fits(Amounts(ru=50.0, net=0.0))


def test_weights_are_parts_of_the_capacity_that_is_used_most() -> None:
    balances = Balances(Amounts(ru=100.0, net=10.0, cpu=0.0), 0.1, 0.0)
    assert balances.weight(Amounts(ru=20.0, net=1.0, cpu=3.0)) == 0.2
    assert balances.weight(0) == 0.0


@given(
    capacity=capacities,
    estimate=st.floats(0.005, 0.05),
    wrong=st.sampled_from([0.0, 0.5, 1.0, 2.0, 10.0]),
)
def test_with_actual_costs_reported_the_actual_rate_is_right(capacity: float, estimate: float, wrong: float) -> None:
    dispatch, flush_s = dispatch_of(), 0.1
    dispatch.begin(capacity, BEGIN_S)
    owner, actual = watcher(), 0.0
    cost = capacity * estimate
    for tick in range(1, 101):
        dispatch.put([Operation(owner, cost) for _ in range(int(0.2 / estimate) + 2 - dispatch.buffer.count)])
        level = 0.0
        for handout in dispatch.flush(capacity, BEGIN_S + tick * flush_s, 0).handouts:
            for operation in handout.operations:
                operation.settle(cost * wrong)
                level += cost
                actual += cost * wrong
            dispatch.end(handout, BEGIN_S + tick * flush_s)
        # A refund gives no more than a slice at once, and what a late loop may have.
        assert level <= capacity * (flush_s + LATE_S) + cost
    if wrong >= 1:
        slack = capacity * flush_s * wrong + cost * wrong
        assert actual == pytest.approx(capacity * 10, abs=slack, rel=1e-6)


@pytest.mark.parametrize(
    ("before", "after", "level"), [(100.0, 1_000.0, 10.0), (1_000.0, 100.0, 10.0), (100.0, 0.0, 0.0)]
)
def test_while_the_capacity_changed_the_lower_one_counts(before: float, after: float, level: float) -> None:
    balance = Balance(before, 0.1, 0.0)
    balance.accrue(after, 0.1)
    assert balance.level == pytest.approx(level)


def test_a_late_loop_makes_up_only_for_what_was_waited_for() -> None:
    capacity = Amounts(ru=100.0, net=100.0)
    balances = Balances(capacity, 0.1, 0.0)
    balances.accrue(capacity, 0.1)
    balances.spend(Amounts(ru=10.0, net=1.0))
    balances.wanting(True)
    balances.accrue(capacity, 5.0)
    assert {name: balance.level for name, balance in balances.each.items()} == pytest.approx({"ru": 10.9, "net": 10})


@given(capacities, st.floats(0, 10))
def test_a_refund_is_capped_at_a_slice_by_the_next_flush(capacity: float, refunded: float) -> None:
    balance = Balance(capacity, 0.1, 0.0)
    balance.settle(capacity * refunded, 0)
    balance.accrue(capacity, 0.0)
    assert balance.level <= capacity * 0.1


def test_a_debit_delays_what_comes_next() -> None:
    balances = Balances(Amounts(ru=100.0), 0.1, 0.0)
    balances.settle(Amounts(ru=1.0), Amounts(ru=51.0))
    for tick in count(1):
        balances.accrue(Amounts(ru=100.0), tick / 10)
        if balances.fits(Amounts(ru=1.0)):
            break
    assert tick == 6


def test_a_clock_that_runs_back_gives_nothing_twice() -> None:
    balance = Balance(100.0, 10.0, 5.0)
    for now_s in (5.5, 5.0, 5.5):
        balance.accrue(100.0, now_s)
    assert balance.level == 50


def test_without_a_capacity_there_is_no_limit() -> None:
    balance = open_balance(None, 0.1, 0.0)
    assert isinstance(balance, Unlimited)
    balance.spend(1e15)
    assert balance.fits(1e15)
    assert isinstance(open_balance(5, 0.1, 0.0), Balance)
    assert isinstance(open_balance(Amounts(ru=5), 0.1, 0.0), Balances)
