"""Counterparts of tests of the seed's program: when capacity is requested, and how batches are packed."""

import asyncio
from datetime import timedelta

import pytest

from batchline import Operation
from tests.runtime.dispatching import Receiver, dispatcher_of, listen, ms, payloads, virtually
from tests.runtime.instances import Instances


@virtually
@pytest.mark.parametrize(
    ("interval", "wait_s", "moments"),
    [(None, 0.25, [0.1, 0.2]), (ms(100), 0.25, [0.1, 0.2]), (ms(300), 0.65, [0.3, 0.6]), (ms(25), 0.06, [0.025, 0.05])],
    ids=["default", "100 ms", "300 ms", "25 ms"],
)
async def test_capacity_is_requested_every_capacity_interval(
    interval: timedelta | None, wait_s: float, moments: list[float]
) -> None:
    instances = Instances(10_000, factor=1_000)
    limiter = await instances.start()
    # Nothing is flushed meanwhile, so that the operation waits.
    options = {"flush_interval": timedelta(minutes=10)} | ({} if interval is None else {"capacity_interval": interval})
    dispatcher = dispatcher_of(limiter, **options)
    requests, targets = listen(dispatcher.events, "request"), listen(limiter.events, "target")
    await dispatcher.enqueue(Operation(Receiver().watcher(), 800))
    await dispatcher.start()
    await asyncio.sleep(wait_s)
    assert [round(one.at_s, 3) for one in requests] == moments
    # Backlog and arrivals: two partitions, asked for once.
    assert [one.value for one in requests] == [1_600] * len(moments)
    assert [one.value for one in targets] == [1_600]
    assert limiter.capacity == 2_000
    await dispatcher.stop(timedelta(0))
    await instances.stop()


@virtually
async def test_operations_of_a_watcher_are_packed_into_the_one_batch_that_has_a_slot() -> None:
    first, second = Receiver(timedelta(seconds=5)), Receiver()
    dispatcher = dispatcher_of(flush_interval=timedelta(minutes=10), max_concurrent_batches=1)
    one, other = first.watcher(), second.watcher()
    async with dispatcher:
        await dispatcher.enqueue(Operation(one, 0, "a", batchable=True))
        await dispatcher.enqueue(Operation(other, 0, "b", batchable=True))
        await dispatcher.enqueue(Operation(one, 0, "c", batchable=True))
        dispatcher.flush()
        await asyncio.sleep(1)
        assert [payloads(batch) for _, batch in first.batches] == [["a", "c"]]
        assert (second.batches, dispatcher.buffered) == ([], 1)
        dispatcher.flush()
        await asyncio.sleep(1)
        assert (second.batches, dispatcher.buffered) == ([], 1), "a running batch holds its slot"
        await asyncio.sleep(5)
        dispatcher.flush()
        await dispatcher.drain()
    assert second.got == ["b"]


@virtually
async def test_full_batches_are_flushed_and_one_that_travels_alone_is_not_packed() -> None:
    receiver = Receiver()
    watcher = receiver.watcher(max_batch_size=3)
    dispatcher = dispatcher_of(flush_interval=timedelta(minutes=10), max_concurrent_batches=4)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 0, number, batchable=number != 6) for number in range(11))
        dispatcher.flush()
        await asyncio.sleep(1)
        assert [payloads(batch) for _, batch in receiver.batches] == [[0, 1, 2], [3, 4, 5], [6], [7, 8, 9]]
        dispatcher.flush()
        await dispatcher.drain()
    assert receiver.got == list(range(11))
