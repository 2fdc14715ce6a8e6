"""What happens to a dispatcher, and to a share, when several things go wrong at once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchline import (
    Adaptive,
    Dispatcher,
    Operation,
    ProvisionedResource,
    SharedResource,
    Throttled,
    Watcher,
    open_store,
)
from batchline.core.partitions import Asking
from batchline.errors import InvalidName, InvalidRules
from batchline.leases import open_leases
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us


def dispatcher_of(limiter: Any = None, **options: Any) -> Dispatcher:
    return Dispatcher(limiter, clock=virtual_seconds, wall=virtual_wall_us, **options)


def test_batches_that_are_throttled_together_lower_the_capacity_once() -> None:
    calls: list[int] = []

    async def refuse(operations: list[Operation]) -> None:
        calls.append(len(operations))
        await asyncio.sleep(0.01 * len(calls))
        raise Throttled(retry_after=timedelta(seconds=1))

    async def work() -> float:
        limiter = ProvisionedResource(1_000, adaptive=Adaptive(fall=0.3), clock=virtual_seconds)
        dispatcher = dispatcher_of(limiter)
        await dispatcher.start()
        watcher = Watcher(refuse, max_batch_size=10)
        await dispatcher.enqueue_many([Operation(watcher, 1, batchable=True) for _ in range(100)])
        await asyncio.sleep(0.5)
        capacity: float = limiter.capacity
        await dispatcher.stop(timedelta(0))
        return capacity

    assert run_virtually(work()) == 700
    assert len(calls) == 10


def test_a_pause_that_is_too_short_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidRules, match="pause_time must be 1ms or longer"):
        Dispatcher(pause_time=timedelta(microseconds=500))


def test_an_instance_that_cannot_be_named_is_refused_when_the_share_is_built() -> None:
    with pytest.raises(InvalidName, match="instance must have no control characters"):
        SharedResource(open_leases("memory://", "api"), 100, instance="one\ntwo")


class Picky(StoreLeases):
    """Takes no lease as it is: as Azure does one of less than 15 seconds."""

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:  # noqa: ARG002 - it does not matter
        raise InvalidRules(f"lease_ms must be 15,000 to 60,000, got {lease_ms}")


def test_a_share_tells_of_every_error_and_can_be_stopped_after_it() -> None:
    async def work() -> tuple[int, list[Operation]]:
        leases = Picky(open_store("memory://"), "api")
        limiter = SharedResource(leases, 100, clock=virtual_seconds, wall=virtual_wall_us)
        dispatcher = dispatcher_of(limiter)
        await dispatcher.start()
        await dispatcher.enqueue(Operation(Watcher(refuse_nothing), 5))
        await asyncio.sleep(10)
        remains = await dispatcher.stop(timedelta(0))
        return limiter.events.counts["error"], remains.unsent

    errors, unsent = run_virtually(work(), inline=True)
    assert errors > 10
    assert len(unsent) == 1


async def refuse_nothing(operations: list[Operation]) -> None:
    """All is well."""
