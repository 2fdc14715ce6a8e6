"""What a dispatcher knows and decides: the books, the slots, what it refuses, what it asks for, when it wakes."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchline.core.cost import Amounts, amount_of
from batchline.core.dispatch import Handout
from batchline.core.moment import moment_of
from batchline.core.operation import Operation
from batchline.errors import InvalidOperation, InvalidRules, TooExpensive, TooManyAttempts
from tests.core.dispatching import BEGIN_S, dispatch_of, watcher

BEGIN_US = 1_000_000_000
FLUSH_S = 0.1


class Books(RuleBasedStateMachine):
    """Everything that can become of operations, and beside it what the books must say."""

    @initialize(
        kind=st.sampled_from(["unlimited", "number", "mapping"]),
        slots=st.sampled_from([None, 1, 3]),
        begun=st.booleans(),
    )
    def begin(self, kind: str, slots: int | None, begun: bool) -> None:
        self.kind = kind
        self.capacity: Any = {"unlimited": None, "number": 50, "mapping": Amounts(ru=50, net=20)}[kind]
        self.now_s = BEGIN_S
        self.dispatch = dispatch_of(
            max_concurrent_batches=slots, max_operation_time=timedelta(seconds=2), audit_interval=timedelta(seconds=1)
        )
        self.owners = [
            watcher("a"),
            watcher("b", max_batch_size=2, max_operation_time=timedelta(milliseconds=300)),
            watcher("c", max_batch_size=5, max_attempts=3),
        ]
        self.buffered: list[Operation] = []
        self.inflight: list[Handout] = []
        self.attempts: Counter[int] = Counter()
        self.everything: list[Operation] = []
        if begun:
            self.dispatch.begin(self.capacity, self.now_s)
        else:
            self.put(((0, 3, False, 0, None), (1, 0, True, 1, 50)))
            self.dispatch.begin(self.capacity, self.now_s)

    @property
    def wall_us(self) -> int:
        return BEGIN_US + round((self.now_s - BEGIN_S) * 1_000_000)

    def cost(self, number: int) -> Any:
        return {"ru": number, "net": number % 4} if self.kind == "mapping" else number

    # --- what comes in ---

    drafts = st.tuples(
        st.integers(0, 2),
        st.sampled_from([0, 0, 1, 4, 20]),
        st.booleans(),
        st.sampled_from([0, 0, 1, -1]),
        st.sampled_from([None, None, 50, 1_000]),
    )

    @rule(drafts=st.lists(drafts, max_size=6).map(tuple))
    def put(self, drafts: tuple[tuple[int, int, bool, int, int | None], ...]) -> None:
        operations = [
            Operation(
                self.owners[owner],
                self.cost(number),
                batchable=batchable,
                priority=priority,
                deadline=None if after_ms is None else moment_of(self.wall_us + after_ms * 1_000),
            )
            for owner, number, batchable, priority, after_ms in drafts
        ]
        self.dispatch.check(operations, self.capacity)
        self.dispatch.put(operations)
        self.buffered += operations
        self.everything += operations

    @rule(number=st.sampled_from([51, 1_000]))
    def be_refused(self, number: int) -> None:
        if self.capacity is not None:
            with pytest.raises(TooExpensive):
                self.dispatch.check([Operation(self.owners[0], self.cost(number))], self.capacity)

    # --- what goes out ---

    @rule(passed_s=st.sampled_from([0.0, 0.03, FLUSH_S, FLUSH_S, 3.0]), part=st.sampled_from([1.0, 1.0, 0.5, 0.0]))
    def flush(self, passed_s: float, part: float) -> None:
        self.now_s += passed_s
        capacity = None if self.capacity is None else self.capacity * part
        paused = self.dispatch.pausing.paused(self.now_s)
        flushed = self.dispatch.flush(capacity, self.now_s, self.wall_us)
        assert not paused or not (flushed.handouts or flushed.expired)
        for handout in flushed.handouts:
            self.inflight.append(handout)
            for operation in handout.operations:
                self.attempts[id(operation)] += 1
                self.buffered.remove(operation)
        for operation in flushed.expired:
            assert operation.deadline_us is not None
            assert operation.deadline_us <= self.wall_us
            self.buffered.remove(operation)
        if not paused:
            assert not any(one.deadline_us is not None and one.deadline_us <= self.wall_us for one in self.buffered)
            assert self.dispatch.held_back == bool(self.buffered)

    # --- what comes back ---

    def _take(self, data: st.DataObject) -> Handout:
        handout = data.draw(st.sampled_from(self.inflight))
        self.inflight.remove(handout)
        return handout

    @precondition(lambda self: self.inflight)
    @rule(data=st.data(), actual=st.sampled_from([None, 0, 1, 30]))
    def end(self, data: st.DataObject, actual: int | None) -> None:
        handout = self._take(data)
        if actual is not None:
            handout.operations[0].settle(self.cost(actual))
        self.dispatch.end(handout)
        assert all(one.actual is None for one in handout.operations)

    @precondition(lambda self: self.inflight)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        handout = self._take(data)
        self.dispatch.end(handout)
        most = handout.watcher.max_attempts or math.inf
        again = [one for one in handout.operations if one.attempts < most]
        for operation in handout.operations:
            if operation.attempts >= most:
                with pytest.raises(TooManyAttempts):
                    self.dispatch.check([operation], self.capacity)
        self.dispatch.check(again, self.capacity)
        self.dispatch.put(again)
        self.buffered += again

    @precondition(lambda self: self.inflight)
    @rule(data=st.data(), asked_s=st.sampled_from([None, 0.2]))
    def throttle(self, data: st.DataObject, asked_s: float | None) -> None:
        handout = self._take(data)
        self.dispatch.pausing.throttle(self.now_s, handout.handed_out_s, asked_s, 0.5)
        self.dispatch.put_back(handout)
        self.dispatch.end(handout)
        self.attempts.subtract(map(id, handout.operations))
        self.buffered += handout.operations

    # --- what time brings ---

    @rule(passed_s=st.sampled_from([0.0, 0.3, 2.0]))
    def give_up(self, passed_s: float) -> None:
        self.now_s += passed_s
        due = [one for one in self.inflight if not one.late and one.late_s <= self.now_s]
        assert {id(one) for one in self.dispatch.give_up(self.now_s)} == {id(one) for one in due}
        assert self.dispatch.give_up(self.now_s) == []
        assert all(one.late for one in due)

    @rule(passed_s=st.sampled_from([0.0, 1.0, 10.0]))
    def audit(self, passed_s: float) -> None:
        self.now_s += passed_s
        found = self.dispatch.audit(self.now_s)
        quiet = not self.buffered and all(one.late for one in self.inflight)
        assert found in ("pass", "skip")
        assert found == "skip" or quiet

    @rule()
    def pause(self) -> None:
        self.dispatch.pausing.pause(self.now_s)

    @rule(turns=st.integers(1, 30))
    def do_what_is_due(self, turns: int) -> None:
        """As the loop does: at the moment it wants to be woken, everything that is due; then it wants a later one."""
        for _ in range(turns):
            self.now_s = max(self.now_s, self.dispatch.wake_s(self.now_s))
            self.give_up(0.0)
            if not self.dispatch.pausing.paused(self.now_s):
                if self.dispatch.requests.due(self.now_s):
                    self.dispatch.request(self.now_s)
                if self.dispatch.flushes.due(self.now_s) and self.buffered:
                    self.flush(0.0, 1.0)
                if self.dispatch.audits.due(self.now_s):
                    self.audit(0.0)
            assert self.now_s < self.dispatch.wake_s(self.now_s) <= self.now_s + 35

    # --- what is always so ---

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "dispatch"):
            return
        inflight = [one for handout in self.inflight if not handout.late for one in handout.operations]
        expected: Any = sum(one.cost for one in [*self.buffered, *inflight])
        difference = self.dispatch.target - expected
        assert not difference, (self.dispatch.target, expected)
        assert self.dispatch.buffer.count == len(self.buffered)
        assert self.dispatch.room == max(10_000 - len(self.buffered), 0)
        waiting = [one for lane in self.dispatch.buffer.lanes.values() for one in lane.operations]
        assert Counter(map(id, waiting)) == Counter(map(id, self.buffered))
        assert {id(one) for one in self.dispatch.handouts.values()} == {id(one) for one in self.inflight}

    @invariant()
    def slots_and_attempts_are_right(self) -> None:
        if not hasattr(self, "dispatch"):
            return
        assert len(self.dispatch.handouts) <= (self.dispatch.rules.max_concurrent_batches or math.inf)
        assert all(one.attempts == self.attempts[id(one)] for one in self.everything)


Books.TestCase.settings = settings(stateful_step_count=40)
TestBooks = Books.TestCase


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
        dispatch.end(handout)
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
    dispatch.end(handout)
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
        dispatch.end(handout)
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
        dispatch.end(handout)
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
    dispatch.end(handout)
    assert [dispatch.audit(now_s) for now_s in (1.0, 5.9, 6.0)] == ["skip", "skip", "pass"]


# --- what it asks for ---


def test_what_waits_is_asked_for() -> None:
    dispatch = dispatch_of()
    dispatch.begin(10, 0.0)
    dispatch.put([Operation(watcher(), 10) for _ in range(8)])
    assert dispatch.request(0.1) == 80
    assert len(dispatch.flush(10, 0.1, 0).handouts) == 1
    assert dispatch.request(5.0) == 70


def test_what_came_within_a_second_is_asked_for_if_that_is_more() -> None:
    dispatch = dispatch_of()
    dispatch.begin(1_000, 0.0)
    asked = []
    for tick in range(1, 21):
        dispatch.put([Operation(watcher(), 5)])
        asked.append(dispatch.request(tick / 10))
        dispatch.flush(1_000, tick / 10, 0)
    assert asked[4] == 25
    assert asked[-1] == 50
    assert [dispatch.request(now_s) for now_s in (2.5, 2.95, 3.0)] == [25, 5, 0]


def test_while_every_slot_is_taken_no_more_is_asked_for_than_is_sent() -> None:
    dispatch = dispatch_of(max_concurrent_batches=1)
    dispatch.begin(1_000, 0.0)
    dispatch.put([Operation(watcher(), 7) for _ in range(9)])
    assert dispatch.request(0.1) == 63
    (handout,) = dispatch.flush(1_000, 0.1, 0).handouts
    assert dispatch.request(0.2) == 7
    assert dispatch.request(1.2) == 0
    dispatch.end(handout)
    assert dispatch.request(1.3) == 56


def test_several_capacities_are_asked_for_by_name() -> None:
    dispatch = dispatch_of()
    dispatch.begin(Amounts(ru=10, net=10), 0.0)
    dispatch.put([Operation(watcher(), {"ru": 5}), Operation(watcher(), {"net": 3})])
    assert dispatch.request(0.1) == {"ru": 5, "net": 3}


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
    dispatch.request(0.1)
    dispatch.requests.due(0.1)
    dispatch.flush(100, 0.1, 0)
    assert dispatch.wake_s(0.1) == pytest.approx(0.2)
    assert dispatch.request(1.2) == 0
    assert dispatch.wake_s(1.2) == 60
