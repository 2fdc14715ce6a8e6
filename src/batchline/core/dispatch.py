"""What a dispatcher knows and decides: what waits, what is under way, how much may go. It is told the time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from batchline.core.balance import open_balance
from batchline.core.buffer import Buffer
from batchline.core.cost import Amount, Amounts, exceeds, most, names_of
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.operation import WAITING, Operation, OperationPlace, Watcher
from batchline.core.pausing import Pausing
from batchline.core.recent import Recent
from batchline.core.settled_cost import SettledCost, divide_actual
from batchline.core.taking import Batched, take_batches
from batchline.core.ticker import Ticker
from batchline.errors import DuplicateOperation, InvalidOperation, TooExpensive, TooManyAttempts, did_you_mean, shown

__all__ = ["Dispatch", "Flushed", "Handout"]


@dataclass(slots=True, eq=False)
class Handout:
    """A batch in the hands of its watcher's callback."""

    watcher: Watcher
    operations: list[Operation]
    cost: Amount
    handed_out_s: float
    #: When it is given up: its cost is given back, and it goes on.
    late_s: float
    late: bool = False
    #: Whether it was throttled: then its actual costs say nothing about the next attempt.
    throttled: bool = False
    #: Where its operations are until its callback has ended.
    place: OperationPlace = field(default_factory=OperationPlace)


@dataclass(slots=True)
class Flushed:
    """What a flush has come to."""

    handouts: list[Handout]
    #: Operations whose deadline has passed.
    expired: list[Operation] = field(default_factory=list)


