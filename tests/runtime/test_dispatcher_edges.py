"""What happens to a dispatcher, and to a share, when several things go wrong at once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchline import Adaptive, Dispatcher, Operation, ProvisionedResource, Throttled, Watcher
from batchline.errors import InvalidRules
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
