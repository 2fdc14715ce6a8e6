"""Instances that share a capacity in virtual time; and a look, all the time, whether they have too much together."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from batchline import SharedResource, open_store
from batchline.core.partitions import Asking
from batchline.errors import StoreUnavailable
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from batchline.stores.store import Store

__all__ = ["Instances", "Unsteady", "WatchedLeases"]

EVERY_S = 0.2


class WatchedLeases(LeaseManager):
    """The real one, and every call that was made to it."""

    def __init__(self, leases: LeaseManager):
        self.calls: list[tuple[str, Any]] = []
        self.resource = leases.resource
        self._leases = leases

    def called(self, verb: str, what: Any) -> None:
        """A verb is called; whatever is to happen happens here."""
        self.calls.append((verb, what))

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:
        self.called("provision", count)
        return self._leases.provision(count, size, now_us, replace=replace)

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:
        self.called("ask", asking)
        return self._leases.ask(asking, lease_ms, now_us)

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        self.called("acquire", most)
        return self._leases.acquire(instance, partitions, most, lease_ms, now_us)

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        self.called("renew", list(partitions))
        return self._leases.renew(instance, partitions, lease_ms, now_us)

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:
        self.called("release", list(partitions))
        self._leases.release(instance, partitions, now_us)

    def holders(self, now_us: int) -> dict[int, str]:
        return self._leases.holders(now_us)

    def close(self) -> None:
        self._leases.close()


class Unsteady(WatchedLeases):
    """One that does not answer for a while, or raises whatever it is told to."""

    def __init__(self, leases: LeaseManager):
        super().__init__(leases)
        self.error: Exception | None = None

    def called(self, verb: str, what: Any) -> None:
        super().called(verb, what)
        if self.error is not None:
            raise self.error

    def away(self) -> None:
        """It does not answer from now on."""
        self.error = StoreUnavailable("the store is away")

    def back(self) -> None:
        """It answers again."""
        self.error = None


class Instances:
    """Instances of one resource in one store."""

    def __init__(self, shared: float, factor: float = 1, store: Store | None = None, **options: Any):
        self.shared, self.factor, self.options = shared, factor, options
        self.leases = StoreLeases(store or open_store("memory://"), "orders")
        self.alive: list[SharedResource] = []
        self.made = 0
        #: What they had together when it was too much.
        self.too_much: list[tuple[float, float]] = []
        self.most = 0.0

    async def start(self, leases: LeaseManager | None = None, **options: Any) -> SharedResource:
        """Another instance."""
        self.made += 1
        given: dict[str, Any] = {"factor": self.factor, "instance": f"instance-{self.made}"}
        clocks = {"clock": virtual_seconds, "wall": virtual_wall_us, "chance": random.Random(self.made).random}
        resource = SharedResource(leases or self.leases, self.shared, **(given | clocks | self.options | options))
        resource.events.add_listener(self.look)
        await resource.provision()
        await resource.start()
        self.alive.append(resource)
        return resource

    async def busy(self, count: int, per_second: float = 1e9) -> list[SharedResource]:
        """So many instances more that could use as much."""
        started = [await self.start() for _ in range(count)]
        for resource in started:
            resource.request(per_second)
        return started

    async def vanish(self, resource: SharedResource) -> None:
        """An instance is gone, and has given nothing back."""
        self.alive.remove(resource)
        assert resource._turns is not None
        resource._turns.cancel()
        await asyncio.wait([resource._turns])

    async def stop(self) -> None:
        """All come to an end."""
        for resource in self.alive:
            await resource.stop()
        self.look()
        self.alive.clear()

    async def watch(self, seconds: float) -> None:
        """Let time pass, looking."""
        end_s = virtual_seconds() + seconds
        while virtual_seconds() < end_s:
            await asyncio.sleep(EVERY_S)
            self.look()

    def look(self, *_: object) -> None:
        """What all have together that is shared."""
        now_s = virtual_seconds()
        together = sum(one.configured(now_s) - one._share.rules.reserved for one in self.alive)
        self.most = max(self.most, together)
        if together > self.shared + 1e-9:
            self.too_much.append((now_s, together))

    @property
    def shares(self) -> list[float]:
        """What each has."""
        return [resource.capacity for resource in self.alive]

    @property
    def lease(self) -> timedelta:
        """How long a lease is."""
        lease: timedelta = self.options.get("lease", timedelta(seconds=15))
        return lease
