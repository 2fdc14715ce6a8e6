"""Shared demand: backlog plus arrivals plus debt, in settled cost. No queue and no debt outlasts free capacity."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from statistics import median

import pytest

from batchline import Operation, Watcher
from tests.runtime.demand import FACTOR, SHARED, Load, at_25_percent, at_80_percent, debt_s, shared_waits
from tests.runtime.dispatching import dispatcher_of, ms, virtually
from tests.runtime.instances import Instances


@virtually
@pytest.mark.parametrize("takes", [timedelta(0), ms(50)], ids=["at once", "50 ms"])
async def test_the_median_wait_is_short_with_estimates_ten_times_too_low(takes: timedelta) -> None:
    assert median(await shared_waits(at_80_percent(takes))) < 0.2


@virtually
@pytest.mark.parametrize("takes", [timedelta(0), ms(50), timedelta(seconds=1)], ids=["at once", "50 ms", "1 s"])
async def test_the_median_wait_is_short_with_estimates_ten_times_too_high(takes: timedelta) -> None:
    load = Load(cost=100, actual=10, per_second=0.8 * SHARED / 100, takes=takes)
    assert median(await shared_waits(load)) < 0.2


@virtually
async def test_the_median_wait_is_short_with_estimates_too_low_and_too_high_at_once() -> None:
    instances = Instances(SHARED, factor=FACTOR)
    dispatcher = dispatcher_of(await instances.start())
    loads = [Load(cost=100, actual=10, per_second=50), Load(cost=10, actual=100, per_second=50)]
    await dispatcher.start()
    await asyncio.gather(*(load.run(dispatcher, 60) for load in loads))
    await dispatcher.stop()
    await instances.stop()
    assert [median(load.warm) < 0.2 for load in loads] == [True, True]


@virtually
@pytest.mark.parametrize("factor", [40, 500, 1_000])
@pytest.mark.parametrize("burst", [1, 25])
async def test_a_steady_load_of_a_quarter_leaves_no_standing_queue(factor: int, burst: int) -> None:
    waits = await shared_waits(at_25_percent(burst), 20, factor)
    # An operation waits for the next flush, 100 ms at most: a standing queue would be a wait beyond that.
    assert max(waits) <= 0.1 + 0.001


@virtually
async def test_a_debt_is_paid_with_all_the_capacity_that_is_free() -> None:
    assert await debt_s(50_000) < 50_000 / 10_000 + 1


@virtually
async def test_a_debt_that_a_slow_callback_leaves_is_paid_before_the_next_operation_comes() -> None:
    async def process(operations: list[Operation]) -> None:
        await asyncio.sleep(3)
        operations[0].settle(20_000)

    instances = Instances(10_000, factor=1_000)
    limiter = await instances.start()
    dispatcher = dispatcher_of(limiter)
    await dispatcher.start()
    await dispatcher.enqueue(Operation(Watcher(process), 10))
    await dispatcher.drain()
    await instances.watch(0.5)
    assert limiter.capacity == 10_000
    await instances.watch(5)
    assert limiter.partitions == []
    await dispatcher.stop()
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_instances_whose_estimates_are_too_low_wait_little_and_never_hold_too_much() -> None:
    instances = Instances(SHARED, factor=FACTOR)
    dispatchers = [dispatcher_of(await instances.start()) for _ in range(4)]
    loads = [replace(at_80_percent(), per_second=40, dice=random.Random(number), waits=[]) for number in range(4)]
    for dispatcher in dispatchers:
        await dispatcher.start()
    fed = [load.run(dispatcher, 30) for load, dispatcher in zip(loads, dispatchers, strict=True)]
    await asyncio.gather(instances.watch(30), *fed)
    for dispatcher in dispatchers:
        await dispatcher.stop()
    await instances.stop()
    assert median(wait for load in loads for wait in load.warm) < 0.2
    assert instances.too_much == []


@virtually
async def test_overloaded_dispatchers_have_a_quarter_each_after_half_a_minute() -> None:
    instances = Instances(SHARED, factor=FACTOR)
    dispatchers = [dispatcher_of(await instances.start()) for _ in range(4)]
    loads = [replace(at_80_percent(), per_second=60 * number, waits=[]) for number in (1, 2, 4, 8)]
    for dispatcher in dispatchers:
        await dispatcher.start()
    fed = [asyncio.ensure_future(load.run(dispatcher, 60)) for load, dispatcher in zip(loads, dispatchers, strict=True)]
    await instances.watch(30)
    for _ in range(5):
        await instances.watch(2)
        assert all(share == pytest.approx(SHARED / 4, rel=0.15) for share in instances.shares)
    for task, dispatcher in zip(fed, dispatchers, strict=True):
        task.cancel()
        await dispatcher.stop(timedelta(0))
    await instances.watch(3)
    assert [limiter.partitions for limiter in instances.alive] == [[]] * 4, "idle instances release"
    await instances.stop()
    assert instances.too_much == []
