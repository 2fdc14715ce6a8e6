"""Stories of instances made by chance: answers are lost or late, instances come and go; never more than there is."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from batchline.core.partitions import Asking
from batchline.errors import StoreUnavailable
from batchline.leases.lease_manager import LeaseManager
from batchline.runtime.virtual_time import VirtualLoop, virtual_wall_us
from tests.runtime.dispatching import ms, virtually
from tests.runtime.instances import Instances, WatchedLeases

SHARED, LEASE_S = 60, 2.0


class Lossy(WatchedLeases):
    """The real one on a bad line: calls and answers take time, or are lost. The keeper has a clock of its own."""

    def __init__(self, leases: LeaseManager, dice: random.Random):
        super().__init__(leases)
        self._dice = dice

    def called(self, verb: str, what: Any) -> None:
        """On its way there."""
        super().called(verb, what)
        self._way()

    def _way(self, answer: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.virtual.now_s += self._dice.choice([0, 0, 0.001, 0.05, LEASE_S * self._dice.random()])
        if self._dice.random() < 0.1:
            raise StoreUnavailable("lost on the way")
        return answer

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:  # noqa: ARG002 - it has its own
        self.called("ask", asking)
        return list(self._way(self._leases.ask(asking, lease_ms, virtual_wall_us())))

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:  # noqa: ARG002 - as above
        self.called("acquire", most)
        return list(self._way(self._leases.acquire(instance, partitions, most, lease_ms, virtual_wall_us())))

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:  # noqa: ARG002 - as above
        self.called("renew", partitions)
        return list(self._way(self._leases.renew(instance, partitions, lease_ms, virtual_wall_us())))

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:  # noqa: ARG002 - as above
        self.called("release", partitions)
        self._way(self._leases.release(instance, partitions, virtual_wall_us()))


@virtually
@pytest.mark.parametrize("seed", range(12))
async def test_on_a_bad_line_they_never_have_more_than_there_is(seed: int) -> None:
    dice = random.Random(seed)
    instances = Instances(SHARED, factor=5, lease=ms(LEASE_S * 1_000), max_interval=ms(200))

    async def come() -> None:
        resource = await instances.start(Lossy(instances.leases, dice))
        resource.request(dice.choice([0, 20, 1_000]))

    await _patiently(come)
    for _ in range(60):
        await instances.watch(dice.random())
        act = dice.random()
        if act < 0.15 and len(instances.alive) < 6:
            await _patiently(come)
        elif act < 0.25 and len(instances.alive) > 1:
            await instances.vanish(dice.choice(instances.alive))
        elif instances.alive:
            dice.choice(instances.alive).request(dice.choice([0, 20, 1_000]))
    assert instances.most > 0
    assert instances.too_much == []
    await instances.stop()


async def _patiently(come: Any) -> None:
    """An instance whose provision is lost on the way tries again."""
    for _ in range(100):
        try:
            await come()
        except StoreUnavailable:
            continue
        return
    raise AssertionError("a hundred times lost")
