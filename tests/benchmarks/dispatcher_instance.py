"""One of several processes that share a capacity: it always has something to do, and tells what it handed out."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from batchline import Dispatcher, SharedResource
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.counted_leases import CountedLeases
from tests.benchmarks.dispatcher_producer import meanwhile, produce

__all__ = ["Shared", "take_part"]


@dataclass(frozen=True)
class Shared:
    """What instances share."""

    url: str
    resource: str
    capacity: float
    factor: float
    cost: float


def take_part(shared: Shared, told: Connection) -> None:
    """Say that it is ready; then, between two moments that it is told, hand out as much as it may.

    For each hand-out it tells the moment, the cost, and how many lease calls it has made so far.
    """
    with CountedLeases(open_leases(shared.url, shared.resource), Counter()) as manager:
        told.send(None)
        begin_s, end_s = told.recv()

        def tell(event: str, count: int, *_: object) -> None:
            if event == "batch":
                told.send((elapsed_seconds(), count * shared.cost, manager.calls.total()))

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
