"""Counterparts of tests of the seed's program: shared capacity of 0, odd factors, and mixed answers to one turn."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from batchline import Operation
from batchline.errors import StoreUnavailable, TooExpensive
from batchline.leases.lease_manager import LeaseManager
from batchline.runtime.virtual_time import virtual_wall_us
from tests.runtime.dispatching import Receiver, dispatcher_of, listen, virtually
from tests.runtime.instances import Instances, WatchedLeases


@virtually
async def test_shrinking_shared_capacity_to_0_releases_every_lease() -> None:
    instances = Instances(10_000, factor=1_000, reserved=50)
    one, other = await instances.busy(2, per_second=5_050)
    await instances.watch(5)
    assert instances.shares == [5_050, 5_050]
    released = listen(one.events, "released")
    for resource in (one, other):
        resource.set_shared(0)
        assert resource.capacity == 50, "at once"
    instances.shared = 0
    await instances.watch(1)
    assert len(released) == 5
    assert (one.partitions, instances.leases.holders(virtual_wall_us())) == ([], {})
    await instances.watch(60)
    assert instances.shares == [50, 50]
    for resource in (one, other):
        resource.set_shared(10_000)
    instances.shared = 10_000
    await instances.watch(5)
    assert instances.shares == [5_050, 5_050]
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_shrinking_to_0_holds_a_dispatcher_back_and_raising_lets_it_go_on() -> None:
    instances = Instances(1_000, factor=100)
    limiter = await instances.start()
    receiver, dispatcher = Receiver(), dispatcher_of(limiter)
    await dispatcher.start()
    watcher = receiver.watcher()
    await dispatcher.enqueue_many(Operation(watcher, 10, number) for number in range(500))
    await instances.watch(2)
    limiter.set_shared(0)
    instances.shared = 0
    await instances.watch(0.2)
    sent = len(receiver.got)
    await instances.watch(30)
    assert 0 < sent == len(receiver.got) < 500
    limiter.set_shared(1_000)
    instances.shared = 1_000
    await asyncio.wait_for(dispatcher.drain(), 10)
    assert receiver.got == list(range(500))
    await dispatcher.stop()
    await instances.stop()
    assert instances.too_much == []


@virtually
@pytest.mark.parametrize("factor", [1, 1_000])
async def test_a_shared_capacity_that_starts_at_0_can_be_raised(factor: int) -> None:
    instances = Instances(0, factor=factor)
    leases = WatchedLeases(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events, "capacity", "allocated", "error")
    resource.request(9_999)
    await instances.watch(20)
    assert (resource.max_capacity, resource.capacity) == (0, 0)
    assert not [verb for verb, _ in leases.calls if verb in ("acquire", "renew")]
    resource.set_shared(factor)
    instances.shared = factor
    assert (resource.max_capacity, resource.capacity) == (factor, 0)
    await instances.watch(1)
    assert resource.capacity == factor
    assert [(one.name, one.value) for one in told] == [("allocated", 0), ("capacity", factor)]
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_with_a_shared_capacity_of_0_only_operations_that_cost_nothing_go() -> None:
    instances = Instances(0, factor=1_000)
    limiter = await instances.start()
    receiver, dispatcher = Receiver(), dispatcher_of(limiter)
    watcher = receiver.watcher()
    await dispatcher.start()
    with pytest.raises(TooExpensive):
        await dispatcher.enqueue(Operation(watcher, 1))
    await dispatcher.enqueue(Operation(watcher, 0, "free"))
    limiter.set_shared(1_000)
    instances.shared = 1_000
    await dispatcher.enqueue(Operation(watcher, 1, "costs"))
    await asyncio.wait_for(dispatcher.drain(), 10)
    assert receiver.got == ["free", "costs"]
    await dispatcher.stop()
    await instances.stop()


@virtually
async def test_an_odd_factor_is_shared_out_to_exactly_what_there_is() -> None:
    instances = Instances(10_000, factor=777)
    one = await instances.start()
    one.request(1_800)
    await instances.watch(1)
    # Three partitions; of the last of 13 only 676 is left.
    assert one.capacity in (3 * 777, 2 * 777 + 676)
    await instances.busy(3)
    one.request(1e9)
    await instances.watch(30)
    assert sum(instances.shares) == 10_000
    assert sorted(len(resource.partitions) for resource in instances.alive) == [3, 3, 3, 4]
    assert len(instances.leases.holders(virtual_wall_us())) == 13
    await instances.stop()
    assert instances.too_much == []


class Mixed(WatchedLeases):
    """The real one, which answers for some partitions only: others are refused, or the answer is an error."""

    def __init__(self, leases: LeaseManager):
        super().__init__(leases)
        self.refuse: set[int] = set()
        self.fail: set[str] = set()

    def called(self, verb: str, what: Any) -> None:
        super().called(verb, what)
        if verb in self.fail:
            raise StoreUnavailable(f"{verb} could not be done")

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        allowed = [one for one in partitions if one not in self.refuse]
        return super().acquire(instance, allowed, most, lease_ms, now_us)

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        return super().renew(instance, [one for one in partitions if one not in self.refuse], lease_ms, now_us)


@virtually
async def test_granted_refused_and_lost_partitions_of_one_turn_are_each_told() -> None:
    instances = Instances(10, lease=timedelta(seconds=6))
    leases = Mixed(instances.leases)
    leases.refuse = {7, 8, 9}
    resource = await instances.start(leases)
    told = listen(resource.events)
    resource.request(10)
    await instances.watch(0.2)
    assert resource.partitions == [0, 1, 2, 3, 4, 5, 6]
    assert sorted(one.value for one in told if one.name == "allocated") == resource.partitions
    refused = next(one for one in told if one.name == "failed")
    assert (refused.value in leases.refuse, refused.message) == (True, "3 partitions more were wanted")
    # From now on two others are not renewed, while those that were refused are granted.
    leases.refuse = {0, 1}
    await instances.watch(6)
    assert resource.partitions == [2, 3, 4, 5, 6, 7, 8, 9]
    lost = {one.value for one in told if one.message == "the lease was lost"}
    assert lost == {0, 1}
    assert not [one for one in told if one.name == "error"]
    await instances.stop()
    assert instances.too_much == []


@virtually
@pytest.mark.parametrize("verb", ["ask", "acquire", "renew", "release"])
async def test_a_step_that_errs_is_told_and_what_was_granted_before_stays(verb: str) -> None:
    instances = Instances(10, lease=timedelta(seconds=6))
    leases = Mixed(instances.leases)
    resource = await instances.start(leases)
    resource.request(4)
    await instances.watch(1)
    assert resource.capacity == 4
    told = listen(resource.events, "error")
    leases.fail = {verb}
    resource.request(8 if verb != "release" else 2)
    await instances.watch(1.5)
    # What could be done before the step that erred counts; leases that are held stay until they run out.
    assert resource.capacity == {"ask": 4, "acquire": 4, "renew": 8, "release": 2}[verb]
    assert {one.message for one in told} == {f"{verb} could not be done"}
    leases.fail = set()
    resource.request(8)
    await instances.watch(8)
    assert resource.capacity == 8
    await instances.stop()
    assert instances.too_much == []
