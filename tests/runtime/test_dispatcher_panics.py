"""Callbacks that raise a BaseException: each frees its slot, returns its cost and reaches on_error."""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, ProvisionedResource, Throttled, Watcher
from batchline.core.moment import moment_of
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, ms, payloads, virtually


class PanicException(BaseException):
    """What a native library raises."""


RAISED = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    PanicException("index out of bounds"),
    BaseExceptionGroup("some", [PanicException("one")]),
]


def raising(error: BaseException, plain: bool) -> Callable[..., Any]:
    """A function that raises, called in a thread or awaited."""

    def fail(*_: object) -> None:
        raise error

    async def fail_later(*_: object) -> None:
        await asyncio.sleep(0.01)
        raise error

    return fail if plain else fail_later


each_kind = pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
each_error = pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)


@virtually
@each_kind
@each_error
async def test_on_error_gets_the_batch_and_the_only_slot_is_free_again(error: BaseException, plain: bool) -> None:
    given: list[tuple[list[Any], Exception]] = []
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100), max_concurrent_batches=1)
    bad = Watcher(raising(error, plain), on_error=lambda some, why: given.append((payloads(some), why)))
    async with dispatcher:
        await dispatcher.enqueue(Operation(bad, 5, "bad"))
        await asyncio.sleep(1)
        assert (dispatcher.inflight, dispatcher.target) == (0, 0)
        await dispatcher.enqueue(Operation(receiver.watcher(), 5, "good"))
        await asyncio.wait_for(dispatcher.drain(), 60)
    ((operations, why),) = given
    assert operations == ["bad"]
    assert isinstance(why, Exception)
    assert why.__cause__ is error
    assert receiver.got == ["good"]


@virtually
@each_kind
@each_error
async def test_without_on_error_operations_come_again_and_are_dead_in_the_end(
    error: BaseException, plain: bool
) -> None:
    dead: list[Any] = []
    dispatcher = dispatcher_of(max_concurrent_batches=1)
    watcher = Watcher(raising(error, plain), max_attempts=3, on_dead=lambda some, _: dead.extend(payloads(some)))
    operation = Operation(watcher, 1, "x")
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert (dead, operation.attempts) == (["x"], 3)


@virtually
@each_kind
@each_error
async def test_an_on_error_that_panics_is_logged_and_operations_come_again(
    error: BaseException, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []

    async def fail_once(operations: list[Operation]) -> None:
        calls.append(payloads(operations))
        if len(calls) == 1:
            raise ValueError("no luck")

    async with dispatcher_of(max_concurrent_batches=1) as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(fail_once, on_error=raising(error, plain)), 1, "x"))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert calls == [["x"], ["x"]]
    assert "on_error raised" in caplog.text


@virtually
@each_kind
@each_error
async def test_an_on_dead_that_panics_is_logged_and_the_loop_goes_on(
    error: BaseException, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    bad = Watcher(raising(ValueError("no luck"), plain), max_attempts=1, on_dead=raising(error, plain))
    async with dispatcher_of(max_concurrent_batches=1) as dispatcher:
        await dispatcher.enqueue(Operation(bad, 1, "bad"))
        await dispatcher.enqueue(Operation(receiver.watcher(), 1, "good"))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert receiver.got == ["good"]
    assert "on_dead raised: 1 operations are dead: no luck" in caplog.text


@virtually
@each_error
async def test_a_listener_that_panics_is_logged_and_every_batch_is_handed_out(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(emit_batch=True, max_concurrent_batches=2)
    dispatcher.events.add_listener(raising(error, plain=True))
    async with dispatcher:
        watcher = receiver.watcher()
        await dispatcher.enqueue_many(Operation(watcher, 1, number) for number in range(6))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert receiver.got == list(range(6))
    assert "a listener raised on the event batch" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), PanicException("oops")], ids=repr)
@each_kind
def test_a_panic_ends_neither_a_real_loop_nor_a_real_thread(error: BaseException, plain: bool) -> None:
    given: list[str] = []

    async def story() -> None:
        async with Dispatcher(flush_interval=ms(1), max_concurrent_batches=1) as dispatcher:
            watcher = Watcher(raising(error, plain), on_error=lambda _, why: given.append(str(why)))
            await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(3))
            await asyncio.wait_for(dispatcher.drain(), 30)

    asyncio.run(story())
    assert given == [f"it raised {type(error).__name__}: {error}"] * 3


