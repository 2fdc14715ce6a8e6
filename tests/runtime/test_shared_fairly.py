"""Instances that share: equally when all want more than there is, and never more than there is together."""

import asyncio
from datetime import timedelta

import pytest

from batchline import Operation, SharedResource
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import Receiver, dispatcher_of, largest_spent, ms, virtually
from tests.runtime.instances import Instances

S = timedelta(seconds=1)


@virtually
@pytest.mark.parametrize("count", [2, 4, 16])
async def test_busy_instances_have_equal_shares_after_half_a_minute(count: int) -> None:
    instances = Instances(1_600, factor=25)
    await instances.busy(count)
    await instances.watch(30)
    fair = 1_600 / count
    for _ in range(5):
        await instances.watch(2)
        assert all(share == pytest.approx(fair, rel=0.15) for share in instances.shares)
    await instances.stop()
    assert instances.too_much == []
    assert instances.most == 1_600


@virtually
@pytest.mark.parametrize("count", [1, 3, 15])
async def test_one_that_comes_later_gets_its_share_from_those_who_have_it(count: int) -> None:
    instances = Instances(1_600, factor=50)
    await instances.busy(count)
    await instances.watch(5)
    assert sum(instances.shares) == 1_600
    await instances.busy(1)
    await instances.watch(30)
    assert all(share == pytest.approx(1_600 / (count + 1), rel=0.15) for share in instances.shares)
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_who_needs_less_than_its_share_has_that_and_the_others_share_the_rest() -> None:
    instances = Instances(1_000, factor=10)
    small, *_ = await instances.busy(5)
    small.request(95)
    await instances.watch(30)
    assert small.capacity == 100
    assert all(share == pytest.approx(225, rel=0.15) for share in instances.shares[1:])
    assert sum(instances.shares) == 1_000
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_when_one_has_enough_the_others_get_what_it_had() -> None:
    instances = Instances(1_000, factor=10)
    one, other = await instances.busy(2)
    await instances.watch(10)
    one.request(0)
    await instances.watch(5)
    assert (one.capacity, other.capacity) == (0, 1_000)
    one.request(1_000)
    await instances.watch(5)
    assert one.capacity == pytest.approx(500, rel=0.15)
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_one_that_stops_leaves_its_share_at_once() -> None:
    instances = Instances(1_000, factor=10)
    one, other = await instances.busy(2)
    await instances.watch(10)
    instances.alive.remove(one)
    await one.stop()
    await instances.watch(2)
    assert other.capacity == 1_000
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_one_that_vanishes_leaves_its_share_within_a_lease() -> None:
    instances = Instances(1_000, factor=25)
    gone, *others = await instances.busy(4)
    await instances.watch(20)
    held = gone.capacity
    await instances.vanish(gone)
    assert sum(instances.shares) == 1_000 - held
    await instances.watch(instances.lease.total_seconds() + 1)
    assert sum(instances.shares) == 1_000
    await instances.watch(15)
    assert all(one.capacity == pytest.approx(333, rel=0.15) for one in others)
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_more_instances_than_partitions_take_turns() -> None:
    instances = Instances(3)
    resources = await instances.busy(8)
    had: set[str] = set()
    for _ in range(60):
        await instances.watch(2)
        had |= {one.instance for one in resources if one.partitions}
        assert sum(instances.shares) <= 3
    assert len(had) == 8
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_everybody_has_what_is_reserved_besides() -> None:
    instances = Instances(100, factor=10, reserved=7)
    resources = await instances.busy(2)
    assert instances.shares == [7, 7]
    await instances.watch(10)
    assert [one.capacity for one in resources] == [57, 57]
    await instances.stop()
    assert [one.capacity for one in resources] == [7, 7]
    assert instances.too_much == []


@virtually
async def test_short_leases_do_not_make_it_more_than_there_is() -> None:
    instances = Instances(60, factor=1, lease=ms(300), max_interval=ms(100))
    await instances.busy(4)
    for round_ in range(20):
        await instances.watch(1)
        instances.alive[round_ % 4].request((round_ % 3) * 40)
        if round_ in (5, 12):
            await instances.vanish(instances.alive[0])
            await instances.busy(1)
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_four_busy_dispatchers_send_a_quarter_each_and_together_no_more_than_there_is() -> None:
    instances, receivers, dispatchers = Instances(2_000, factor=20), [], []
    for _ in range(4):
        resource = SharedResource(instances.leases, 2_000, factor=20, clock=virtual_seconds, wall=virtual_wall_us)
        receiver, dispatcher = Receiver(), dispatcher_of(resource)
        await dispatcher.start()
        watcher = receiver.watcher()
        await dispatcher.enqueue_many(Operation(watcher, 50) for _ in range(900))
        receivers.append(receiver)
        dispatchers.append(dispatcher)
    await asyncio.sleep(45)
    late = [sum(cost for at_s, cost in receiver.spent if at_s >= 30) for receiver in receivers]
    assert all(spent == pytest.approx(500 * 15, rel=0.15) for spent in late)
    together = sorted(spent for receiver in receivers for spent in receiver.spent)
    # Each may have saved up one flush, and be in debt by one operation.
    assert largest_spent(together, 1) <= 2_000 * 1.1 + 4 * 50
    assert sum(late) == pytest.approx(2_000 * 15, rel=0.02)
    for dispatcher in dispatchers:
        await dispatcher.stop(timedelta(0))
