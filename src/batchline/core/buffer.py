"""Operations that wait: in a lane for each watcher and priority, in the order they came."""

import math
from collections import deque
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from batchline.core.cost import Amount
from batchline.core.operation import Operation, Watcher

__all__ = ["Buffer", "Lane"]

cost_of = attrgetter("cost")
deadline_of = attrgetter("deadline_us")
watcher_of = attrgetter("watcher")
priority_of = attrgetter("priority")
lane_of = attrgetter("watcher", "priority")


class Lane:
    """The operations of one watcher at one priority."""

    __slots__ = ("began", "free", "kind", "new", "number", "operations", "priority", "served", "watcher")

    def __init__(self, watcher: Watcher, priority: int, number: int):
        self.watcher, self.priority, self.number = watcher, priority, number
        #: How much was taken from it, by weight: who has got least is next.
        self.served = 0.0
        #: Whether it was empty before: then it has yet to begin where the others are.
        self.new = True
        #: Which of several capacities its first operation uses most of.
        self.kind: str | None = None
        #: How much that was before the last was taken.
        self.began = 0.0
        self.operations: deque[Operation] = deque()
        #: How many of them cost nothing.
        self.free = 0


class Buffer:
    """All operations that wait, and what they cost together."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[Watcher, int], Lane] = {}
        self.count = 0
        self.cost: Amount = 0
        #: By priority and kind, how much the lane had got that was next last.
        self.served: dict[tuple[int, str | None], float] = {}
        #: Not before this moment is one past its deadline.
        self.deadline_us: float = math.inf
        self._lanes_made = 0

    def add(self, operations: list[Operation]) -> None:
        """Put operations at the end of their lanes."""
        if len(operations) == 1:
            self._add_one(operations[0])
            return
        self._count(operations)
        for lane, run in self._runs(operations):
            lane.operations.extend(run)

    def _add_one(self, operation: Operation) -> None:
        """The same as for many, without what is only worth it for them."""
        self.count += 1
        self.cost = self.cost + operation.cost
        if operation.deadline_us is not None:
            self.deadline_us = min(self.deadline_us, operation.deadline_us)
        lane = self._lane(operation.watcher, operation.priority)
        lane.free += not operation.cost
        lane.operations.append(operation)

    def put_back(self, operations: list[Operation]) -> None:
        """Put operations that were taken at the beginning of their lanes again."""
        self._count(operations)
        for lane, run in self._runs(operations[::-1]):
            lane.operations.extendleft(run)

    def note_turn(self, lane: Lane) -> None:
        """Note that it was a lane's turn."""
        key = (lane.priority, lane.kind)
        self.served[key] = max(self.served.get(key, 0.0), lane.began)

    def let_in(self) -> None:
        """New lanes begin where the last of their kind was, and no lower than any that waits: with no advantage."""
        least: dict[int, float] = {}
        for lane in self.lanes.values():
            if lane.operations and not lane.new:
                least[lane.priority] = min(least.get(lane.priority, math.inf), lane.served)
        for lane in self.lanes.values():
            if lane.operations and lane.new:
                last = self.served.get((lane.priority, lane.kind), 0.0)
                lane.served, lane.new = max(lane.served, last, least.get(lane.priority, 0.0)), False

    def taken(self, operations: list[Operation], cost: Amount) -> None:
        """Note that operations were taken out of their lanes, which cost so much together."""
        self.count -= len(operations)
        # Of nothing the cost is nothing: what rounding left is not carried on.
        self.cost = self.cost - cost if self.count else 0

    def take_free(self, lane: Lane) -> list[Operation]:
        """Take operations that cost nothing out of a lane, past those that wait for capacity."""
        found = [operation for operation in lane.operations if not operation.cost]
        lane.operations = deque(operation for operation in lane.operations if operation.cost)
        lane.free = 0
        return found

    def take_expired(self, wall_us: int) -> list[Operation]:
        """Take all whose deadline has passed."""
        if wall_us < self.deadline_us:
            return []
        expired: list[Operation] = []
        self.deadline_us = math.inf
        for lane in self.lanes.values():
            expired += self._expire(lane, wall_us)
        self.taken(expired, sum(map(cost_of, expired)))
        return expired

    def take_all(self) -> list[Operation]:
        """Take everything, lane by lane."""
        everything = [operation for lane in self.lanes.values() for operation in lane.operations]
        self.lanes.clear()
        self.count, self.cost, self.deadline_us = 0, 0, math.inf
        return everything

    def forget_empty(self) -> None:
        """Forget lanes that are empty, unless they have got more than others: they would come back with less."""
        # Where nobody waits, nobody has got more than others.
        waiting = {lane.priority for lane in self.lanes.values() if lane.operations}
        self.served = {key: served for key, served in self.served.items() if key[0] in waiting}
        for key in [key for key, lane in self.lanes.items() if not lane.operations and not self._ahead(lane)]:
            del self.lanes[key]

    def _ahead(self, lane: Lane) -> bool:
        return lane.served > self.served.get((lane.priority, lane.kind), math.inf)

    def _count(self, operations: list[Operation]) -> None:
        self.count += len(operations)
        self.cost = self.cost + sum(map(cost_of, operations))
        timed = [deadline for deadline in map(deadline_of, operations) if deadline is not None]
        self.deadline_us = min([self.deadline_us, *timed])

    def _runs(self, operations: list[Operation]) -> Iterable[tuple[Lane, list[Operation]]]:
        """Operations as runs of one lane each."""
        alike = len(set(map(watcher_of, operations))) == 1 and len(set(map(priority_of, operations))) == 1
        runs = [(lane_of(operations[0]), operations)] if alike else groupby(operations, lane_of)
        for (watcher, priority), run in runs:
            of_lane = list(run)
            lane = self._lane(watcher, priority)
            lane.free += list(map(cost_of, of_lane)).count(0)
            yield lane, of_lane

    def _lane(self, watcher: Watcher, priority: int) -> Lane:
        lane = self.lanes.get((watcher, priority))
        if lane is None:
            self._lanes_made += 1
            lane = self.lanes[watcher, priority] = Lane(watcher, priority, self._lanes_made)
        elif not lane.operations:
            lane.new = True
        return lane

    def _expire(self, lane: Lane, wall_us: int) -> list[Operation]:
        expired = [one for one in lane.operations if one.deadline_us is not None and one.deadline_us <= wall_us]
        if expired:
            gone = set(map(id, expired))
            lane.operations = deque(one for one in lane.operations if id(one) not in gone)
            lane.free -= sum(not one.cost for one in expired)
        timed = (one.deadline_us for one in lane.operations if one.deadline_us is not None)
        self.deadline_us = min([self.deadline_us, *timed])
        return expired
