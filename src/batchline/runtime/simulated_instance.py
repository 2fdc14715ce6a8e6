"""An instance that is simulated: the real dispatcher and the real limiter, in virtual time, with work that comes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from batchline.core.operation import Operation, Watcher
from batchline.core.scenario import Job, Scenario, arrivals
from batchline.core.waits import Waits
from batchline.errors import DispatcherStopped
from batchline.leases.lease_manager import LeaseManager
from batchline.runtime.dispatcher import Dispatcher
from batchline.runtime.limiter import Limiter
from batchline.runtime.provisioned_resource import ProvisionedResource
from batchline.runtime.shared_resource import SharedResource
from batchline.runtime.simulated_receiver import SimulatedReceiver
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us

__all__ = ["Run", "SimulatedInstance", "sleep_until"]

#: So many operations are made at once: no more of a large job exist than wait in the buffer.
CHUNK: Final = 5_000
arrived_of = attrgetter("payload")


async def sleep_until(at_s: float) -> None:
    """Until that moment, or not at all if it has been."""
    await asyncio.sleep(max(at_s - virtual_seconds(), 0.0))


class SimulatedInstance:
    """One process of many that send to the same receiver."""

    def __init__(self, number: int, scenario: Scenario, leases: LeaseManager, chance: Callable[[], float]):
        self.number = number
        self.runs: list[Run] = []
        #: What the receiver took of it, and what it refused.
        self.accepted: Any = scenario.receiver.limit * 0
        self.throttled: Any = scenario.receiver.limit * 0
        self.paused_ms: list[int] = []
        #: Whether it was stopped or killed.
        self.ended = False
        self._scenario, self._chance = scenario, chance
        self._limiter = _limiter(number, scenario, leases, chance)
        rules = {field.name: getattr(scenario.dispatcher, field.name) for field in fields(scenario.dispatcher)}
        self._dispatcher = Dispatcher(
            self._limiter, clock=virtual_seconds, wall=virtual_wall_us, chance=chance, **rules
        )
        self._dispatcher.events.add_listener(self._hear)

    def _hear(self, name: str, value: Any, message: str | None, metadata: Any) -> None:  # noqa: ARG002 - as listeners are
        if name == "pause":
            self.paused_ms.append(value)

    @property
    def capacity(self) -> Any:
        """What it may send a second now; without a limit, nothing is told."""
        nothing = self._scenario.receiver.limit * 0
        if self.ended or self._limiter is None:
            return nothing
        return nothing + self._limiter.events.values.get("capacity", 0)

    @property
    def partitions(self) -> int:
        """How many partitions it holds."""
        return len(self._limiter.partitions) if isinstance(self._limiter, SharedResource) and not self.ended else 0

    async def live(self) -> None:
        """Start, take the work that comes, and stop, if it is to."""
        life = self._scenario.life(self.number)
        # Not all at the same moment: no two processes start so.
        late_s = self._scenario.dispatcher.flush_interval.total_seconds() * self._chance()
        await sleep_until(life.start.total_seconds() + late_s)
        await self._dispatcher.start()
        feeding = [asyncio.ensure_future(run.feed(self._dispatcher)) for run in self.runs]
        if life.stop is None:
            await asyncio.gather(*feeding)
            return
        await sleep_until(life.stop.total_seconds())
        await self._dispatcher.stop()
        self.end()

    def end(self) -> None:
        """It is no more; what it had not done is lost, or for others to do."""
        self.ended = True
        for run in self.runs:
            run.lose()


class Run:
    """A job on an instance: what has come, and what became of it."""

    def __init__(
        self,
        job: Job,
        instance: SimulatedInstance,
        receiver: SimulatedReceiver,
        most: int | None,
        over: Callable[[], None],
    ):
        self.job, self.instance = job, instance
        self.arrived = self.done = self.lost = 0
        #: When the first was sent, and when the last was done.
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.waits = Waits()
        self._receiver, self._over = receiver, over
        self._coming: asyncio.Queue[tuple[float, int]] = asyncio.Queue()
        self._watcher = Watcher(self._process, name=job.name, max_batch_size=most)

    @property
    def backlog(self) -> int:
        """How many records have come and are not done."""
        return self.arrived - self.done - self.lost

    @property
    def over(self) -> bool:
        """Whether all has come, and nothing is left to do."""
        return self.arrived == self.job.total and not self.backlog

    async def arrive(self) -> None:
        """Records come, whether there is somebody to take them or not."""
        for at_s, count in arrivals(self.job):
            await sleep_until(at_s)
            self.arrived += count
            self._coming.put_nowait((at_s, count))
            if self.instance.ended:
                self.lose()

    async def feed(self, dispatcher: Dispatcher) -> None:
        """Enqueue what has come, in its order, as there is room."""
        with suppress(DispatcherStopped):
            while True:
                at_s, count = await self._coming.get()
                for begin in range(0, count, CHUNK):
                    await dispatcher.enqueue_many(self._operations(at_s, min(CHUNK, count - begin)))

    def _operations(self, at_s: float, count: int) -> list[Operation]:
        job, watcher = self.job, self._watcher
        return [
            Operation(watcher, job.cost, at_s, batchable=job.batchable, priority=job.priority) for _ in range(count)
        ]

    async def _process(self, operations: list[Operation]) -> None:
        cost = self.job.cost * len(operations)
        taken = self._receiver.take(cost)
        if taken:
            self._note_taken(operations, cost)
        else:
            self.instance.throttled = self.instance.throttled + cost
        await self._receiver.answer(taken)
        self.done += len(operations)
        self.ended_s = virtual_seconds()
        self._look()

    def _note_taken(self, operations: list[Operation], cost: Any) -> None:
        now_s = virtual_seconds()
        self.began_s = now_s if self.began_s is None else self.began_s
        self.instance.accepted = self.instance.accepted + cost
        for arrived_s, count in Counter(map(arrived_of, operations)).items():
            self.waits.note(now_s - arrived_s, count)

    def lose(self) -> None:
        """What has come and is not done will not be."""
        self.lost += self.backlog
        self._look()

    def _look(self) -> None:
        if self.over:
            self._over()


def _limiter(number: int, scenario: Scenario, leases: LeaseManager, chance: Callable[[], float]) -> Limiter | None:
    plan = scenario.capacity
    if plan.shared is not None:
        rules = {field.name: getattr(plan.shared, field.name) for field in fields(plan.shared)}
        return SharedResource(
            leases,
            **rules,
            instance=f"instance-{number}",
            ramp=plan.ramp,
            adaptive=plan.adaptive,
            clock=virtual_seconds,
            wall=virtual_wall_us,
            chance=chance,
        )
    if plan.provisioned is not None:
        return ProvisionedResource(plan.provisioned, ramp=plan.ramp, adaptive=plan.adaptive, clock=virtual_seconds)
    return None
