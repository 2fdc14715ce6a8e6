"""One instance's share of a capacity: acquired when needed, renewed, given back, and told in events."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchline import Adaptive, Operation, Ramp, SharedResource, open_store
from batchline.core.partitions import Asking
from batchline.errors import InvalidRules, ResourceMismatch, TooExpensive
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import Receiver, dispatcher_of, largest_spent, listen, virtually
from tests.runtime.instances import Instances, WatchedLeases

S = timedelta(seconds=1)


def names(told: list[Any], *wanted: str) -> list[Any]:
    return [one.value for one in told if one.name in wanted]


@virtually
async def test_provision_tells_what_was_made_and_what_was_there() -> None:
    store = open_store("memory://")
    for made in (True, False):
        resource = SharedResource(StoreLeases(store, "orders"), 25, factor=10, clock=virtual_seconds)
        told = listen(resource.events)
        await resource.provision()
        container, blob = ("created-container", "created-blob") if made else ("verified-container", "verified-blob")
        assert [(one.name, one.value) for one in told] == [(container, 0), (blob, 0), (blob, 1), (blob, 2)]
        assert told[0].message
    other = SharedResource(StoreLeases(store, "orders"), 30, factor=10, clock=virtual_seconds)
    with pytest.raises(ResourceMismatch):
        await other.provision()


@virtually
async def test_without_need_nothing_is_acquired_and_nobody_is_asked() -> None:
    instances = Instances(100, factor=10, reserved=20)
    leases = WatchedLeases(instances.leases)
    resource = await instances.start(leases)
    resource.request(20)
    await asyncio.sleep(100)
    assert [verb for verb, _ in leases.calls] == ["provision"]
    assert (resource.capacity, resource.partitions, resource.max_capacity) == (20, [], 120)
    await instances.stop()


@virtually
async def test_several_partitions_are_acquired_in_one_turn_at_once() -> None:
    instances = Instances(100, factor=10, reserved=5)
    leases = WatchedLeases(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events)
    resource.request(62)
    await asyncio.sleep(0.001)
    assert len(resource.partitions) == 6
    assert resource.capacity == 65
    assert [what for verb, what in leases.calls if verb == "acquire"] == [6]
    assert (told[0].name, told[0].value) == ("target", 62)
    assert sorted(names(told, "allocated")) == resource.partitions
    assert names(told, "capacity")[-1] == 65
    await instances.stop()


@virtually
async def test_the_first_partition_is_a_random_one() -> None:
    first = set()
    for chance in (0.0, 0.35, 0.999, 1.0):
        instances = Instances(10)
        resource = await instances.start(chance=lambda chance=chance: chance)
        resource.request(1)
        await asyncio.sleep(0.1)
        first.add(tuple(resource.partitions))
        await instances.stop()
    assert first == {(0,), (3,), (9,)}


@virtually
async def test_the_last_partition_is_worth_the_rest() -> None:
    instances = Instances(95, factor=10)
    (resource,) = await instances.busy(1)
    await asyncio.sleep(1)
    assert (len(resource.partitions), resource.capacity) == (10, 95)
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_leases_are_renewed_for_as_long_as_they_are_needed() -> None:
    instances = Instances(10)
    leases = WatchedLeases(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events)
    resource.request(10)
    await instances.watch(300)
    assert resource.capacity == 10
    assert names(told, "capacity") == [10]
    assert names(told, "failed", "released", "error") == []
    renewals = [what for verb, what in leases.calls if verb == "renew"]
    # A lease is renewed when a third of it is over, not in every turn.
    assert 30 <= len(renewals) <= 80
    await instances.stop()


@virtually
async def test_what_is_not_needed_is_given_back_after_a_while_and_on_stop() -> None:
    instances = Instances(10)
    resource = await instances.start()
    told = listen(resource.events)
    resource.request(10)
    await asyncio.sleep(2)
    resource.request(4)
    await asyncio.sleep(0.9)
    assert resource.capacity == 10
    await asyncio.sleep(1.5)
    assert resource.capacity == 4
    assert len(names(told, "released")) == 6
    assert len(instances.leases.holders(virtual_wall_us())) == 4
    await instances.stop()
    assert len(names(told, "released")) == 10
    assert resource.capacity == 0
    assert instances.leases.holders(virtual_wall_us()) == {}
    asked = instances.leases.ask(Asking("another", 1), 15_000, virtual_wall_us())
    assert [one.instance for one in asked] == ["another"]
    assert told[-1].name == "shutdown"


@virtually
async def test_who_is_refused_backs_off_and_says_so() -> None:
    instances = Instances(4)
    for number in range(4):
        instances.leases.provision(4, "shared=4.0 factor=1.0", virtual_wall_us())
        instances.leases.acquire("a stranger", [number], 1, 3_600_000, virtual_wall_us())
    leases = WatchedLeases(instances.leases)
    resource = await instances.start(leases, max_interval=S)
    told = listen(resource.events)
    resource.request(4)
    await asyncio.sleep(60)
    failed = [one for one in told if one.name == "failed"]
    assert failed[0].message == "4 partitions more were wanted"
    assert resource.capacity == 0
    tries = [verb for verb, _ in leases.calls].count("acquire")
    # At random within a second, at most: not as often as at first, nor never again.
    assert 60 < tries < 200
    instances.leases.release("a stranger", [0, 1, 2, 3], virtual_wall_us())
    await asyncio.sleep(1.1)
    assert resource.capacity == 4
    await instances.stop()


@virtually
async def test_a_lease_that_somebody_else_has_now_is_lost_at_the_next_renewal() -> None:
    instances = Instances(2)
    resource = await instances.start()
    told = listen(resource.events)
    resource.request(2)
    await asyncio.sleep(1)
    instances.leases.release(resource.instance, [1], virtual_wall_us())
    instances.leases.acquire("a thief", [1], 1, 3_600_000, virtual_wall_us())
    await asyncio.sleep(8)
    assert resource.partitions == [0]
    lost = next(one for one in told if one.name == "failed")
    assert (lost.value, lost.message) == (1, "the lease was lost")
    assert names(told, "capacity")[-1] == 1
    await instances.stop()


@virtually
async def test_set_reserved_counts_at_once_and_changes_what_is_wanted() -> None:
    instances = Instances(100, factor=10)
    resource = await instances.start()
    told = listen(resource.events, "capacity")
    resource.request(50)
    await asyncio.sleep(1)
    resource.set_reserved(30)
    assert resource.capacity == 80
    assert told[-1].value == 80
    await asyncio.sleep(5)
    assert (resource.capacity, len(resource.partitions)) == (50, 2)
    resource.set_reserved(0)
    assert resource.capacity == 20
    await asyncio.sleep(1)
    assert resource.capacity == 50
    for wrong in (-1, "many", {"ru": 1}):
        with pytest.raises(InvalidRules):
            resource.set_reserved(wrong)  # type: ignore[arg-type]
    assert (resource.capacity, resource.max_capacity) == (50, 130)
    await instances.stop()


@virtually
async def test_set_shared_counts_at_once_down_and_soon_up() -> None:
    instances = Instances(100, factor=10)
    (resource,) = await instances.busy(1)
    await asyncio.sleep(1)
    resource.set_shared(45)
    instances.shared = 45
    assert resource.capacity == 45
    await instances.watch(2)
    assert len(instances.leases.holders(virtual_wall_us())) == 5
    instances.shared = 200
    resource.set_shared(200)
    await instances.watch(2)
    assert (resource.capacity, len(resource.partitions)) == (200, 20)
    with pytest.raises(InvalidRules, match="500 partitions"):
        resource.set_shared(1_000_000)
    assert resource.capacity == 200
    await instances.stop()
    assert instances.too_much == []


@virtually
async def test_ramp_and_adaptation_hold_for_a_share_too() -> None:
    instances = Instances(100, factor=10)
    resource = await instances.start(
        ramp=Ramp(start=10, step=10, every=S), adaptive=Adaptive(fall=0.5, step=0.5, every=100 * S)
    )
    resource.begin_ramp()
    resource.request(1_000)
    assert resource.capacity == 0
    await asyncio.sleep(0.5)
    assert len(resource.partitions) == 10
    assert resource.capacity <= 20
    await asyncio.sleep(12)
    assert resource.capacity == 100
    resource.throttled()
    assert resource.capacity == 50
    await instances.stop()


@virtually
async def test_of_several_capacities_a_partition_has_a_part_of_each() -> None:
    leases = StoreLeases(open_store("memory://"), "orders")
    shared, factor = {"ru": 100, "network": 10}, {"ru": 10, "network": 1}
    resource = SharedResource(leases, shared, factor=factor, clock=virtual_seconds, wall=virtual_wall_us)
    receiver = Receiver()
    async with dispatcher_of(resource) as dispatcher:
        watcher = receiver.watcher()
        await dispatcher.enqueue_many(Operation(watcher, {"ru": 1, "network": 1}) for _ in range(40))
        await asyncio.sleep(1)
        assert resource.capacity == {"ru": 100, "network": 10}
        await dispatcher.drain()
        assert virtual_seconds() == pytest.approx(4, abs=0.5)


@virtually
async def test_a_dispatcher_gets_what_it_needs_and_gives_it_back_when_it_is_done() -> None:
    instances = Instances(1_000, factor=100, reserved=50)
    resource = SharedResource(
        instances.leases, 1_000, factor=100, reserved=50, clock=virtual_seconds, wall=virtual_wall_us
    )
    receiver, dispatcher = Receiver(), dispatcher_of(resource)
    watcher = receiver.watcher()
    async with dispatcher:
        with pytest.raises(TooExpensive):
            await dispatcher.enqueue(Operation(watcher, 1_051))
        await dispatcher.enqueue_many(Operation(watcher, 10, number) for number in range(600))
        await dispatcher.drain()
        assert virtual_seconds() == pytest.approx(6_000 / 1_050, rel=0.1)
        await asyncio.sleep(5)
        assert (resource.capacity, resource.partitions) == (50, [])
    assert receiver.got == list(range(600))
    assert largest_spent(receiver.spent, 1) <= 1_050 * 1.1 + 10
    assert resource.phase == "stopped"


@virtually
async def test_a_limiter_that_goes_on_without_its_dispatcher_gives_back_what_that_needed() -> None:
    instances = Instances(100, factor=10)
    limiter = await instances.start()
    dispatcher, watcher = dispatcher_of(limiter), Receiver().watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 10) for _ in range(1_000))
    await asyncio.sleep(1)
    assert limiter.capacity == 100
    await dispatcher.stop(timedelta(0))
    await asyncio.sleep(3)
    assert (limiter.phase, limiter.partitions) == ("started", [])
    await instances.stop()
