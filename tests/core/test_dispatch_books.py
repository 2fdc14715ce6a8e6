"""The books of a dispatcher: right after every step that can be taken."""

import math
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchline.core.cost import Amounts
from batchline.core.dispatch import Handout
from batchline.core.moment import moment_of
from batchline.core.operation import WAITING, Operation
from batchline.errors import DuplicateOperation, TooExpensive, TooManyAttempts
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
        self.dispatch.claim(operations)
        self.dispatch.put(operations)
        self.buffered += operations
        self.everything += operations

    @rule(data=st.data(), twice=st.booleans())
    def be_refused_as_a_duplicate(self, data: st.DataObject, twice: bool) -> None:
        busy = [*self.buffered, *(one for handout in self.inflight for one in handout.operations)]
        new = Operation(self.owners[0], self.cost(1))
        if twice or busy:
            other = new if twice or not busy else data.draw(st.sampled_from(busy))
            with pytest.raises(DuplicateOperation):
                self.dispatch.claim([new, other])
        assert new.place is None

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
        self.dispatch.end(handout, self.now_s)
        assert all(one.actual is None for one in handout.operations)

    @precondition(lambda self: self.inflight)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        handout = self._take(data)
        self.dispatch.end(handout, self.now_s)
        most = handout.watcher.max_attempts or math.inf
        again = [one for one in handout.operations if one.attempts < most]
        for operation in handout.operations:
            if operation.attempts >= most:
                with pytest.raises(TooManyAttempts):
                    self.dispatch.check([operation], self.capacity)
        self.dispatch.check(again, self.capacity)
        self.dispatch.claim(again)
        self.dispatch.put(again)
        self.buffered += again

    @precondition(lambda self: self.inflight)
    @rule(data=st.data(), asked_s=st.sampled_from([None, 0.2]))
    def throttle(self, data: st.DataObject, asked_s: float | None) -> None:
        handout = self._take(data)
        self.dispatch.pausing.throttle(self.now_s, handout.handed_out_s, asked_s, 0.5)
        self.dispatch.put_back(handout)
        self.dispatch.end(handout, self.now_s)
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
                    self.dispatch.request(self.capacity, self.now_s)
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
    def every_operation_knows_its_place(self) -> None:
        if not hasattr(self, "dispatch"):
            return
        places = dict.fromkeys(map(id, self.buffered), WAITING)
        for handout in self.inflight:
            places |= dict.fromkeys(map(id, handout.operations), handout.place)
        assert all(one.place is places.get(id(one)) for one in self.everything)

    @invariant()
    def slots_and_attempts_are_right(self) -> None:
        if not hasattr(self, "dispatch"):
            return
        assert len(self.dispatch.handouts) <= (self.dispatch.rules.max_concurrent_batches or math.inf)
        assert all(one.attempts == self.attempts[id(one)] for one in self.everything)


Books.TestCase.settings = settings(stateful_step_count=40)
TestBooks = Books.TestCase
