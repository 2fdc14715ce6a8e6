"""Each background loop with a part that can fail: in virtual time, and what is for a thread is done at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from batchline import Consumer, LeasedMessage, NewMessage, Operation, ProvisionedResource, Timeline, open_store
from batchline.core.trouble import LoopName
from batchline.runtime.supervisor import Supervised
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from batchline.service.group_commit import GroupCommit
from batchline.service.service import Service
from batchline.service.waiting import Wanted
from batchline.sources.landing import Landing
from batchline.sources.measured import Measured
from tests.runtime.dispatching import Receiver as Sent
from tests.runtime.dispatching import dispatcher_of
from tests.runtime.instances import Instances, Unsteady
from tests.runtime.working import Depot, Receiver
from tests.service.test_roll import OneSocket

__all__ = ["CASES", "SERVED", "Case", "Fault", "Scene"]


class Fault:
    """A fault that is there or not. A part that was made `faulty` raises while it is."""

    def __init__(self) -> None:
        self.on = False
        self.met = 0

    def faulty(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same work, which divides by zero while the fault is there."""

        def called(*arguments: Any, **options: Any) -> Any:
            if self.on:
                self.met += 1
                return 1 // 0
            return work(*arguments, **options)

        return called


@dataclass
class Scene:
    """A loop that runs, and the part of the program that it belongs to."""

    part: Supervised
    #: Called again and again: makes work for a loop that runs on demand.
    poke: Callable[[], Awaitable[None]] | None = None


Case = Callable[[Fault, Path], AbstractAsyncContextManager[Scene]]


class Inline(Executor):
    """Threads whose work is done at once."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - it is for the caller
            done.set_exception(error)
        return done


def service_of(landing: GroupCommit | None = None) -> Service:
    service = Service(open_store("memory://"), landing=landing, clock=virtual_wall_us)
    for look in (service.parts.store_probe, service.parts.pump_probe, service.parts.numbers):
        look._threads, look._keep_s = Inline(), -1.0
    service.parts.timeline.create_topic("jobs")
    return service


def in_background(name: LoopName) -> Case:
    """Return the case of a loop of `Services`, in a service."""

    @asynccontextmanager
    async def case(fault: Fault, _: Path) -> AsyncIterator[Scene]:
        service = service_of()
        services = service.background
        for one in services._paced:
            if one.name == name:
                one.service.run_once = fault.faulty(one.service.run_once)  # type: ignore[method-assign]
        running = asyncio.ensure_future(services.run())
        yield Scene(service)
        services.stop()
        await running
        service.close()

    return case


@asynccontextmanager
async def pump(fault: Fault, _: Path) -> AsyncIterator[Scene]:
    service = service_of()
    timeline: Any = service.parts.timeline
    timeline.next_due = fault.faulty(timeline.next_due)
    waiting = asyncio.ensure_future(service.parts.pumps.of("jobs").lease(Wanted("c", lambda: 1)))
    yield Scene(service)
    service.dismiss()
    assert await waiting == []
    service.close()


@asynccontextmanager
async def sockets(fault: Fault, _: Path) -> AsyncIterator[Scene]:
    service = service_of()
    one = OneSocket(service.parts, "c")
    one.session.begin()
    one.sweep = fault.faulty(one.sweep)  # type: ignore[method-assign]
    await service.parts.roll.enter(one)
    yield Scene(service)
    await service.parts.roll.leave(one, is_over=True)
    service.close()


@asynccontextmanager
async def group_commit(fault: Fault, directory: Path) -> AsyncIterator[Scene]:
    with Landing(directory, "http") as landing:
        group = GroupCommit(landing, virtual_wall_us)
        landing.land = fault.faulty(landing.land)  # type: ignore[method-assign]
        service = service_of(group)

        async def post() -> None:
            with suppress(ZeroDivisionError):  # the request is answered: it does not wait for ever
                await group.land(lambda _: [Measured("a", "b", 0, 1.0)])

        yield Scene(service, post)
        service.close()


def on_look(name: LoopName) -> Case:
    """Return the case of a look at the store, which is made when health or metrics are asked for."""

    @asynccontextmanager
    async def case(fault: Fault, _: Path) -> AsyncIterator[Scene]:
        service = service_of()
        look: Any = {"schema_check": service.parts.store_probe, "store_numbers": service.parts.numbers}[name]
        look._read = fault.faulty(look._read)

        async def ask() -> None:
            seen = await look.now()
            assert (seen.error is not None) == fault.on

        yield Scene(service, ask)
        service.close()

    return case


def consume_with(verb: str) -> Case:
    """Return the case of a consumer with a message in hand, one verb of whose timeline fails."""

    @asynccontextmanager
    async def case(fault: Fault, _: Path) -> AsyncIterator[Scene]:
        timeline: Any = Timeline(open_store("memory://"), clock=virtual_wall_us)
        timeline.create_topic("jobs", lease=timedelta(seconds=30))
        timeline.create("jobs", [NewMessage(id="held")], producer_group="p")
        ended, handled = asyncio.Event(), []

        async def hold(message: LeasedMessage) -> None:
            handled.append(message.id)
            await ended.wait()

        setattr(timeline, verb, fault.faulty(getattr(timeline, verb)))
        consumer = Consumer(timeline, "jobs", hold, consumer="c", chance=lambda: 0.0)
        running = asyncio.ensure_future(consumer.run())
        yield Scene(consumer)
        ended.set()
        await asyncio.sleep(1)
        consumer.stop()
        await running
        # The pauses are shorter than the lease: it was never lost.
        assert (handled, dict(consumer.outcomes)) == (["held"], {"done": 1})

    return case


class FaultyResource(ProvisionedResource):
    """A limiter that can fail."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(100, clock=virtual_seconds)
        self.configured = fault.faulty(super().configured)  # type: ignore[method-assign]