class Dispatch:
    """The state of a dispatcher, and its decisions."""

    def __init__(self, rules: DispatchRules):
        self.rules = rules
        self.buffer = Buffer()
        self.pausing = Pausing(rules)
        #: Batches whose callbacks have not ended; the late ones hold a slot, and no cost any more.
        self.handouts: dict[int, Handout] = {}
        #: Whether the last flush left something behind: it waits for capacity or a slot.
        self.held_back = False
        self._next_late_s = math.inf
        self._last_handout_s = -math.inf
        self._arrived, self._sent = Recent(), Recent()
        self._settling = SettledCost()
        self._arriving: Amount = 0
        self._requested: Amount = 0
        #: What waits elsewhere until what is here has gone.
        self.expected: Amount = 0
        #: What all operations cost that were handed out since the start.
        self.used: Amount = 0
        self.begin(None, 0.0)

    def begin(self, capacity: Amount | None, now_s: float) -> None:
        """Everything counts from now on; `capacity` is what the limiter gives, None without one."""
        flush_s = self.rules.flush_interval.total_seconds()
        self._balance = open_balance(capacity, flush_s, now_s)
        self.flushes = Ticker(flush_s, now_s)
        self.requests = Ticker(self.rules.capacity_interval.total_seconds(), now_s)
        self.audits = Ticker(self.rules.audit_interval.total_seconds(), now_s)

    # --- what comes in ---

    def check(self, operations: list[Operation], max_capacity: Amount | None) -> None:
        """All of them can be enqueued; else a named error."""
        for operation in operations:
            limit = operation.watcher.max_attempts
            if limit is not None and operation.attempts >= limit:
                raise TooManyAttempts(f"{operation!r} was handed out {operation.attempts} times, which is the most")
        if max_capacity is not None:
            for cost in {operation.cost for operation in operations}:
                _check_cost(cost, max_capacity)

    def claim(self, operations: list[Operation], within: OperationPlace | None = None) -> list[Operation]:
        """Mark operations as waiting. If one of them is enqueued or in flight already, raise and mark none.

        Those of the batch `within` may be enqueued again: it is the batch of the callback that does so. Return them.
        """
        own = [operation for operation in operations if operation.place is within] if within else []
        self.release(own)
        for index, operation in enumerate(operations):
            if operation.place is not None:
                earlier = operations[:index]
                error = _duplicate(operation, any(one is operation for one in earlier))
                self.release(earlier)
                self.return_to(within, own)
                raise error
            operation.place = WAITING
        return own

    def return_to(self, batch: OperationPlace | None, operations: Iterable[Operation]) -> None:
        """Mark operations that their own callback could not enqueue as in flight, unless it has ended."""
        for operation in operations:
            operation.place = None if batch is None or batch.ended else batch

    def release(self, operations: Iterable[Operation]) -> None:
        """Mark operations as handed back: they can be enqueued again, here or elsewhere."""
        for operation in operations:
            operation.place = None

    @property
    def room(self) -> int:
        """How many operations the buffer can take."""
        return max(self.rules.buffer - self.buffer.count, 0)

    def put(self, operations: list[Operation]) -> None:
        """Enqueue operations; who puts in more than there is room for has a reason."""
        before = self.buffer.cost
        self.buffer.add(operations)
        self._arriving = self._arriving + (self.buffer.cost - before)

    def put_back(self, handout: Handout) -> None:
        """Put operations that could not be tried first in line again; this was no attempt.

        Those that their callback has enqueued again already stay where they are.
        """
        handout.throttled = True
        for operation in handout.operations:
            operation.attempts -= 1
        again = [operation for operation in handout.operations if operation.place is handout.place]
        for operation in again:
            operation.place = WAITING
        self.buffer.put_back(again)

    # --- what goes out ---

    def flush(self, capacity: Any, now_s: float, wall_us: int) -> Flushed:
        """Hand out what may go now, if it is not paused."""
        self._note_arrivals(now_s)
        if self.pausing.paused(now_s):
            return Flushed([])
        expired = self.buffer.take_expired(wall_us)
        self.release(expired)
        self._balance.accrue(capacity, now_s)
        batches = take_batches(self.buffer, self._balance, self._slots)
        self.held_back = self.buffer.count > 0
        return Flushed([self._hand_out(batch, now_s) for batch in batches], expired)

    def resume(self, capacity: Any, now_s: float) -> None:
        """A pause is over: the receiver had a rest, which is not made up for by a burst."""
        self._balance.accrue(capacity, now_s)
        self._balance.empty()

    @property
    def _slots(self) -> float:
        limit = self.rules.max_concurrent_batches
        return math.inf if limit is None else limit - len(self.handouts)

    def _hand_out(self, batch: Batched, now_s: float) -> Handout:
        longest = batch.watcher.max_operation_time or self.rules.max_operation_time
        handout = Handout(batch.watcher, batch.operations, batch.cost, now_s, now_s + longest.total_seconds())
        place = handout.place
        for operation in batch.operations:
            operation.attempts += 1
            operation.place = place
        self.handouts[id(handout)] = handout
        self._next_late_s = min(self._next_late_s, handout.late_s)
        self._last_handout_s = now_s
        self._sent.note(batch.cost, now_s)
        self.used = self.used + batch.cost
        return handout

    # --- what comes back ---

    def end(self, handout: Handout, now_s: float) -> None:
        """Free the slot of a callback that has ended, however; give its cost back, and count what it reported."""
        del self.handouts[id(handout)]
        place, actual = handout.place, handout.cost
        place.ended = True
        for operation in handout.operations:
            # Its callback may have enqueued it again.
            if operation.place is place:
                operation.place = None
            if operation.actual is not None:
                actual = actual + self._settle(operation, operation.actual)
        if not handout.throttled:
            # A batch that cost less than estimated needed its whole estimate to go: the rest came back later.
            self._settling.note(handout.cost, most(handout.cost, actual), now_s)

    def _settle(self, operation: Operation, actual: Amount) -> Any:
        """Debit or refund what an operation cost beyond its estimate; return it, for capacities that had one."""
        operation.actual = None
        self._balance.settle(operation.cost, actual)
        foreseen, unforeseen = divide_actual(actual, operation.cost)
        self._arriving = self._arriving + unforeseen
        return foreseen - operation.cost

    def give_up(self, now_s: float) -> list[Handout]:
        """Batches that take too long give their cost back; tells those that do so now."""
        if now_s < self._next_late_s:
            return []
        late = [one for one in self.handouts.values() if not one.late and one.late_s <= now_s]
        for handout in late:
            handout.late = True
        self._next_late_s = min((one.late_s for one in self.handouts.values() if not one.late), default=math.inf)
        return late

    # --- the books ---

    @property
    def target(self) -> Any:
        """What all costs that is buffered or in flight."""
        return self.buffer.cost + sum(one.cost for one in self.handouts.values() if not one.late)

    def request(self, capacity: Any, now_s: float) -> Any:
        """Compute how much capacity a second could be used now: backlog, arrivals of the last second and debt.

        All of it in settled cost: estimates are raised to what operations recently cost. While something is held
        back, what waits elsewhere for it is part of the backlog. While every slot is taken, what is being sent counts
        in place of backlog and arrivals.
        """
        self._note_arrivals(now_s)
        self._balance.accrue(capacity, now_s)
        if self._slots <= 0:
            usable = self._sent.total(now_s)
        else:
            usable = self.buffer.cost + (self.expected if self.held_back else 0) + self._arrived.total(now_s)
        self._requested = self._settling.scale(usable) + self._balance.debt
        return self._requested

    @property
    def owes_unasked(self) -> bool:
        """Whether there is a debt while no capacity is being asked for."""
        return not self._requested and bool(self._balance.debt)

    def _note_arrivals(self, now_s: float) -> None:
        self._arrived.note(self._arriving, now_s)
        self._arriving = 0

    def audit(self, now_s: float) -> Literal["pass", "fail", "skip"]:
        """Look the books over, when there should be nothing in them; wrong ones are put right."""
        quiet_s = now_s - self.rules.max_operation_time.total_seconds()
        if self.buffer.count or any(not one.late for one in self.handouts.values()) or self._last_handout_s > quiet_s:
            return "skip"
        if not any(lane.operations for lane in self.buffer.lanes.values()) and not self.target:
            return "pass"
        self.release(self.buffer.take_all())
        self.buffer = Buffer()
        return "fail"

    def wake_s(self, now_s: float) -> float:
        """When there is something to do next, if nothing comes in."""
        if self.pausing.paused(now_s):
            return min(self.pausing.until_s, self._next_late_s)
        upkeep = min(self._next_late_s, self.audits.next_s)
        if self._balance.limited and (self.buffer.count or self._requested or self.owes_unasked):
            upkeep = min(upkeep, self.requests.next_s)
        return min(upkeep, self.flushes.next_s) if self.buffer.count else upkeep


def _duplicate(operation: Operation, same_call: bool) -> DuplicateOperation:
    where = "in the same call" if same_call else "enqueued" if operation.place is WAITING else "in flight"
    return DuplicateOperation(
        f"the operation of {operation.watcher.name} with payload {shown(operation.payload)} is already {where}; "
        "an operation can be enqueued once at a time: enqueue it again after its batch has ended, or make a new one"
    )


def _check_cost(cost: Amount, max_capacity: Amount) -> None:
    if not cost:
        return
    known = names_of(max_capacity)
    if isinstance(cost, Amounts) != (known is not None):
        expected = "a number" if known is None else f"a mapping of {', '.join(known)}"
        raise InvalidOperation(f"cost must be {expected}, as the capacity is, got {cost!r}")
    for name in names_of(cost) or ():
        if name not in (known or ()):
            raise InvalidOperation(f"there is no capacity {name!r}{did_you_mean(name, known or ())}, in cost {cost!r}")
    if exceeds(cost, max_capacity):
        raise TooExpensive(f"cost {cost!r} is more than the limiter can ever give in a second, {max_capacity!r}")
