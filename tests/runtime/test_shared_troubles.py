"""A keeper of leases that does not answer, or strangely: capacity falls to what is reserved in time, and comes back."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from batchline import SharedResource, open_store
from batchline.errors import StoreUnavailable
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import listen, ms, virtually
from tests.runtime.instances import Instances, Unsteady, WatchedLeases

S = timedelta(seconds=1)


@virtually
async def test_away_for_longer_than_a_lease_the_capacity_falls_to_reserved_before_the_leases_end_there() -> None:
    instances = Instances(100, factor=10, reserved=7)
    leases = Unsteady(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events)
    resource.request(1_000)
    await asyncio.sleep(20)
    assert resource.capacity == 107
    leases.away()
    while resource.capacity > 7:
        # As long as it counts on a partition here, it is its own there.
        holders = instances.leases.holders(virtual_wall_us())
        assert all(holders.get(partition) == resource.instance for partition in resource.partitions)
        await asyncio.sleep(0.01)
    assert 20 + 4 < virtual_seconds() < 20 + 15
    errors = [one for one in told if one.name == "error"]
    assert errors[0].message == "the store is away"
    assert isinstance(errors[0].metadata, StoreUnavailable)
    # It tries again and again, and not as fast as it can.
    await asyncio.sleep(60)
    assert 100 < len(errors) + 100 < 1_000
    leases.back()
    await asyncio.sleep(1)
    assert resource.capacity == 107
    assert [one.value for one in told if one.name == "capacity"][-2:] == [7, 107]
    await instances.stop()


@virtually
async def test_an_outage_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    instances = Instances(100, factor=10)
    leases = Unsteady(instances.leases)
    resource = await instances.start(leases)
    errors = listen(resource.events, "error")
    resource.request(1_000)
    leases.away()
    await asyncio.sleep(30)
    assert len(errors) > 10
    assert caplog.text.count("loop share") == 1
    assert [one.loop for one in resource.troubles()] == ["share"]
    leases.back()
    await asyncio.sleep(5)
    assert caplog.text.count("loop share") == 2, "that it runs again"
    assert resource.troubles() == []
    await instances.stop()


@virtually
async def test_away_for_a_moment_nothing_is_lost() -> None:
    instances = Instances(100, factor=10)
    leases = Unsteady(instances.leases)
    resource = await instances.start(leases)
    resource.request(1_000)
    await asyncio.sleep(5)
    for _ in range(10):
        leases.away()
        await asyncio.sleep(3)
        leases.back()
        await asyncio.sleep(1)
        assert resource.capacity == 100
    await instances.stop()


@virtually
async def test_one_that_is_cut_off_and_the_others_never_have_more_than_there_is_together() -> None:
    instances = Instances(100, factor=5)
    leases = Unsteady(instances.leases)
    cut_off = await instances.start(leases)
    cut_off.request(1_000)
    await instances.busy(2)
    await instances.watch(10)
    for _ in range(3):
        leases.away()
        await instances.watch(20)
        assert cut_off.capacity == 0
        assert sum(instances.shares) == 100
        leases.back()
        await instances.watch(30)
        assert all(share == pytest.approx(33, abs=5) for share in instances.shares)
    await instances.stop()
    assert instances.too_much == []


@virtually
@pytest.mark.parametrize("error", [RuntimeError("a driver's own"), ValueError("strange"), KeyError("odd")], ids=repr)
async def test_whatever_the_keeper_raises_the_turns_go_on(error: Exception) -> None:
    instances = Instances(100, factor=10)
    leases = Unsteady(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events, "error")
    leases.error = error
    resource.request(1_000)
    await asyncio.sleep(5)
    assert told
    assert told[0].metadata is error
    leases.back()
    await asyncio.sleep(2)
    assert resource.capacity == 100
    leases.error = error
    await asyncio.wait_for(resource.stop(), 60)
    assert resource.phase == "stopped"


@virtually
async def test_a_keeper_that_is_away_does_not_keep_it_from_stopping_and_the_leases_run_out() -> None:
    instances = Instances(100, factor=10)
    leases = Unsteady(instances.leases)
    resource = await instances.start(leases)
    told = listen(resource.events)
    resource.request(1_000)
    await asyncio.sleep(5)
    leases.away()
    await asyncio.wait_for(resource.stop(), 30)
    assert told[-1].name == "shutdown"
    assert resource.capacity == 0
    await asyncio.sleep(15)
    assert instances.leases.holders(virtual_wall_us()) == {}


@virtually
async def test_one_that_answers_but_forgets_loses_its_leases_and_gets_others() -> None:
    instances = Instances(4)
    resource = await instances.start()
    told = listen(resource.events, "failed")
    resource.request(4)
    await asyncio.sleep(2)
    instances.leases.release(resource.instance, [0, 1, 2, 3], virtual_wall_us())
    await asyncio.sleep(15)
    assert resource.capacity == 4
    assert len(told) == 4
    await instances.stop()


# --- one that hangs, in real time: a thread that waits is no matter of virtual time ---


class Hanging(WatchedLeases):
    """Calls hang while the gate is closed."""

    def __init__(self, leases: LeaseManager):
        super().__init__(leases)
        self.gate = threading.Event()
        self.gate.set()

    def called(self, verb: str, what: Any) -> None:
        super().called(verb, what)
        assert self.gate.wait(30)


def test_one_that_hangs_lets_the_capacity_fall_in_time_and_come_back() -> None:
    lease = ms(600)
    memory = StoreLeases(open_store("memory://"), "orders")
    leases = Hanging(memory)

    async def until(resource: SharedResource, capacity: float) -> float:
        began_s = elapsed_seconds()
        while resource.capacity != capacity:
            assert elapsed_seconds() - began_s < 30
            await asyncio.sleep(0.005)
        return elapsed_seconds()

    async def held_there(partitions: Sequence[int]) -> bool:
        return set(partitions) <= set(memory.holders(now_us()))

    async def story() -> None:
        resource = SharedResource(leases, 100, factor=10, reserved=3, lease=lease, max_interval=ms(50))
        async with resource:
            resource.request(1_000)
            await until(resource, 103)
            for _ in range(2):
                leases.gate.clear()
                closed_s = elapsed_seconds()
                while resource.capacity != 3:
                    held = resource.partitions
                    assert await held_there(held) or resource.partitions != held
                    await asyncio.sleep(0.005)
                fallen_s = elapsed_seconds() - closed_s
                # On a busy machine it is noticed later, and that is no matter: it is what the clock says that counts.
                assert fallen_s < 5
                leases.gate.set()
                await until(resource, 103)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_call_that_hangs_when_it_is_stopped_is_waited_for_no_longer_than_two_leases() -> None:
    leases = Hanging(StoreLeases(open_store("memory://"), "orders"))

    async def story() -> None:
        resource = SharedResource(leases, 10, lease=ms(200), max_interval=ms(20))
        await resource.provision()
        await resource.start()
        told: list[str] = []
        resource.events.add_listener(lambda name, *_: told.append(name))
        resource.request(10)
        while resource.capacity < 10:
            await asyncio.sleep(0.01)
        leases.gate.clear()
        await asyncio.sleep(0.1)
        await asyncio.wait_for(resource.stop(), 10)
        assert told[-2:] == ["error", "shutdown"]
        leases.gate.set()

    asyncio.run(story())