@asynccontextmanager
async def dispatch(fault: Fault, _: Path) -> AsyncIterator[Scene]:
    receiver = Sent()
    dispatcher = dispatcher_of(FaultyResource(fault))
    async with dispatcher:

        async def enqueue() -> None:
            await dispatcher.enqueue(Operation(receiver.watcher(), cost=1))

        yield Scene(dispatcher, enqueue)
        await dispatcher.drain()
    assert receiver.got  # what waited was sent in the end


@asynccontextmanager
async def share(fault: Fault, _: Path) -> AsyncIterator[Scene]:
    instances = Instances(100, factor=10)
    leases = Unsteady(instances.leases)
    leases.called = fault.faulty(leases.called)  # type: ignore[method-assign]
    resource = await instances.start(leases)
    resource.request(1_000)
    # A limiter is shown by its dispatcher.
    yield Scene(dispatcher_of(resource))
    await instances.stop()


@asynccontextmanager
async def lanes(fault: Fault, _: Path) -> AsyncIterator[Scene]:
    depot = Depot({0: 2})
    # Another has number 1: the worker looks how far the lane has come.
    depot.timeline.lease("parcels", "other", duration=timedelta(hours=12))
    worker = depot.worker(Receiver())
    deliveries: Any = worker.deliveries
    deliveries.reached = fault.faulty(deliveries.reached)
    running = asyncio.ensure_future(worker.run())
    yield Scene(worker)
    worker.stop()
    await running


#: Loops of a process of the service, which its health and metrics show.
SERVED: dict[str, Case] = {
    "prune": in_background("prune"),
    "rescue": in_background("rescue"),
    "expire": in_background("expire"),
    "beat": in_background("beat"),
    "pump": pump,
    "sockets": sockets,
    "group_commit": group_commit,
    "schema_check": on_look("schema_check"),
    "store_numbers": on_look("store_numbers"),
}
#: All loops on asyncio, by name; after a colon, the way in which it fails.
CASES: dict[str, Case] = {
    **SERVED,
    "consume:renewal": consume_with("extend"),
    "consume:heartbeat": consume_with("heartbeat"),
    "consume:lease": consume_with("lease"),
    "dispatch": dispatch,
    "share": share,
    "lanes": lanes,
}
