"""An operation is enqueued once at a time: a second time is refused while it waits or is in flight."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, Throttled, Watcher
from batchline.core.moment import moment_of
from batchline.errors import BufferFull, DispatcherStopped, DuplicateOperation, OperationRefused, TooManyAttempts
from batchline.runtime.dispatcher import own_batch
from batchline.runtime.virtual_time import virtual_wall_us
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, ms, payloads, virtually

S = timedelta(seconds=1)
Enqueue = Callable[[Dispatcher, Operation], Awaitable[None]]


async def nowait(dispatcher: Dispatcher, operation: Operation) -> None:
    dispatcher.enqueue_nowait(operation)


async def many(dispatcher: Dispatcher, operation: Operation) -> None:
    await dispatcher.enqueue_many([Operation(operation.watcher, 1, "before"), operation])


VERBS: list[Enqueue] = [Dispatcher.enqueue, nowait, many]
each_verb = pytest.mark.parametrize("enqueue", VERBS, ids=["enqueue", "enqueue_nowait", "enqueue_many"])


def books(dispatcher: Dispatcher) -> tuple[int, int, Any]:
    return (dispatcher.buffered, dispatcher.inflight, dispatcher.target)


@virtually
@each_verb
@pytest.mark.parametrize("error_on_full_buffer", [True, False])
async def test_an_operation_that_waits_is_refused_and_nothing_changes(
    enqueue: Enqueue, error_on_full_buffer: bool
) -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100), error_on_full_buffer=error_on_full_buffer)
    operation = Operation(receiver.watcher(), 7, "once")
    await dispatcher.enqueue(operation)
    with pytest.raises(DuplicateOperation) as refused:
        await enqueue(dispatcher, operation)
    assert isinstance(refused.value, OperationRefused)
    assert str(refused.value) == (
        "the operation of receiver with payload 'once' is already enqueued; an operation can be enqueued once at a "
        "time: enqueue it again after its batch has ended, or make a new one"
    )
    assert books(dispatcher) == (1, 0, 7)
    async with dispatcher:
        await dispatcher.drain()
    assert (receiver.got, operation.attempts) == (["once"], 1)


@virtually
@each_verb
async def test_an_operation_in_flight_is_refused_until_its_batch_has_ended(enqueue: Enqueue) -> None:
    receiver, dispatcher = Receiver(S), dispatcher_of(capacity_of(100))
    operation = Operation(receiver.watcher(), 7, "x")
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await asyncio.sleep(0.5)
        with pytest.raises(DuplicateOperation, match="is already in flight"):
            await enqueue(dispatcher, operation)
        assert books(dispatcher) == (0, 1, 7)
        await dispatcher.drain()
        await enqueue(dispatcher, operation)
        await dispatcher.drain()
    assert [payload for payload in receiver.got if payload == "x"] == ["x", "x"]


@virtually
async def test_a_call_that_names_an_operation_twice_enqueues_none_of_its_operations() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100))
    watcher = receiver.watcher()
    one, other = Operation(watcher, 1, "one"), Operation(watcher, 2, "other")
    with pytest.raises(DuplicateOperation, match="payload 'other' is already in the same call"):
        await dispatcher.enqueue_many([one, other, other])
    assert books(dispatcher) == (0, 0, 0)
    await dispatcher.enqueue_many([one, other])
    async with dispatcher:
        await dispatcher.drain()
    assert receiver.got == ["one", "other"]


@virtually
async def test_an_operation_that_waits_for_room_counts_as_enqueued() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(buffer=2)
    watcher = receiver.watcher()
    some = [Operation(watcher, 1, number) for number in range(4)]
    waiting = asyncio.ensure_future(dispatcher.enqueue_many(some))
    await asyncio.sleep(0)
    with pytest.raises(DuplicateOperation):
        await dispatcher.enqueue(some[3])
    async with dispatcher:
        await waiting
        await dispatcher.drain()
    assert receiver.got == [0, 1, 2, 3]


@virtually
async def test_a_refused_or_cancelled_call_leaves_its_operations_free() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100), buffer=1)
    watcher = receiver.watcher()
    first, second = Operation(watcher, 1, "first"), Operation(watcher, 1, "second")
    dispatcher.enqueue_nowait(first)
    with pytest.raises(BufferFull):
        dispatcher.enqueue_nowait(second)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(dispatcher.enqueue(second), 1)
    with pytest.raises(DuplicateOperation):
        await dispatcher.enqueue_many([second, first])
    async with dispatcher:
        await dispatcher.enqueue(second)
        await dispatcher.drain()
    assert receiver.got == ["first", "second"]


@virtually
async def test_operations_that_stop_hands_back_can_be_enqueued_elsewhere() -> None:
    slow, receiver = Receiver(3_600 * S), Receiver()
    dispatcher = dispatcher_of(buffer=2, max_concurrent_batches=1)
    watcher = slow.watcher()
    some = [Operation(watcher, 1, number) for number in range(5)]
    await dispatcher.start()
    blocked = asyncio.ensure_future(dispatcher.enqueue_many(some))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(timedelta(0))
    with pytest.raises(DispatcherStopped) as left:
        await blocked
    back = [*remains.unfinished, *remains.unsent, *left.value.operations]
    assert payloads(back) == [0, 1, 2, 3, 4]
    for operation in back:
        operation.watcher = receiver.watcher()
    async with dispatcher_of() as other:
        await other.enqueue_many(back)
        await other.drain()
    assert sorted(receiver.got) == [0, 1, 2, 3, 4]


@virtually
async def test_an_operation_waits_in_one_dispatcher_at_a_time() -> None:
    receiver, one, other = Receiver(), dispatcher_of(), dispatcher_of()
    operation = Operation(receiver.watcher(), 1)
    await one.enqueue(operation)
    with pytest.raises(DuplicateOperation):
        await other.enqueue(operation)
    assert books(other) == (0, 0, 0)


# --- again, from inside ---


@virtually
@each_verb
async def test_a_callback_may_enqueue_its_own_operation_again_while_attempts_are_left(enqueue: Enqueue) -> None:
    dispatcher, refused, times = dispatcher_of(capacity_of(100), max_concurrent_batches=1), list[Any](), list[int]()

    async def again(operations: list[Operation]) -> None:
        times.append(operation.attempts)
        if operation in operations:
            try:
                await enqueue(dispatcher, operation)
            except TooManyAttempts as error:
                refused.append(error)

    operation = Operation(Watcher(again, max_attempts=3), 5)
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
    assert (operation.attempts, len(refused), dispatcher.target) == (3, 1, 0)


@virtually
async def test_a_callback_may_enqueue_its_own_operation_again_only_once() -> None:
    dispatcher, refused = dispatcher_of(capacity_of(100)), list[str]()

    async def twice(operations: list[Operation]) -> None:
        if operations[0].attempts == 1:
            await dispatcher.enqueue(operations[0])
            with pytest.raises(DuplicateOperation) as error:
                await dispatcher.enqueue(operations[0])
            refused.append(str(error.value))

    operation = Operation(Watcher(twice), 5)
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
    assert operation.attempts == 2
    assert "already enqueued" in refused[0]


@virtually
async def test_a_call_refused_inside_a_callback_leaves_its_own_operation_in_flight() -> None:
    dispatcher, receiver = dispatcher_of(capacity_of(100)), Receiver()
    waiting = Operation(receiver.watcher(), 1, "waiting")

    async def mixed(operations: list[Operation]) -> None:
        await dispatcher.enqueue(waiting)
        with pytest.raises(DuplicateOperation, match="'waiting' is already enqueued"):
            await dispatcher.enqueue_many([*operations, waiting])
        await asyncio.sleep(1)

    operation = Operation(Watcher(mixed), 5)
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await asyncio.sleep(0.5)
        with pytest.raises(DuplicateOperation, match="in flight"):
            await dispatcher.enqueue(operation)
        await dispatcher.drain()
    assert (operation.attempts, receiver.got) == (1, ["waiting"])


@virtually
@pytest.mark.parametrize("error", [ValueError("no luck"), Throttled(), SystemExit()], ids=repr)
async def test_a_callback_that_enqueues_again_and_then_raises_sends_each_operation_once_more(
    error: BaseException,
) -> None:
    dispatcher, batches = dispatcher_of(capacity_of(100), max_concurrent_batches=1), list[list[Any]]()

    async def again_and_raise(operations: list[Operation]) -> None:
        batches.append(payloads(operations))
        if len(batches) == 1:
            await dispatcher.enqueue(operations[0])
            raise error

    watcher = Watcher(again_and_raise)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(2))
        await asyncio.wait_for(dispatcher.drain(), 60)
        assert dispatcher.target == 0
    assert sorted(payload for batch in batches[1:] for payload in batch) == [0, 1]


@virtually
async def test_an_operation_handed_out_again_while_its_first_callback_runs_is_booked_for_each() -> None:
    dispatcher = dispatcher_of(capacity_of(100))

    async def again_then_take_long(operations: list[Operation]) -> None:
        if operations[0].attempts == 1:
            await dispatcher.enqueue(operations[0])
        await asyncio.sleep(1)

    operation = Operation(Watcher(again_then_take_long), 5)
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await asyncio.sleep(0.5)
        assert books(dispatcher) == (0, 2, 10)
        await asyncio.sleep(0.65)
        assert books(dispatcher) == (0, 1, 5)
        with pytest.raises(DuplicateOperation):
            await dispatcher.enqueue(operation)
        await dispatcher.drain()
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
    assert operation.attempts == 3


@virtually
async def test_on_error_may_enqueue_some_and_what_it_leaves_when_it_raises_comes_again() -> None:
    dispatcher, batches = dispatcher_of(), list[list[Any]]()

    async def fail_once(operations: list[Operation]) -> None:
        batches.append(payloads(operations))
        if len(batches) == 1:
            raise ValueError("no luck")

    async def first_only(operations: list[Operation], _: Exception) -> None:
        await dispatcher.enqueue(operations[0])
        raise LookupError("worse")

    watcher = Watcher(fail_once, on_error=first_only)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(3))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert sorted(payload for batch in batches[1:] for payload in batch) == [0, 1, 2]


@virtually
async def test_on_dead_may_enqueue_an_operation_that_expired_with_a_new_deadline() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of()

    async def later(operations: list[Operation], _: Exception) -> None:
        operations[0].deadline_us = None
        await dispatcher.enqueue(operations[0])

    watcher = receiver.watcher(on_dead=later)
    async with dispatcher:
        await dispatcher.enqueue(Operation(watcher, 1, "x", deadline=moment_of(virtual_wall_us() + 1_000)))
        await dispatcher.drain()
    assert receiver.got == ["x"]


# --- from threads ---


def test_threads_are_refused_too_and_a_plain_callback_may_enqueue_its_own_again() -> None:
    refused: list[str] = []
    calls: list[int] = []
    handed_out, go_on = threading.Event(), threading.Event()

    def again(operations: list[Operation]) -> None:
        calls.append(len(operations))
        if len(calls) == 1:
            handed_out.set()
            go_on.wait(30)
            dispatcher.threadsafe.enqueue(operations[0])
            for verb in (dispatcher.threadsafe.enqueue, lambda one: dispatcher.threadsafe.enqueue_many([one])):
                note_refusal(verb, operations[0])

    def note_refusal(verb: Callable[[Operation], None], operation: Operation) -> None:
        try:
            verb(operation)
        except DuplicateOperation as error:
            refused.append(str(error))

    def meddle() -> None:
        handed_out.wait(30)
        note_refusal(dispatcher.threadsafe.enqueue, operation)
        go_on.set()

    async def story() -> None:
        async with dispatcher:
            await dispatcher.enqueue(operation)
            await asyncio.to_thread(meddle)
            await asyncio.wait_for(dispatcher.drain(), 30)

    operation = Operation(Watcher(again), 1)
    dispatcher = Dispatcher(flush_interval=ms(1), max_concurrent_batches=1)
    asyncio.run(story())
    assert calls == [1, 1]
    assert ["in flight" in text for text in refused] == [True, False, False]


async def full_dispatcher(watcher: Watcher) -> Dispatcher:
    """A dispatcher without room, which never hands out."""
    dispatcher = dispatcher_of(buffer=1)
    await dispatcher.enqueue(Operation(watcher, 1))
    return dispatcher


@virtually
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another dispatcher"])
async def test_a_throttled_operation_goes_again_after_its_callback_found_no_room_for_it(elsewhere: bool) -> None:
    times: list[int] = []
    other = await full_dispatcher(Receiver().watcher())

    async def find_no_room(some: list[Operation]) -> None:
        times.append(some[0].attempts)
        if len(times) > 1:
            return
        target = other if elsewhere else dispatcher
        if not elsewhere:
            dispatcher.enqueue_nowait(Operation(Receiver().watcher(), 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(target.enqueue(some[0]), 1)
        with pytest.raises(DuplicateOperation):
            await asyncio.get_running_loop().create_task(enqueue_outside(target, some[0]))
        raise Throttled

    async with dispatcher_of(buffer=1, max_concurrent_batches=1) as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(find_no_room), 1))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert times == [1, 1]


async def enqueue_outside(dispatcher: Dispatcher, operation: Operation) -> None:
    """Enqueue as a producer that is not the operation's callback."""
    own_batch.set(None)
    await dispatcher.enqueue(operation)


