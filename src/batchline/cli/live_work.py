"""The workers of `batchline serve --demo`: real ones, that share what a receiver takes; only the receiver is none."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from batchline.core.consignment import Consignment
from batchline.core.pipeline import Capacity
from batchline.errors import RefusedParcel, Throttled, Undelivered
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.clock import elapsed_seconds, wait_for
from batchline.runtime.reporting import reporting
from batchline.runtime.shared_resource import SharedResource
from batchline.runtime.worker import Worker
from batchline.runtime.worker_numbers import WorkerNumbers
from batchline.runtime.working import Working
from batchline.sinks.sink import Sink
from batchline.stores import Store

__all__ = ["SHARED", "Moody", "come_and_go", "working"]

#: A little more than the fleet measures, so that a pause can be caught up with.
SHARED: Final = Capacity(160, cost="measurement", shared="here", resource="receiver-api", factor=5)
DRAIN: Final = timedelta(seconds=1)
#: The receiver is busy for so long, again and again.
BUSY_EVERY_S, BUSY_S = 40.0, 4.0
BUSY_FROM_S: Final = 12.0
#: A worker that comes and goes is there, and away, for so long.
HERE_S, AWAY_S = 45.0, 20.0


class Moody(Sink):
    """Takes parcels and forgets them; now and then it throttles, fails or refuses."""

    def __init__(self, chance: Callable[[], float] = random.random, clock: Callable[[], float] = elapsed_seconds):
        self._chance, self._clock, self._began_s = chance, clock, clock()
        self._never = asyncio.Event()

    async def send(self, parcels: Sequence[Consignment]) -> None:
        """Answer after a while, as a receiver far away does."""
        await wait_for(self._never, 0.02 + self._chance() * 0.08)
        phase_s = (self._clock() - self._began_s - BUSY_FROM_S) % BUSY_EVERY_S
        if phase_s < BUSY_S and self._chance() < 0.5:
            raise Throttled("429: too many measurements", retry_after=timedelta(seconds=2))
        fate = self._chance()
        if fate < 0.0003:
            raise RefusedParcel(f"422: {parcels[0].id} has a value that cannot be")
        if fate < 0.01:
            raise Undelivered("502: bad gateway")


@contextmanager
def working(store: Store, topic: str, name: str) -> Iterator[None]:
    """A worker within the shared capacity, reported on."""

    def make() -> Worker:
        limiter = SharedResource(
            StoreLeases(store, SHARED.resource), SHARED.per_second, factor=SHARED.piece, instance=name
        )
        return Worker(
            store,
            topic,
            Moody(),
            limiter=limiter,
            cost=SHARED.cost,
            worker=name,
            in_hand=64,
            concurrency=4,
            drain=DRAIN,
        )

    with (
        Working(make) as made,
        reporting(store, "work", name, WorkerNumbers(made.worker, SHARED), made.worker.supervisor),
    ):
        yield


def come_and_go(store: Store, topic: str, name: str, stop: threading.Event) -> None:
    """A worker that is stopped and started, as deployments do."""
    while not stop.is_set():
        with working(store, topic, name):
            stop.wait(HERE_S)
        stop.wait(AWAY_S)
