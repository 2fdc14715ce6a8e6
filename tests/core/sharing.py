"""Instances that share a capacity, in a world of their own: a keeper of leases, calls that take time or get lost."""

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from batchline.core.partitions import Asking
from batchline.core.share import Share, ShareRules

LEASE_S = 15.0
#: What a call, or a rest, is waited for.
Waiting = Generator[float, None, Any]


class LostError(Exception):
    """A call came to nothing, as far as its caller knows."""


@dataclass
class Keeper:
    """Leases by its own clock, which is the world's."""

    held: dict[int, tuple[float, str]] = field(default_factory=dict)
    said: dict[str, tuple[float, Asking]] = field(default_factory=dict)
    asked: int = 0

    def holder(self, partition: int, now_s: float) -> str | None:
        until_s, instance = self.held.get(partition, (0.0, ""))
        return instance if until_s > now_s else None

    def ask(self, asking: Asking, now_s: float) -> list[Asking]:
        self.asked += 1
        self.said[asking.instance] = (now_s, asking)
        if not (asking.wanted or asking.held):
            del self.said[asking.instance]
        return [one for heard_s, one in self.said.values() if heard_s >= now_s - LEASE_S]

    def acquire(self, instance: str, partitions: list[int], most: int, now_s: float) -> list[int]:
        free = [one for one in partitions if self.holder(one, now_s) in (None, instance)][:most]
        self.held |= dict.fromkeys(free, (now_s + LEASE_S, instance))
        return free

    def renew(self, instance: str, partitions: list[int], now_s: float) -> list[int]:
        mine = [one for one in partitions if self.holder(one, now_s) == instance]
        return self.acquire(instance, mine, len(mine), now_s)

    def release(self, instance: str, partitions: list[int], now_s: float) -> None:
        for one in partitions:
            if self.holder(one, now_s) == instance:
                del self.held[one]


@dataclass
class Instance:
    """A process with a share, whose clock runs at a speed of its own."""

    share: Share
    world: "World"
    speed: float = 1.0
    #: It stops for good: it says nothing more, and uses nothing more.
    dead: bool = False
    #: It cannot reach the keeper.
    cut_off: bool = False

    @property
    def now_s(self) -> float:
        return self.world.now_s * self.speed

    @property
    def capacity(self) -> float:
        return 0.0 if self.dead else float(self.share.capacity(self.now_s))

    def live(self) -> Waiting:
        yield self.world.chance()
        while not self.dead:
            try:
                yield from self._turn()
            except LostError:
                self.share.refused(1)
            yield self.share.rest_s(self.world.chance()) / self.speed

    def _turn(self) -> Waiting:
        world, share, name = self.world, self.share, self.share.instance
        asking = share.asking(self.now_s)
        if asking is None:
            return
        askings = yield from self._call(lambda: world.keeper.ask(asking, world.now_s))
        steps = share.steps(askings, self.now_s, world.wall_us, world.chance())
        share.lost(steps.release)
        if steps.release:
            yield from self._call(lambda: world.keeper.release(name, steps.release, world.now_s))
        if steps.renew:
            yield from self._renew(steps.renew)
        if steps.most:
            yield from self._acquire(steps.acquire, steps.most)

    def _renew(self, partitions: list[int]) -> Waiting:
        sent_s = self.now_s
        renewed = yield from self._call(
            lambda: self.world.keeper.renew(self.share.instance, partitions, self.world.now_s)
        )
        self.share.granted(renewed, sent_s)
        self.share.lost([one for one in partitions if one not in renewed])

    def _acquire(self, partitions: list[int], most: int) -> Waiting:
        sent_s = self.now_s
        acquired = yield from self._call(
            lambda: self.world.keeper.acquire(self.share.instance, partitions, most, self.world.now_s)
        )
        self.share.granted(acquired, sent_s)
        self.share.refused(most - len(acquired))

    def _call(self, verb: Callable[[], Any]) -> Waiting:
        """A call on its way there and back; either way it may be lost, and only then does it take long."""
        there_s, back_s = self.world.ways()
        yield there_s
        self._be_lost()
        answer = verb()
        yield back_s
        self._be_lost()
        return answer

    def _be_lost(self) -> None:
        if self.cut_off or self.world.loses():
            raise LostError


class World:
    """Time, chance, and everybody in it; what is believed to be held is looked at after each thing that happens."""

    def __init__(self, rules: ShareRules, instances: int, seed: int, *, lost: float = 0.0, slow_s: float = 0.05):
        self.now_s, self.wall_us = 0.0, 1_700_000_000_000_000
        self.keeper, self.rules = Keeper(), rules
        self._random, self._lost, self._slow_s = random.Random(seed), lost, slow_s
        self._number = count()
        self._waiting: list[tuple[float, int, Waiting]] = []
        self.instances = [Instance(Share(rules, f"i{one}"), self, self._speed(lost)) for one in range(instances)]
        for instance in self.instances:
            self._push(0.0, instance.live())

    def _speed(self, lost: float) -> float:
        """Where things go wrong, clocks run up to 5 % too fast or too slow."""
        return self._random.uniform(0.95, 1.05) if lost else 1.0

    def chance(self) -> float:
        return self._random.random()

    def loses(self) -> bool:
        return self._random.random() < self._lost

    def ways(self) -> tuple[float, float]:
        slow = self._random.random() < 0.1 if self._lost else False
        longest_s = self._slow_s * 60 if slow else self._slow_s
        return self._random.uniform(0, longest_s), self._random.uniform(0, longest_s)

    def _push(self, at_s: float, waiting: Waiting) -> None:
        heapq.heappush(self._waiting, (at_s, next(self._number), waiting))

    @property
    def believed(self) -> float:
        """What all together believe that they may use."""
        return sum(instance.capacity for instance in self.instances)

    @property
    def capacities(self) -> list[float]:
        return [instance.capacity for instance in self.instances]

    def want(self, per_second: float) -> None:
        for instance in self.instances:
            instance.share.want(per_second)

    def change(self, **rules: Any) -> None:
        for instance in self.instances:
            instance.share.change(**rules)

    def until(self, end_s: float, most: float | None = None) -> None:
        """Let things happen; never is more believed to be held than `most`, by itself what is shared."""
        while self._waiting and self._waiting[0][0] <= end_s:
            at_s, _, waiting = heapq.heappop(self._waiting)
            self._pass(at_s)
            after_s = next(waiting, None)
            if after_s is not None:
                self._push(at_s + after_s, waiting)
            shared = max(float(instance.share.rules.shared) for instance in self.instances)
            assert self.believed <= (shared if most is None else most) + 1e-9
        self._pass(end_s)

    def _pass(self, at_s: float) -> None:
        self.wall_us += round((at_s - self.now_s) * 1_000_000)
        self.now_s = at_s
