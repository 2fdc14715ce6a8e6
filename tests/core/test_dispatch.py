"""What a dispatcher knows and decides: the books, the slots, what it refuses, what it asks for, when it wakes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import Amounts, amount_of
from batchline.core.operation import Operation
from batchline.errors import InvalidOperation, InvalidRules, TooExpensive, TooManyAttempts
from tests.core.dispatching import dispatch_of, watcher

BEGIN_US = 1_000_000_000
FLUSH_S = 0.1


# --- what it refuses ---


@pytest.mark.parametrize(
    ("cost", "capacity", "refused", "message"),
    [
        (101, 100, TooExpensive, "cost 101 is more than the limiter can ever give in a second, 100"),
        (100, 100, None, ""),
        (0, 0, None, ""),
        (1, 0, TooExpensive, "cost 1 is more than the limiter can ever give in a second, 0"),
        (1e15, None, None, ""),
        ({"ru": 5}, None, None, ""),
        ({"ru": 5}, {"ru": 5, "net": 1}, None, ""),
        ({"ru": 5, "net": 2}, {"ru": 5, "net": 1}, TooExpensive, r"cost \{'ru': 5, 'net': 2\} is more than"),
        (
            {"rus": 5},
            {"ru": 5, "net": 1},
            InvalidOperation,
            "there is no capacity 'rus'; did you mean 'ru'\\?, in cost",
        ),
        ({"x": 5}, {"ru": 5, "net": 1}, InvalidOperation, r"there is no capacity 'x', in cost \{'x': 5\}"),
        (5, {"ru": 5, "net": 1}, InvalidOperation, "cost must be a mapping of ru, net, as the capacity is, got 5"),
        ({"ru": 5}, 100, InvalidOperation, r"cost must be a number, as the capacity is, got \{'ru': 5\}"),
        (0, {"ru": 5}, None, ""),
        ({"x": 0}, {"ru": 5}, None, ""),
    ],
    ids=str,
)
def test_what_can_never_be_sent_is_refused(cost: Any, capacity: Any, refused: Any, message: str) -> None:
    dispatch, operation = dispatch_of(), Operation(watcher(), cost)
    most = None if capacity is None else amount_of("capacity", capacity, InvalidRules)
    if refused is None:
        dispatch.check([operation], most)
        return
    with pytest.raises(refused, match=f"^{message}"):
        dispatch.check([Operation(watcher()), operation], most)
    assert (dispatch.target, dispatch.room, operation.attempts) == (0, 10_000, 0)


def test_no_more_attempts_are_taken_than_the_watcher_allows() -> None:
    dispatch, operation = dispatch_of(), Operation(watcher(max_attempts=2), payload="it")
    for now_s in (1.0, 2.0):
        dispatch.check([operation], None)
        dispatch.put([operation])
        (handout,) = dispatch.flush(None, now_s, 0).handouts
        dispatch.end(handout, now_s)
    with pytest.raises(TooManyAttempts, match=r"^<Operation .* attempts 2, 'it'> was handed out 2 times"):
        dispatch.check([operation], None)


# --- single steps ---


def test_a_late_callback_frees_nothing_twice_and_holds_its_slot() -> None:
    dispatch = dispatch_of(max_concurrent_batches=1, max_operation_time=timedelta(seconds=5))
    dispatch.begin(100, 0.0)
    dispatch.put([Operation(watcher(), 3), Operation(watcher(), 4)])
    (handout,) = dispatch.flush(100, 0.1, 0).handouts
    assert dispatch.target == 7
    assert dispatch.give_up(5.099) == []
    assert dispatch.give_up(5.1) == [handout]
    assert dispatch.target == 4
    assert dispatch.flush(100, 6.0, 0).handouts == []
    dispatch.end(handout, 6.0)
    assert dispatch.target == 4
    assert len(dispatch.flush(100, 6.1, 0).handouts) == 1


def test_what_is_throttled_comes_first_again_and_what_failed_last() -> None:
    dispatch, owner = dispatch_of(), watcher(max_batch_size=2)
    operations = [Operation(owner, 1, number, batchable=True) for number in range(5)]
    dispatch.begin(None, 0.0)
    dispatch.put(operations)
    throttled, failed, _ = dispatch.flush(None, 0.1, 0).handouts
    dispatch.put_back(throttled)
    for handout in (throttled, failed):
        dispatch.end(handout, 0.2)
    dispatch.put(failed.operations)
    sent = dispatch.flush(None, 0.2, 0).handouts
    assert [one.payload for handout in sent for one in handout.operations] == [0, 1, 2, 3]
    assert [one.attempts for one in operations] == [1, 1, 2, 2, 1]


def test_an_operation_past_its_deadline_is_not_sent() -> None:
    dispatch = dispatch_of()
    soon = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    dispatch.put([Operation(watcher(), 1, deadline=soon)])
    assert len(dispatch.flush(None, 0.1, 999_999).handouts) == 1
    dispatch.put([Operation(watcher(), 1, deadline=soon)])
    flushed = dispatch.flush(None, 0.2, 1_000_000)
    assert (len(flushed.handouts), len(flushed.expired)) == (0, 1)


@given(st.lists(st.floats(0, 1e6), max_size=40), st.integers(1, 5))
def test_rounding_leaves_no_target_behind(costs: list[float], size: int) -> None:
    dispatch, owner = dispatch_of(max_operation_time=timedelta(seconds=1)), watcher(max_batch_size=size)
    dispatch.begin(1e9, 0.0)
    dispatch.put([Operation(owner, cost, batchable=True) for cost in costs])
    for handout in dispatch.flush(1e9, 0.1, 0).handouts:
        dispatch.end(handout, 0.1)
    assert dispatch.target == 0
    assert dispatch.audit(2.0) == "pass"


def test_wrong_books_are_found_and_put_right() -> None:
    dispatch = dispatch_of()
    dispatch.buffer.cost = 5
    assert dispatch.audit(0.0) == "fail"
    assert dispatch.target == 0
    assert dispatch.audit(0.0) == "pass"


def test_the_audit_waits_until_the_last_batch_would_be_late() -> None:
    dispatch = dispatch_of(max_operation_time=timedelta(seconds=5))
    dispatch.put([Operation(watcher(), 1)])
    assert dispatch.audit(0.0) == "skip"
    (handout,) = dispatch.flush(None, 1.0, 0).handouts
    dispatch.end(handout, 1.0)
    assert [dispatch.audit(now_s) for now_s in (1.0, 5.9, 6.0)] == ["skip", "skip", "pass"]


# --- what it asks for ---


def test_backlog_and_arrivals_are_asked_for_together() -> None:
    dispatch = dispatch_of()
    dispatch.begin(10, 0.0)
    dispatch.put([Operation(watcher(), 10) for _ in range(8)])
    assert dispatch.request(10, 0.1) == 80 + 80
    assert len(dispatch.flush(10, 0.1, 0).handouts) == 1
    assert dispatch.request(10, 5.0) == 70


def test_what_waits_elsewhere_is_asked_for_while_something_is_held_back() -> None:
    dispatch = dispatch_of(flush_interval=timedelta(milliseconds=100))
    dispatch.begin(10, 0.0)
    dispatch.expected = 500
    dispatch.put([Operation(watcher(), 1) for _ in range(4)])
    dispatch.flush(10, 0.1, 0)
    assert (dispatch.held_back, dispatch.request(10, 0.1)) == (True, 3 + 500 + 4)
    for now_s in (0.2, 0.3):
        dispatch.flush(1_000, now_s, 0)
    assert (dispatch.held_back, dispatch.request(1_000, 0.3)) == (False, 4)


def test_arrivals_are_asked_for_as_long_as_a_second() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    asked = []
    for tick in range(1, 21):
        dispatch.put([Operation(watcher(), 5)])
        asked.append(dispatch.request(1_000, tick / 10))
        dispatch.flush(1_000, tick / 10, 0)
    assert asked[4] == 5 * 5 + 5
    assert asked[-1] == 10 * 5 + 5
    assert [dispatch.request(1_000, now_s) for now_s in (2.5, 2.95, 3.0)] == [25, 5, 0]


def test_while_every_slot_is_taken_no_more_is_asked_for_than_is_sent() -> None:
    dispatch = dispatch_of(max_concurrent_batches=1)
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 7) for _ in range(9)])
    assert dispatch.request(1_000, 0.1) == 63 + 63
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    assert dispatch.request(1_000, 0.2) == 7
    assert dispatch.request(1_000, 1.2) == 0
    dispatch.end(handout, 1.2)
    assert dispatch.request(1_000, 1.3) == 56


def test_several_capacities_are_asked_for_by_name() -> None:
    dispatch = dispatch_of()
    capacity = Amounts(ru=10, net=10)
    dispatch.begin(capacity, 0.0)
    dispatch.put([Operation(watcher(), {"ru": 5}), Operation(watcher(), {"net": 3})])
    assert dispatch.request(capacity, 0.1) == {"ru": 10, "net": 6}


def test_demand_is_in_settled_cost() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 10)])
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    handout.operations[0].settle(40)
    dispatch.end(handout, 0.1)
    dispatch.put([Operation(watcher(), 10) for _ in range(3)])
    assert dispatch.request(1_000, 5.0) == 4 * (30 + 30)
    assert dispatch.request(1_000, 6.0) == 4 * 30


@pytest.mark.parametrize("several", [False, True], ids=["one capacity", "several capacities"])
def test_demand_is_not_less_than_the_estimates_that_operations_need_to_go(several: bool) -> None:
    dispatch = dispatch_of()
    capacity: Any = Amounts(ru=1_000, net=1_000) if several else 1_000
    estimated, actual = ({"ru": 40, "net": 40}, {"ru": 4}) if several else (40, 4)
    dispatch.begin(capacity, 0.0)
    dispatch.put([Operation(watcher(), estimated)])
    (handout,) = dispatch.flush(capacity, 0.1, 0).handouts
    handout.operations[0].settle(actual)
    dispatch.end(handout, 0.1)
    dispatch.put([Operation(watcher(), estimated)])
    assert dispatch.request(capacity, 5.0) == ({"ru": 80, "net": 80} if several else 80)


def test_throttled_operations_that_settle_at_nothing_are_still_wanted_in_full() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 10)])
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    handout.operations[0].settle(0)
    dispatch.put_back(handout)
    dispatch.end(handout, 0.1)
    assert dispatch.request(1_000, 5.0) == 10


def test_throttled_operations_say_nothing_about_actual_costs() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 10)])
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    handout.operations[0].settle(40)
    dispatch.end(handout, 0.1)
    dispatch.put([Operation(watcher(), 10)])
    (handout,) = dispatch.flush(1_000, 0.2, 0).handouts
    dispatch.put_back(handout)
    dispatch.end(handout, 0.2)
    assert dispatch.request(1_000, 5.0) == 4 * 10


def test_a_debt_is_asked_for_until_it_is_paid_though_nothing_waits() -> None:
    dispatch = dispatch_of()
    dispatch.begin(100, 0.0)
    dispatch.put([Operation(watcher(), 1)])
    (handout,) = dispatch.flush(100, 0.1, 0).handouts
    assert dispatch.request(100, 1.2) == 0
    owed = [dispatch.owes_unasked]
    handout.operations[0].settle(511)
    dispatch.end(handout, 1.2)
    owed.append(dispatch.owes_unasked)
    assert dispatch.wake_s(1.2) == dispatch.requests.next_s
    assert [dispatch.request(100, now_s) for now_s in (1.2, 3.2, 6.2, 6.3)] == [500, 300, 0, 0]
    assert [*owed, dispatch.owes_unasked] == [False, True, False]


def test_the_actual_cost_of_what_was_estimated_at_nothing_is_an_arrival() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 0)])
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    handout.operations[0].settle(150)
    dispatch.end(handout, 0.1)
    assert dispatch.request(1_000, 0.1) == 150 + 50
    assert dispatch.request(1_000, 1.2) == 0


# --- when it wakes ---


def test_with_nothing_to_do_it_wakes_for_the_audit_only() -> None:
    dispatch = dispatch_of()
    dispatch.begin(10, 0.0)
    assert dispatch.wake_s(0.0) == 10
    dispatch.put([Operation(watcher(), 1)])
    assert dispatch.wake_s(0.0) == FLUSH_S


def test_while_paused_it_wakes_when_that_ends_or_a_batch_is_late() -> None:
    dispatch = dispatch_of(max_operation_time=timedelta(milliseconds=300))
    dispatch.begin(10, 0.0)
    dispatch.put([Operation(watcher(), 1)])
    dispatch.flush(10, 0.1, 0)
    dispatch.put([Operation(watcher(), 1)])
    dispatch.pausing.pause(0.1)
    assert dispatch.flush(10, 0.2, 0).handouts == []
    assert dispatch.wake_s(0.2) == pytest.approx(0.4)
    dispatch.give_up(0.4)
    assert dispatch.wake_s(0.4) == pytest.approx(0.6)


def test_it_goes_on_asking_until_it_has_told_that_nothing_is_wanted() -> None:
    dispatch = dispatch_of(flush_interval=timedelta(seconds=5), audit_interval=timedelta(seconds=60))
    dispatch.begin(100, 0.0)
    dispatch.put([Operation(watcher(), 1)])
    dispatch.request(100, 0.1)
    dispatch.requests.due(0.1)
    dispatch.flush(100, 0.1, 0)
    assert dispatch.wake_s(0.1) == pytest.approx(0.2)
    assert dispatch.request(100, 1.2) == 0
    assert dispatch.wake_s(1.2) == 60
