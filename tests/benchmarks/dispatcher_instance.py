"""One of several processes that share a capacity: it always has something to do, and tells what it handed out."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from batchline import Dispatcher, SharedResource
from batchline.core.partitions import Asking
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.leases.opening import open_leases
from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.dispatcher_producer import meanwhile, produce

__all__ = ["Counted", "Shared", "take_part"]


@dataclass(frozen=True)
class Shared:
    """What instances share."""

    url: str
    resource: str
    capacity: float
    factor: float
    cost: float


class Counted(LeaseManager):
    """A lease manager that counts its calls."""

    def __init__(self, manager: LeaseManager):
        self.resource = manager.resource
        self.calls = 0
        self._manager = manager
        self._counting = threading.Lock()

    def _count(self) -> LeaseManager:
        with self._counting:
            self.calls += 1
        return self._manager

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:
        return self._count().provision(count, size, now_us, replace=replace)

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:
        return self._count().ask(asking, lease_ms, now_us)

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        return self._count().acquire(instance, partitions, most, lease_ms, now_us)

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        return self._count().renew(instance, partitions, lease_ms, now_us)

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:
        self._count().release(instance, partitions, now_us)

    def holders(self, now_us: int) -> dict[int, str]:
        return self._count().holders(now_us)

    def close(self) -> None:
        self._manager.close()


def take_part(shared: Shared, told: Connection) -> None:
    """Say that it is ready; then, between two moments that it is told, hand out as much as it may.

    For each hand-out it tells the moment, the cost, and how many lease calls it has made so far.
    """
    with Counted(open_leases(shared.url, shared.resource)) as manager:
        told.send(None)
        begin_s, end_s = told.recv()

        def tell(event: str, count: int, *_: object) -> None:
            if event == "batch":
                told.send((elapsed_seconds(), count * shared.cost, manager.calls))

        asyncio.run(_hand_out(shared, manager, begin_s, end_s, tell))
    told.close()


async def _hand_out(
    shared: Shared, manager: LeaseManager, begin_s: float, end_s: float, tell: Callable[..., Any]
) -> None:
    await asyncio.sleep(begin_s - elapsed_seconds())
    dispatcher = Dispatcher(SharedResource(manager, shared.capacity, factor=shared.factor), emit_batch=True)
    dispatcher.events.add_listener(tell)
    await dispatcher.start()
    with meanwhile(produce(dispatcher, shared.cost)):
        await asyncio.sleep(end_s - elapsed_seconds())
    await dispatcher.stop(drain=timedelta(0))
