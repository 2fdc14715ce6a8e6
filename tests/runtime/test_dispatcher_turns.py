"""Producers at a full buffer take turns: a large job does not keep a small one out."""

import asyncio

from batchline import Dispatcher, Operation, ProvisionedResource, Watcher
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us


async def small_beside_large() -> tuple[float, list[int]]:
    """When a single operation is handed out that comes a second after 20,000 others, at 1,000 a second."""
    limiter = ProvisionedResource(1_000, clock=virtual_seconds)
    handed_out_s: list[float] = []
    order: list[int] = []

    async def small(_: list[Operation]) -> None:
        handed_out_s.append(virtual_seconds())

    async def large(operations: list[Operation]) -> None:
        order.extend(operation.payload for operation in operations)

    async with Dispatcher(limiter, buffer=500, clock=virtual_seconds, wall=virtual_wall_us) as dispatcher:
        watcher = Watcher(large)
        much = [Operation(watcher, 1, number, batchable=True) for number in range(20_000)]
        job = asyncio.ensure_future(dispatcher.enqueue_many(much))
        await asyncio.sleep(1)
        await dispatcher.enqueue(Operation(Watcher(small), 1))
        await job
        await dispatcher.drain()
    return handed_out_s[0], order


def test_one_operation_does_not_wait_for_all_of_a_large_job() -> None:
    at_s, order = run_virtually(small_beside_large())
    assert at_s < 2
    assert order == list(range(20_000))