@virtually
async def test_an_operation_is_free_after_a_task_of_its_ended_callback_found_no_room() -> None:
    tasks: list[asyncio.Task[None]] = []
    other = await full_dispatcher(Receiver().watcher())

    async def try_elsewhere(some: list[Operation]) -> None:
        tasks.append(asyncio.ensure_future(other.enqueue(some[0])))
        await asyncio.sleep(0)

    operation = Operation(Watcher(try_elsewhere), 1)
    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
        tasks[0].cancel()
        await asyncio.wait(tasks)
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
        tasks[1].cancel()
    assert operation.attempts == 2


@virtually
async def test_an_operation_is_free_after_a_task_of_a_callback_cut_off_by_stop_found_no_room() -> None:
    tasks: list[asyncio.Task[None]] = []
    other = await full_dispatcher(Receiver().watcher())

    async def try_elsewhere(some: list[Operation]) -> None:
        tasks.append(asyncio.ensure_future(other.enqueue(some[0])))
        await asyncio.sleep(3_600)

    receiver, dispatcher = Receiver(), dispatcher_of()
    operation = Operation(Watcher(try_elsewhere), 1, "x")
    await dispatcher.start()
    await dispatcher.enqueue(operation)
    await asyncio.sleep(1)
    await dispatcher.stop(timedelta(0))
    tasks[0].cancel()
    await asyncio.wait(tasks)
    operation.watcher = receiver.watcher()
    async with dispatcher_of() as another:
        await another.enqueue(operation)
        await another.drain()
    assert receiver.got == ["x"]