@virtually
async def test_a_callback_that_cancels_itself_when_the_loop_wakes_reaches_on_error() -> None:
    given: list[Any] = []

    async def cancel_at(operations: list[Operation]) -> None:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        loop.call_at(operations[0].payload, woken.set_result, None)
        await woken
        raise asyncio.CancelledError

    async with dispatcher_of(audit_interval=timedelta(seconds=1)) as dispatcher:
        watcher = Watcher(cancel_at, on_error=lambda some, _: given.extend(payloads(some)))
        moments = [virtual_seconds() + 1]
        while len(moments) < 6:
            moments.append(math.nextafter(moments[-1], 0))
        await dispatcher.enqueue_many(Operation(watcher, 1, moment) for moment in moments)
        await asyncio.sleep(3)
        assert (sorted(given), dispatcher.inflight) == (sorted(moments), 0)


@virtually
async def test_what_a_callback_settled_before_it_panicked_is_debited() -> None:
    async def settle(operations: list[Operation]) -> None:
        operations[0].settle(100)
        raise SystemExit

    receiver = Receiver()
    async with dispatcher_of(capacity_of(100)) as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(settle, on_error=lambda *_: None), 1))
        await dispatcher.drain()
        await dispatcher.enqueue(Operation(receiver.watcher(), 1))
        await dispatcher.drain()
        assert virtual_seconds() == pytest.approx(1.1, abs=0.2)


@virtually
async def test_stop_cancels_a_callback_and_neither_on_error_nor_on_dead_is_called() -> None:
    ended: list[str] = []

    async def wait(_: list[Operation]) -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    dispatcher = dispatcher_of()
    await dispatcher.start()
    note = ended.append
    watcher = Watcher(wait, max_attempts=1, on_error=lambda *_: note("error"), on_dead=lambda *_: note("dead"))
    await dispatcher.enqueue(Operation(watcher, 1, "x"))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(timedelta(0))
    assert (payloads(remains.unfinished), ended) == (["x"], ["cancelled"])


@virtually
async def test_a_callback_that_panics_while_it_is_cancelled_does_not_disturb_stop() -> None:
    async def exit_late(_: list[Operation]) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            raise SystemExit(3)

    dispatcher = dispatcher_of()
    await dispatcher.start()
    await dispatcher.enqueue(Operation(Watcher(exit_late), 1, "x"))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(timedelta(0))
    assert payloads(remains.unfinished) == ["x"]


def test_a_loop_that_ends_without_stop_cancels_callbacks_and_calls_no_on_error() -> None:
    given: list[Any] = []
    began = asyncio.Event()

    async def hang(*_: object) -> None:
        began.set()
        await asyncio.Event().wait()

    async def give(*_: object) -> None:
        given.append("error")
        await hang()

    async def story() -> None:
        dispatcher = Dispatcher(flush_interval=ms(1))
        await dispatcher.start()
        await dispatcher.enqueue(Operation(Watcher(hang, on_error=give), 1))
        await began.wait()

    asyncio.run(story())
    assert given == []


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unshown:
    """A payload that cannot be shown."""

    def __repr__(self) -> str:
        raise AttributeError("not made yet")


@virtually
async def test_operations_that_die_of_an_error_without_words_reach_on_dead() -> None:
    dead: list[Any] = []
    watcher = Watcher(raising(Mute(), plain=False), max_attempts=1, on_dead=lambda some, _: dead.extend(payloads(some)))
    async with dispatcher_of() as dispatcher:
        told = listen(dispatcher.events, "dead")
        await dispatcher.enqueue(Operation(watcher, 1, "x"))
        await dispatcher.drain()
    assert (dead, [one.message for one in told]) == (["x"], ["Mute"])


@virtually
async def test_every_expired_operation_reaches_on_dead_though_a_payload_cannot_be_shown() -> None:

    dead: list[Operation] = []
    watcher = Watcher(Receiver().__call__, on_dead=lambda some, _: dead.extend(some))
    deadline = moment_of(virtual_wall_us() + 1_000)
    operations = [Operation(watcher, 1, Unshown(), deadline=deadline) for _ in range(3)]
    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue_many(operations)
        await dispatcher.drain()
    assert dead == operations


@virtually
async def test_a_limiter_that_raises_when_it_is_throttled_costs_no_slot(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(ProvisionedResource):
        def throttled(self) -> None:
            raise LookupError("a fault of its own")

    times: list[float] = []

    async def throttle_once(_: list[Operation]) -> None:
        times.append(virtual_seconds())
        if len(times) == 1:
            raise Throttled

    dispatcher = dispatcher_of(Faulty(100, clock=virtual_seconds), max_concurrent_batches=1)
    async with dispatcher:
        await dispatcher.enqueue(Operation(Watcher(throttle_once), 1))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert len(times) == 2
    assert "a fault of its own" in caplog.text
