"""A scenario, played: the same rules and loops as in earnest, in virtual time, so that minutes take a second."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from batchline.core.cost import most
from batchline.core.scenario import Scenario
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.counted_leases import CountedLeases
from batchline.runtime.simulated_instance import Run, SimulatedInstance, sleep_until
from batchline.runtime.simulated_receiver import SimulatedReceiver
from batchline.runtime.simulation_record import Recorder, Simulation, recorded
from batchline.runtime.virtual_time import run_virtually, virtual_seconds
from batchline.stores import open_store

__all__ = ["Watch", "simulate"]

#: Is told a step's name, how much of it is done, and how much there is.
Watch = Callable[[str, int, int], None]
#: The number of the instance that a task belongs to.
owner: ContextVar[int] = ContextVar("owner", default=0)


def simulate(scenario: Scenario, watch: Watch | None = None) -> Simulation:
    """Play a scenario to its end: all work is done, or its time is up. The same one gives the same, every time."""
    return run_virtually(Play(scenario, watch).run(), inline=True)


class Play:
    """A scenario while it is played."""

    def __init__(self, scenario: Scenario, watch: Watch | None):
        self._scenario, self._watch = scenario, watch
        self._receiver = SimulatedReceiver(scenario.receiver, most(*(job.cost for job in scenario.jobs)))
        self._calls: Counter[str] = Counter()
        self._store = open_store("memory://")
        self._over = asyncio.Event()
        self._tasks: dict[int, set[asyncio.Task[Any]]] = {}
        self._failed: BaseException | None = None

    async def run(self) -> Simulation:
        """Play it."""
        asyncio.get_running_loop().set_task_factory(self._own_task)
        self._instances = self._make_instances()
        self._runs = [run for instance in self._instances for run in instance.runs]
        recorder = Recorder(self._scenario, self._instances, self._receiver, self._calls)
        self._begin(recorder.record(self._tell))
        for run in self._runs:
            self._begin(run.arrive())
        for instance in self._instances:
            self._begin_instance(instance)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self._scenario.longest.total_seconds())
        recorder.note(virtual_seconds())
        self._store.close()
        if self._failed is not None:
            raise self._failed
        return recorded(recorder, self._runs, virtual_seconds())

    def _make_instances(self) -> list[SimulatedInstance]:
        chance = random.Random(self._scenario.seed).random  # noqa: S311 - the same every time
        leases = CountedLeases(StoreLeases(self._store, "simulated"), self._calls)
        numbers = range(1, self._scenario.instances + 1)
        instances = [SimulatedInstance(number, self._scenario, leases, chance) for number in numbers]
        for job in self._scenario.jobs:
            for number in job.on or numbers:
                instance = instances[number - 1]
                run = Run(job, instance, self._receiver, self._scenario.max_batch_size, self._look)
                instance.runs.append(run)
        return instances

    def _look(self) -> None:
        if all(run.over for run in self._runs):
            self._over.set()

    def _tell(self) -> None:
        if self._watch is not None:
            total = sum(run.job.total for run in self._runs)
            self._watch("simulating", sum(run.done + run.lost for run in self._runs), total)

    # --- tasks, and whose they are ---

    def _own_task(self, loop: Any, work: Any, **more: Any) -> asyncio.Task[Any]:
        """Every task is noted with its instance, so that an instance can be killed: nothing of it goes on."""
        task = asyncio.Task(work, loop=loop, **more)
        tasks = self._tasks.setdefault(owner.get(), set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.ensure_future(work).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failed = task.exception()
            self._over.set()

    def _begin_instance(self, instance: SimulatedInstance) -> None:
        token = owner.set(instance.number)
        self._begin(instance.live())
        owner.reset(token)
        kill = self._scenario.life(instance.number).kill
        if kill is not None:
            self._begin(self._kill(instance, kill.total_seconds()))

    async def _kill(self, instance: SimulatedInstance, at_s: float) -> None:
        await sleep_until(at_s)
        for task in list(self._tasks.get(instance.number, ())):
            task.cancel()
        instance.end()
