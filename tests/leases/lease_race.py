"""Instances that race for partitions, each in a process or thread of its own, and write down what they believe to hold.

An instance believes that a partition is its own from when it was told so until it gives it back, or, if it does not,
until a lease has passed since it asked: both by one clock, which all processes of a machine share.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from threading import Event
from typing import Any, Final, NamedTuple

from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from batchline.runtime.clock import elapsed_seconds, now_us

__all__ = ["PARTITIONS", "Belief", "Racer", "overlaps", "race_in_processes"]

PARTITIONS: Final = 4
PATIENCE_S: Final = 60.0


class Belief(NamedTuple):
    """That an instance holds a partition, in seconds of the one clock."""

    partition: int
    begin: float
    end: float
    instance: str


@dataclass
class Racer:
    """One instance, with what it believes."""

    manager: LeaseManager
    instance: str
    lease_ms: int
    turns: int
    #: Whether it may also renew leases, and let them run out.
    lapsing: bool
    beliefs: list[Belief] = field(default_factory=list)
    #: Leases that were lost before their time.
    lost_early: int = 0

    def race(self, start: Callable[[], object]) -> "Racer":
        """Take turns, from the start on."""
        dice = random.Random(self.instance)
        start()
        for _ in range(self.turns):
            self._turn(dice)
        return self

    def _turn(self, dice: random.Random) -> None:
        order = dice.sample(range(PARTITIONS), PARTITIONS)
        sent = elapsed_seconds()
        taken = self.manager.acquire(self.instance, order, dice.randint(1, 3), self.lease_ms, now_us())
        begun = elapsed_seconds()
        Event().wait(dice.uniform(0, 0.004))
        end = sent + self.lease_ms / 1_000
        if self.lapsing and dice.random() < 0.3:
            end = self._renewed(taken, end)
        if self.lapsing and dice.random() < 0.2:
            Event().wait(max(end - elapsed_seconds(), 0))  # as one who died: another may have it from now on
        else:
            end = min(end, elapsed_seconds())
            self.manager.release(self.instance, taken, now_us())
        self.beliefs += [Belief(number, begun, end, self.instance) for number in taken if begun < end]

    def _renewed(self, taken: list[int], end: float) -> float:
        sent = elapsed_seconds()
        still = self.manager.renew(self.instance, taken, self.lease_ms, now_us())
        if set(still) == set(taken):
            return sent + self.lease_ms / 1_000
        self.lost_early += elapsed_seconds() < end
        return end


def overlaps(beliefs: Iterable[Belief]) -> list[tuple[Belief, Belief]]:
    """Two who believed at once that they hold a partition."""
    by_time = sorted(beliefs)
    return [
        (one, next_) for one, next_ in pairwise(by_time) if one.partition == next_.partition and next_.begin < one.end
    ]


def race_in_processes(
    address: str, resource: str, racers: int, lease_ms: int, turns: int, lapsing: bool
) -> list[Racer]:
    """Racers in processes of their own; what they believed."""
    context = get_context("spawn")
    gate = context.Barrier(racers)
    ends: list[Any] = []
    processes = []
    for number in range(racers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(
            target=_race_alone, args=(address, resource, f"instance-{number}", lease_ms, turns, lapsing, gate, there)
        )
        process.start()
        there.close()
        ends.append(here)
        processes.append(process)
    try:
        return [_heard(end) for end in ends]
    finally:
        for end, process in zip(ends, processes, strict=True):
            end.close()
            process.join(PATIENCE_S)
            process.kill()
            process.join()


def _heard(end: Any) -> Racer:
    assert end.poll(PATIENCE_S), "a racer did not come to an end"
    racer: Racer = end.recv()
    return racer


def _race_alone(
    address: str, resource: str, instance: str, lease_ms: int, turns: int, lapsing: bool, gate: Any, end: Any
) -> None:
    with open_leases(address, resource) as manager:
        racer = Racer(manager, instance, lease_ms, turns, lapsing).race(lambda: gate.wait(PATIENCE_S))
    racer.manager = None  # type: ignore[assignment] # it stays here
    end.send(racer)
    end.close()
