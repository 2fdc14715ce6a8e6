"""The life of messages, phase by phase, each timed: all are created, then leased, then done, then (ours) pruned.

Between create and lease the database does its housekeeping. A phase ends when there is nothing left for it, or when
the time is up; the next goes on with what there is.
"""

import multiprocessing
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Barrier
from typing import Any

from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.measure import within
from tests.benchmarks.timeline_ours import Ours, contender
from tests.benchmarks.timeline_peers import Queue, settle

__all__ = ["LIMIT_S", "PHASES", "Life", "live_in_processes", "live_in_threads", "whole_life"]

#: The longest that one phase is measured, in bulk and singly.
LIMIT_S, SINGLE_LIMIT_S = 2.0, 1.0
#: The longest that processes wait for each other: one that failed must not keep the others for ever.
WAIT_S = 120.0
PHASES = ("create", "lease", "done", "prune")
#: Calls of each worker before the clock runs: connections are open then, and statements prepared.
WARM_CALLS = 8
#: No two alike, and none to be compressed: databases would make little of a bundle of equal bodies.
BODIES = [random.Random(number).randbytes(100) for number in range(5_000)]


@dataclass(frozen=True)
class Life:
    """How many messages, how many in a call, by how many workers."""

    total: int
    at_once: int
    workers: int

    def calls(self) -> int:
        """How many calls each worker makes to create."""
        return max(1, self.total // self.at_once // self.workers)

    @property
    def limit_s(self) -> float:
        """The longest that a phase takes."""
        return LIMIT_S if self.at_once > 1 else SINGLE_LIMIT_S

    def warm(self) -> "Life":
        """A short one before it."""
        return replace(self, total=WARM_CALLS * self.at_once * self.workers)


@dataclass
class Worker:
    """What one worker does in each phase; every step tells how many messages it was for."""

    queue: Queue
    life: Life
    #: Of what it leased, what each call returned.
    held: list[Any] = field(default_factory=list)

    def create(self) -> Iterator[int]:
        """Create messages, so many calls."""
        bodies = BODIES[: self.life.at_once]
        for _ in range(self.life.calls()):
            self.queue.create(bodies)
            yield len(bodies)

    def lease(self) -> Iterator[int]:
        """Lease until nothing is due in its share."""
        while tokens := self.queue.lease(self.life.at_once):
            self.held.append(tokens)
            yield len(tokens)

    def done(self) -> Iterator[int]:
        """Finish what it leased."""
        for tokens in self.held:
            done = self.queue.done(tokens)
            assert done == len(tokens), f"{done} of {len(tokens)} were leased"
            yield done

    def prune(self) -> Iterator[int]:
        """Remove what is done; how many it were is found later."""
        assert isinstance(self.queue, Ours)
        while self.queue.prune():
            yield 0

    def steps(self, phase: str) -> Iterator[int]:
        """The steps of a phase."""
        acts: dict[str, Callable[[], Iterator[int]]] = {
            "create": self.create,
            "lease": self.lease,
            "done": self.done,
            "prune": self.prune,
        }
        return acts[phase]()


Rates = dict[str, tuple[int, float]]


def phases_of(queue: Queue) -> tuple[str, ...]:
    """Peers delete what is done at once."""
    return PHASES if isinstance(queue, Ours) else PHASES[:3]


def live_in_threads(name: str, url: str, life: Life) -> Rates:
    """Messages and seconds of each phase, with workers that are threads of this process."""
    with contender(name, url) as queue:
        _live(queue, url, life.warm())
        return _live(queue, url, life)


def _live(queue: Queue, url: str, life: Life) -> Rates:
    rates: Rates = {}
    workers = [Worker(queue, life) for _ in range(life.workers)]
    for phase in phases_of(queue):
        if isinstance(queue, Ours):
            queue.attend(range(life.workers))
        rates[phase] = within(life.limit_s, int, *(worker.steps(phase) for worker in workers))
        _after(phase, url, queue, rates)
    return rates


def live_in_processes(name: str, url: str, life: Life) -> Rates:
    """The same with workers that are processes. They start before the clock does."""
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(life.workers + 1), context.SimpleQueue()
    rates: Rates = {}
    with contender(name, url) as queue:
        phases = phases_of(queue)
        arguments = [(name, url, life, number, barrier, counts) for number in range(life.workers)]
        processes = [context.Process(target=_live_alone, args=one, daemon=True) for one in arguments]
        for process in processes:
            process.start()
        for phase in phases:
            barrier.wait(WAIT_S)
            begin_s = elapsed_seconds()
            barrier.wait(WAIT_S)
            took_s = elapsed_seconds() - begin_s
            rates[phase] = (sum(counts.get() for _ in processes), took_s)
            _after(phase, url, queue, rates)
        for process in processes:
            process.join()
    return rates


def _live_alone(name: str, url: str, life: Life, number: int, barrier: Barrier, counts: Any) -> None:
    """Be one of the processes."""
    with contender(name, url) as queue:
        phases = phases_of(queue)
        warm, worker = Worker(queue, life.warm()), Worker(queue, life)
        for phase in phases:
            _until_late(life.limit_s, warm.steps(phase))
        for phase in phases:
            if isinstance(queue, Ours):
                queue.attend(range(number, number + 1))
            barrier.wait(WAIT_S)
            counts.put(_until_late(life.limit_s, worker.steps(phase)))
            barrier.wait(WAIT_S)


def _until_late(limit_s: float, steps: Iterator[int]) -> int:
    begin_s, total = elapsed_seconds(), 0
    for count in steps:
        total += count
        if elapsed_seconds() - begin_s > limit_s:
            break
    return total


def _after(phase: str, url: str, queue: Queue, rates: Rates) -> None:
    """Let the database do its housekeeping; find out how many messages were pruned in the time."""
    if phase == "create":
        settle(url)
    if phase == "done" and isinstance(queue, Ours):
        rates["ended"] = (queue.ended(), 0.0)
    if phase == "prune" and isinstance(queue, Ours):
        before, _ = rates.pop("ended")
        pruned = rates["done"][0] * (before - queue.ended()) / before
        rates["prune"] = (round(pruned), rates["prune"][1])


def whole_life(rates: Rates) -> float:
    """Messages a second through all phases, one after the other."""
    return 1 / sum(seconds / count for count, seconds in rates.values())
