"""Loads on a shared capacity in virtual time, whose estimates may be wrong, and how long their operations wait."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from batchline import Operation, Watcher
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import capacity_of, dispatcher_of
from tests.runtime.instances import Instances

__all__ = ["FACTOR", "SHARED", "Load", "at_25_percent", "at_80_percent", "debt_s", "own_waits", "shared_waits"]

SHARED, FACTOR = 20_000, 500
#: Waits of this first part of a run are left out: partitions are still being acquired.
WARM_UP_S = 5.0


@dataclass
class Load:
    """Operations that arrive one by one at a mean rate, and how long each waited."""

    cost: float
    actual: float
    per_second: float
    takes: timedelta = timedelta(0)
    #: How many arrive at once.
    burst: int = 1
    #: Whether the time between two arrivals is random.
    chance: bool = True
    dice: random.Random = field(default_factory=lambda: random.Random(17))
    waits: list[tuple[float, float]] = field(default_factory=list)

    async def run(self, dispatcher: Any, seconds: float) -> None:
        """Enqueue operations at random or regular moments until `seconds` have passed."""
        watcher = Watcher(self.process, name="load")
        due_s = end_s = virtual_seconds()
        end_s += seconds
        while due_s < end_s:
            await asyncio.sleep(max(due_s - virtual_seconds(), 0.0))
            operations = [Operation(watcher, self.cost, due_s, batchable=True) for _ in range(self.burst)]
            await dispatcher.enqueue_many(operations)
            mean_s = self.burst / self.per_second
            due_s += self.dice.expovariate(1 / mean_s) if self.chance else mean_s

    async def process(self, operations: list[Operation]) -> None:
        """Note the waits, and report the actual costs."""
        now_s = virtual_seconds()
        self.waits += [(operation.payload, now_s - operation.payload) for operation in operations]
        await asyncio.sleep(self.takes.total_seconds())
        if self.actual != self.cost:
            for operation in operations:
                operation.settle(self.actual)

    @property
    def warm(self) -> list[float]:
        """The waits after the warm-up."""
        return [wait for at_s, wait in self.waits if at_s >= WARM_UP_S]


async def shared_waits(load: Load, seconds: float = 60, factor: int = FACTOR) -> list[float]:
    """Send a load through one instance of a shared capacity; return the waits."""
    instances = Instances(SHARED, factor=factor)
    limiter = await instances.start()
    dispatcher = dispatcher_of(limiter)
    await dispatcher.start()
    await load.run(dispatcher, seconds)
    await dispatcher.stop()
    await instances.stop()
    assert instances.too_much == []
    return load.warm


async def own_waits(load: Load, seconds: float = 60) -> list[float]:
    """Send a load through a provisioned capacity of the same size; return the waits."""
    async with dispatcher_of(capacity_of(SHARED)) as dispatcher:
        await load.run(dispatcher, seconds)
    return load.warm


def at_80_percent(takes: timedelta = timedelta(0)) -> Load:
    """A load of 80 % whose estimates are ten times too low."""
    return Load(cost=10, actual=100, per_second=0.8 * SHARED / 100, takes=takes)


def at_25_percent(burst: int = 1, chance: bool = False) -> Load:
    """A load of 25 % with right estimates."""
    return Load(cost=10, actual=10, per_second=0.25 * SHARED / 10, burst=burst, chance=chance)


async def debt_s(debt: float) -> float:
    """Settle one operation at a large cost; return how long the next one waits with 10,000 a second free."""
    instances = Instances(10_000, factor=1_000)
    limiter = await instances.start()
    sent: list[float] = []

    async def process(operations: list[Operation]) -> None:
        sent.append(virtual_seconds())
        operations[0].settle(debt if len(sent) == 1 else operations[0].cost)

    dispatcher, watcher = dispatcher_of(limiter), Watcher(process)
    await dispatcher.start()
    await dispatcher.enqueue(Operation(watcher, 10))
    await dispatcher.drain()
    await dispatcher.enqueue(Operation(watcher, 10))
    await dispatcher.drain()
    await dispatcher.stop()
    await instances.stop()
    return sent[1] - sent[0]
