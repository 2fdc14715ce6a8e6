"""What to send now: operations while the balance lasts, in batches, watchers in turns.

Higher priority first. Among watchers of one priority, who has got least (by cost; without a limit, by batches) is
next. A lane whose first operation does not fit waits; others go on. What costs nothing is never held back.
"""

import math
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile
from operator import attrgetter
from typing import Final

from batchline.core.balance import Balance, Balances, Unlimited
from batchline.core.buffer import Buffer, Lane, cost_of
from batchline.core.cost import Amount
from batchline.core.operation import Operation, Watcher

__all__ = ["Batched", "take_batches"]

#: What a batch weighs by itself, so that watchers whose operations cost nothing take turns, too.
BATCH_WEIGHT: Final = 1e-9
Turn = tuple[int, float, int, Lane]
batchable_of = attrgetter("batchable")


@dataclass(slots=True)
class Batched:
    """Operations that one watcher gets at once."""

    watcher: Watcher
    operations: list[Operation] = field(default_factory=list)
    cost: Amount = 0


def take_batches(buffer: Buffer, balance: Balance | Balances | Unlimited, slots: float) -> list[Batched]:
    """Take what may go now out of the buffer, in at most so many batches; the balance is told what was spent."""
    taking = Taking(buffer, balance, slots)
    waiting = [lane for lane in buffer.lanes.values() if lane.operations]
    for lane in waiting:
        lane.kind = balance.scarcest(lane.operations[0].cost)
    buffer.let_in()
    turns = [turn_of(lane) for lane in waiting]
    heapify(turns)
    while turns and taking.may_go_on:
        lane = turns[0][3]
        until = _next_served(turns)
        may_go_on = taking.take(lane, until)
        buffer.note_turn(lane)
        if may_go_on and lane.operations:
            heapreplace(turns, turn_of(lane))
        else:
            heappop(turns)
    balance.wanting(taking.wanting)
    buffer.forget_empty()
    return taking.batches


def turn_of(lane: Lane) -> Turn:
    """When a lane is next: by priority, by what it has got, by age."""
    return (-lane.priority, lane.served, lane.number, lane)


def _next_served(turns: list[Turn]) -> float | None:
    """What the lane has got that is next after the first, at the same priority; None if there is no such lane."""
    others = [turn for turn in turns[1:3] if turn[0] == turns[0][0]]
    return min((turn[1] for turn in others), default=None)


class Taking:
    """The batches that are being made in one flush."""

    def __init__(self, buffer: Buffer, balance: Balance | Balances | Unlimited, slots: float):
        self.batches: list[Batched] = []
        #: Whether something was left for want of capacity.
        self.wanting = False
        self._buffer, self._balance, self._slots = buffer, balance, slots
        #: The batch of each watcher that has room for more.
        self._open: dict[Watcher, Batched] = {}

    @property
    def may_go_on(self) -> bool:
        """Whether there is a slot for another batch, or a batch that has room."""
        return self._slots > len(self.batches) or bool(self._open)

    def take(self, lane: Lane, until: float | None) -> bool:
        """Take from a lane until it has got more than the next one; tells whether it could go on after that."""
        if not self._balance.limited:
            return self._take_run(lane)
        while lane.operations:
            first = lane.operations[0]
            if not self._balance.fits(first.cost):
                self.wanting = True
                self._take_free(lane)
                return False
            batch = self._batch_for(lane, first.batchable)
            if batch is None:
                return False
            self._take_fitting(lane, batch, until)
            if until is not None and lane.served > until:
                break
        return True

    def _take_fitting(self, lane: Lane, batch: Batched, until: float | None) -> None:
        """Take the first, and those after it that may go with it."""
        waiting, balance, enough = lane.operations, self._balance, math.inf if until is None else until
        room = self._room(batch) if waiting[0].batchable else 1
        run: list[Operation] = []
        while waiting and len(run) < room:
            operation = waiting[0]
            cost = operation.cost
            if run and (lane.served > enough or not operation.batchable or not balance.fits(cost)):
                break
            run.append(waiting.popleft())
            lane.began = lane.served
            lane.served += balance.weight(cost)
            balance.spend(cost)
        self._put_run(lane, batch, run)

    def _take_run(self, lane: Lane) -> bool:
        """Without a limit, up to a batch at once."""
        waiting = lane.operations
        batch = self._batch_for(lane, waiting[0].batchable)
        if batch is None:
            return False
        run = list(takewhile(batchable_of, islice(waiting, self._room(batch)))) or [waiting[0]]
        for _ in run:
            waiting.popleft()
        self._put_run(lane, batch, run)
        return True

    def _take_free(self, lane: Lane) -> None:
        """What costs nothing goes past what waits."""
        found = self._buffer.take_free(lane) if lane.free else []
        for place, operation in enumerate(found):
            batch = self._batch_for(lane, operation.batchable)
            if batch is None:
                lane.operations.extendleft(reversed(found[place:]))
                lane.free += len(found) - place
                return
            self._put(batch, [operation], 0)

    def _put_run(self, lane: Lane, batch: Batched, run: list[Operation]) -> None:
        costs = list(map(cost_of, run))
        lane.free -= costs.count(0)
        self._put(batch, run, sum(costs))

    def _put(self, batch: Batched, operations: list[Operation], cost: Amount) -> None:
        batch.operations += operations
        batch.cost = batch.cost + cost
        self._buffer.taken(operations, cost)
        if not self._room(batch):
            self._open.pop(batch.watcher, None)

    def _room(self, batch: Batched) -> int:
        most = batch.watcher.max_batch_size
        return self._buffer.count + 1 if most is None else most - len(batch.operations)

    def _batch_for(self, lane: Lane, batchable: bool) -> Batched | None:
        """The batch that the next operation of a lane goes into; None if there is no slot for a new one."""
        watcher = lane.watcher
        if batchable and watcher in self._open:
            return self._open[watcher]
        # What comes after one that travels alone, or that found no slot, must not overtake it.
        self._open.pop(watcher, None)
        if len(self.batches) >= self._slots:
            return None
        lane.began = lane.served
        # However much it has got, this is more.
        lane.served = max(lane.served + BATCH_WEIGHT, math.nextafter(lane.served, math.inf))
        batch = Batched(watcher)
        self.batches.append(batch)
        if batchable:
            self._open[watcher] = batch
        return batch
