"""Limiters: their life in order, what they refuse when they are built, and what a capacity of one's own gives."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchline import Adaptive, Dispatcher, Operation, ProvisionedResource, Ramp, SharedResource, open_store
from batchline.errors import ImproperOrder, InvalidName, InvalidRules, StoreUnavailable
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, virtually

S = timedelta(seconds=1)


def shared_of(shared: Any = 100, **options: Any) -> SharedResource:
    manager = StoreLeases(open_store("memory://"), "orders")
    return SharedResource(manager, shared, clock=virtual_seconds, wall=virtual_wall_us, **options)


@virtually
@pytest.mark.parametrize("build", [lambda: capacity_of(10), shared_of], ids=["provisioned", "shared"])
async def test_the_order_is_provision_start_stop(build: Any) -> None:
    limiter = build()
    told = listen(limiter.events, "shutdown")
    with pytest.raises(ImproperOrder, match="got start when it was new"):
        await limiter.start()
    with pytest.raises(ImproperOrder, match="got stop when it was new"):
        await limiter.stop()
    await limiter.provision()
    await limiter.provision()
    with pytest.raises(ImproperOrder, match="got stop when it was provisioned"):
        await limiter.stop()
    await limiter.start()
    for verb in (limiter.provision, limiter.start):
        with pytest.raises(ImproperOrder, match="when it was started"):
            await verb()
    await limiter.stop()
    for verb in (limiter.provision, limiter.start, limiter.stop):
        with pytest.raises(ImproperOrder, match="when it was stopped"):
            await verb()
    assert [one.name for one in told] == ["shutdown"]


@virtually
async def test_a_limiter_belongs_to_one_dispatcher() -> None:
    limiter = capacity_of(10)
    async with dispatcher_of(limiter):
        other = dispatcher_of(limiter)
        with pytest.raises(ImproperOrder, match="has one already"):
            await other.start()


class Away(ProvisionedResource):
    """A limiter whose place cannot be reached at first."""

    def __init__(self, times: int):
        super().__init__(10, clock=virtual_seconds)
        self._times = times

    async def _provision(self) -> None:
        self._times -= 1
        if self._times >= 0:
            raise StoreUnavailable("away")


@virtually
async def test_a_start_that_failed_can_be_tried_again() -> None:
    receiver = Receiver()
    dispatcher = dispatcher_of(Away(2))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="away"):
            await dispatcher.start()
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(), 1, "x"))
    assert receiver.got == ["x"]


@virtually
async def test_a_limiter_is_started_where_it_stands() -> None:
    new, provisioned, started = (capacity_of(10) for _ in range(3))
    await provisioned.provision()
    await started.provision()
    await started.start()
    for limiter in (new, provisioned, started):
        async with dispatcher_of(limiter):
            assert limiter.phase == "started"
    assert [limiter.phase for limiter in (new, provisioned, started)] == ["stopped", "stopped", "started"]
    with pytest.raises(ImproperOrder):
        await dispatcher_of(new).start()


@pytest.mark.parametrize("capacity", [-1, float("nan"), float("inf"), 1e16, True, None, "5", {}, {"": 1}, {"ru": -1}])
def test_a_capacity_that_cannot_be_is_refused(capacity: Any) -> None:
    with pytest.raises(InvalidRules, match="capacity"):
        ProvisionedResource(capacity)
    limiter = ProvisionedResource(7)
    with pytest.raises(InvalidRules, match="capacity"):
        limiter.set_capacity(capacity)
    assert limiter.capacity == 7


@pytest.mark.parametrize(
    "options",
    [
        {"ramp": 5},
        {"ramp": Adaptive()},
        {"adaptive": 0.5},
        {"adaptive": Ramp(1, step=1)},
        {"ramp": Ramp(start={"ru": 1}, factor=2)},
        {"ramp": Ramp(start=1, step={"ru": 1})},
    ],
    ids=str,
)
def test_a_ramp_or_adaptation_that_does_not_belong_to_the_capacity_is_refused_when_it_is_built(options: Any) -> None:
    name = next(iter(options))
    with pytest.raises(InvalidRules, match=name):
        ProvisionedResource(100, **options)
    with pytest.raises(InvalidRules, match=name):
        shared_of(100, **options)


def test_several_capacities_have_a_ramp_for_each() -> None:
    ramp = Ramp(start={"ru": 1, "network": 2}, step={"ru": 10, "network": 10}, every=S)
    assert ProvisionedResource({"network": 20, "ru": 10}, ramp=ramp).capacity == {"ru": 1, "network": 2}
    for capacity in (100, {"ru": 1}, {"ru": 1, "disk": 1}):
        with pytest.raises(InvalidRules, match="ramp"):
            ProvisionedResource(capacity, ramp=ramp)


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        ("shared", {"shared": -1}),
        ("factor", {"factor": 0}),
        ("factor", {"factor": {"ru": 1}}),
        ("reserved", {"reserved": -1}),
        ("reserved", {"reserved": {"ru": 1}}),
        ("500 partitions", {"shared": 501}),
        ("500 partitions", {"shared": 100, "factor": 0.1}),
        ("max_interval", {"max_interval": timedelta(0)}),
        ("max_interval", {"max_interval": 5}),
        ("lease", {"lease": timedelta(0)}),
        ("lease", {"lease": None}),
    ],
)
def test_a_share_that_cannot_be_is_refused_when_it_is_built(wrong: str, options: Any) -> None:
    with pytest.raises(InvalidRules, match=wrong):
        shared_of(**options)


@pytest.mark.parametrize("instance", ["a\nb", "x" * 256, 5])
def test_an_instance_has_a_name_that_every_store_can_keep(instance: Any) -> None:
    with pytest.raises(InvalidName, match="instance"):
        shared_of(instance=instance)


def test_what_is_no_lease_manager_is_refused() -> None:
    with pytest.raises(InvalidRules, match="lease_manager must be"):
        SharedResource("sqlite:///leases.db", 100)  # type: ignore[arg-type]


@virtually
async def test_capacity_is_told_when_it_changes_and_only_then() -> None:
    limiter = capacity_of(10)
    told = listen(limiter.events)
    async with limiter:
        for capacity in (10, 20, 20, 5):
            limiter.set_capacity(capacity)
            assert limiter.capacity == capacity
    assert [(one.name, one.value) for one in told] == [
        ("capacity", 10),
        ("capacity", 20),
        ("capacity", 5),
        ("shutdown", 0),
    ]
    assert limiter.max_capacity == 20


@virtually
async def test_another_capacity_has_the_names_it_had() -> None:
    limiter = capacity_of({"ru": 10, "network": 5})
    limiter.set_capacity({"network": 1, "ru": 20})
    assert (limiter.capacity, limiter.max_capacity) == ({"ru": 20, "network": 1}, {"ru": 20, "network": 5})
    for wrong in (10, {"ru": 1}, {"ru": 1, "network": 1, "disk": 1}):
        with pytest.raises(InvalidRules, match="the same capacities as before"):
            limiter.set_capacity(wrong)


@virtually
async def test_a_ramp_and_an_adaptation_go_together() -> None:
    ramp, adaptive = Ramp(start=100, factor=2, every=S), Adaptive(fall=0.5, step=0.25, every=S)
    limiter = capacity_of(1_000, ramp=ramp, adaptive=adaptive)
    limiter.begin_ramp()
    assert limiter.capacity == 100
    await asyncio.sleep(1)
    assert limiter.capacity == pytest.approx(200)
    limiter.throttled()
    assert limiter.capacity == pytest.approx(100)
    await asyncio.sleep(10)
    assert limiter.capacity == pytest.approx(1_000)


@virtually
async def test_throttling_means_nothing_to_a_capacity_that_does_not_adapt() -> None:
    limiter = capacity_of(50)
    limiter.throttled()
    assert limiter.capacity == 50


def test_a_limiter_can_be_built_and_asked_without_a_loop() -> None:
    assert ProvisionedResource(5).capacity == 5
    assert Dispatcher(ProvisionedResource(5)).target == 0


@virtually
@pytest.mark.parametrize("build", [capacity_of, shared_of], ids=["provisioned", "shared"])
async def test_a_ramp_starts_with_the_dispatcher_and_not_when_its_capacity_is_first_read(build: Any) -> None:
    limiter = build(1_000, ramp=Ramp(start=100, step=100, every=S), **({"factor": 10} if build is shared_of else {}))
    await limiter.provision()
    await limiter.start()
    limiter.request(1_000)
    for _ in range(60):
        await asyncio.sleep(1)
        assert limiter.capacity <= 100
    async with dispatcher_of(limiter) as dispatcher:
        watcher = Receiver().watcher()
        await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(5_000))
        await asyncio.sleep(2)
        assert limiter.capacity == pytest.approx(300, abs=15)
        await dispatcher.stop(timedelta(0))


@virtually
async def test_a_ramp_waits_for_a_limiter_that_is_slow_to_provision() -> None:
    class Slow(ProvisionedResource):
        async def _provision(self) -> None:
            await asyncio.sleep(30)

    limiter = Slow(1_000, ramp=Ramp(start=100, step=100, every=S), clock=virtual_seconds)
    async with dispatcher_of(limiter):
        assert limiter.capacity == 100
        await asyncio.sleep(1)
        assert limiter.capacity == pytest.approx(200)


@virtually
async def test_changing_a_capacity_does_not_start_its_ramp() -> None:
    limiter = capacity_of(1_000, ramp=Ramp(start=100, step=100, every=S))
    limiter.set_capacity(2_000)
    await asyncio.sleep(5)
    async with dispatcher_of(limiter):
        assert limiter.capacity == 100
