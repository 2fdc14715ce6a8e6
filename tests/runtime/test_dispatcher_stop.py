"""Stopping: what can still be done in time is done, what is left is handed back, and nobody waits for ever."""

import asyncio
from datetime import timedelta

import pytest

from batchline import Dispatcher, Operation, Remains, Watcher
from batchline.errors import DispatcherStopped, ImproperOrder, InvalidRules
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import (
    Receiver,
    capacity_of,
    dispatcher_of,
    leave_by_an_error,
    listen,
    ms,
    payloads,
    virtually,
)

S = timedelta(seconds=1)


def operations(receiver: Receiver, count: int, cost: float = 1) -> list[Operation]:
    watcher = receiver.watcher()
    return [Operation(watcher, cost, number) for number in range(count)]


async def started(dispatcher: Dispatcher, some: list[Operation]) -> Dispatcher:
    await dispatcher.start()
    await dispatcher.enqueue_many(some)
    return dispatcher


@virtually
async def test_stop_hands_out_what_waits_within_the_limit_and_has_nothing_left() -> None:
    receiver = Receiver(ms(200))
    dispatcher = await started(dispatcher_of(capacity_of(10)), operations(receiver, 50))
    assert await dispatcher.stop() == Remains([], [])
    assert receiver.got == list(range(50))
    assert virtual_seconds() == pytest.approx(5.2, abs=0.2)


@virtually
async def test_what_could_not_be_sent_within_the_limit_is_handed_back() -> None:
    receiver = Receiver()
    some = operations(receiver, 50)
    dispatcher = await started(dispatcher_of(capacity_of(10)), some)
    remains = await dispatcher.stop(2 * S)
    assert remains.unfinished == []
    assert receiver.got + payloads(remains.unsent) == list(range(50))
    assert len(receiver.got) == pytest.approx(20, abs=2)
    assert all(operation.attempts == 0 for operation in remains.unsent)
    assert dispatcher.remains is remains
    assert (dispatcher.target, dispatcher.buffered) == (0, 0)


@virtually
async def test_a_callback_that_does_not_end_within_the_limit_is_cancelled_and_its_operations_are_unfinished() -> None:
    receiver = Receiver(3600 * S)
    some = operations(receiver, 3)
    dispatcher = await started(dispatcher_of(max_concurrent_batches=2), some)
    remains = await dispatcher.stop(S)
    assert (payloads(remains.unfinished), payloads(remains.unsent)) == ([0, 1], [2])
    assert receiver.running == 0
    assert virtual_seconds() == pytest.approx(1)


@virtually
async def test_without_a_drain_everything_is_handed_back_at_once() -> None:
    receiver = Receiver(S)
    dispatcher = await started(dispatcher_of(capacity_of(10)), operations(receiver, 5))
    await asyncio.sleep(0.15)
    remains = await dispatcher.stop(timedelta(0))
    assert (payloads(remains.unfinished), payloads(remains.unsent)) == ([0], [1, 2, 3, 4])
    assert virtual_seconds() == pytest.approx(0.15)


@virtually
async def test_a_callback_that_will_not_be_cancelled_is_waited_for_only_so_long() -> None:
    async def insist(_: list[Operation]) -> None:
        for _again in range(5):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    receiver = Receiver(then=insist)
    dispatcher = await started(dispatcher_of(), operations(receiver, 1))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(timedelta(0))
    assert payloads(remains.unfinished) == [0]
    assert virtual_seconds() == pytest.approx(2)
    await asyncio.sleep(1_000)
    assert dispatcher.inflight == 0


@virtually
async def test_a_callback_that_ends_well_when_it_is_cancelled_has_finished() -> None:
    async def give_in(_: list[Operation]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return

    dispatcher = await started(dispatcher_of(), operations(Receiver(then=give_in), 1))
    await asyncio.sleep(1)
    assert await dispatcher.stop(timedelta(0)) == Remains([], [])


@virtually
async def test_stop_while_paused_waits_for_the_pause_and_drains_if_there_is_time() -> None:
    receiver = Receiver()
    dispatcher = await started(dispatcher_of(pause_time=5 * S), operations(receiver, 3))
    dispatcher.pause()
    assert await dispatcher.stop(10 * S) == Remains([], [])
    assert [at_s for at_s, _ in receiver.batches] == [pytest.approx(5)] * 3


@virtually
async def test_stop_while_paused_for_longer_than_the_limit_hands_everything_back() -> None:
    receiver = Receiver()
    dispatcher = await started(dispatcher_of(pause_time=60 * S), operations(receiver, 3))
    dispatcher.pause()
    assert payloads((await dispatcher.stop(10 * S)).unsent) == [0, 1, 2]
    assert receiver.got == []


@virtually
async def test_stopped_twice_it_gives_the_same_remains_and_tells_shutdown_once() -> None:
    receiver = Receiver()
    dispatcher = await started(dispatcher_of(capacity_of(1)), operations(receiver, 5))
    first = await dispatcher.stop(timedelta(0))
    assert len(first.unsent) == 5
    assert await dispatcher.stop() is first
    assert dispatcher.events.counts["shutdown"] == 1


@virtually
async def test_two_tasks_that_stop_it_get_the_same_remains_when_it_has_stopped() -> None:
    receiver = Receiver()
    dispatcher = await started(dispatcher_of(capacity_of(10)), operations(receiver, 50))
    first, second = await asyncio.gather(dispatcher.stop(2 * S), dispatcher.stop(timedelta(0)))
    assert first is second
    assert virtual_seconds() == pytest.approx(2)


@virtually
async def test_a_stop_that_is_cancelled_half_way_ends_at_once_and_the_remains_are_kept() -> None:
    receiver = Receiver(S)
    dispatcher = await started(dispatcher_of(capacity_of(10)), operations(receiver, 50))
    stopping = asyncio.ensure_future(dispatcher.stop())
    await asyncio.sleep(2)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    remains = await dispatcher.stop()
    finished = len(receiver.got) - len(remains.unfinished)
    assert finished + len(remains.unfinished) + len(remains.unsent) == 50
    assert remains.unfinished
    assert virtual_seconds() == pytest.approx(2)
    assert dispatcher.events.counts["shutdown"] == 1


@virtually
async def test_a_stop_that_is_cancelled_again_and_again_still_comes_to_its_end() -> None:
    async def linger(_: list[Operation]) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.5)

    dispatcher = await started(dispatcher_of(), operations(Receiver(then=linger), 2))
    stopping = asyncio.ensure_future(dispatcher.stop())
    await asyncio.sleep(2)
    for _ in range(3):
        stopping.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await stopping
    remains = await asyncio.wait_for(dispatcher.stop(), 60)
    assert payloads(remains.unfinished) == [0, 1]
    assert dispatcher.events.counts["shutdown"] == 1


@virtually
async def test_left_well_the_context_drains_and_left_by_an_exception_it_does_not() -> None:
    receiver = Receiver()
    async with dispatcher_of(capacity_of(10)) as drained:
        await drained.enqueue_many(operations(receiver, 20))
    assert receiver.got == list(range(20))
    left = dispatcher_of(capacity_of(10))
    with pytest.raises(LookupError):
        await leave_by_an_error(left, operations(receiver, 20))
    assert payloads(left.remains.unsent) == list(range(20))


@virtually
async def test_what_is_left_by_an_exception_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = dispatcher_of(capacity_of(10))
    with pytest.raises(LookupError):
        await leave_by_an_error(dispatcher, operations(Receiver(), 20))
    assert "stopped with 20 operations unsent and 0 unfinished" in caplog.text


@virtually
async def test_enqueue_after_stop_is_an_error_that_carries_the_operations() -> None:
    receiver = Receiver(S)
    dispatcher = await started(dispatcher_of(), operations(receiver, 1))
    stopping = asyncio.ensure_future(dispatcher.stop())
    await asyncio.sleep(0.5)
    late = operations(receiver, 3)
    for phase in ("stopping", "stopped"):
        with pytest.raises(DispatcherStopped, match=f"the dispatcher is {phase}: 3 operations") as stopped:
            await dispatcher.enqueue_many(late)
        assert stopped.value.operations == late
        with pytest.raises(DispatcherStopped):
            dispatcher.enqueue_nowait(late[0])
        with pytest.raises(DispatcherStopped):
            await dispatcher.enqueue(late[0])
        await stopping
    assert receiver.got == [0]


@virtually
async def test_producers_that_wait_wake_with_what_was_not_enqueued() -> None:
    receiver, woken = Receiver(), list[tuple[str, int]]()
    dispatcher = await started(dispatcher_of(capacity_of(10), buffer=5), operations(receiver, 5))

    async def produce(name: str, count: int) -> None:
        some = operations(receiver, count)
        with pytest.raises(DispatcherStopped) as stopped:
            await dispatcher.enqueue_many(some)
        left = stopped.value.operations
        assert left == some[count - len(left) :]
        woken.append((name, len(left)))

    producers = [asyncio.ensure_future(produce(name, 8)) for name in "abc"]
    await asyncio.sleep(0.75)
    remains = await dispatcher.stop(timedelta(0))
    await asyncio.wait_for(asyncio.gather(*producers), 1)
    assert sorted(name for name, _ in woken) == ["a", "b", "c"]
    assert all(0 < left <= 8 for _, left in woken)
    assert len(receiver.got) + len(remains.unsent) + sum(left for _, left in woken) == 29


@virtually
async def test_a_limiter_that_the_dispatcher_started_is_stopped_with_it_and_another_is_not() -> None:
    own, other = capacity_of(1), capacity_of(1)
    async with other:
        for limiter in (own, other):
            async with dispatcher_of(limiter):
                assert limiter.phase == "started"
        assert (own.phase, other.phase) == ("stopped", "started")


@virtually
async def test_a_limiter_that_somebody_else_has_stopped_does_not_keep_the_dispatcher_from_stopping() -> None:
    limiter = capacity_of(10)
    dispatcher = await started(dispatcher_of(limiter), operations(Receiver(), 5))
    await limiter.stop()
    assert await asyncio.wait_for(dispatcher.stop(), 60) == Remains([], [])
    assert dispatcher.events.counts["shutdown"] == 1


@virtually
async def test_shutdown_is_the_last_event() -> None:
    dispatcher = await started(dispatcher_of(capacity_of(10)), operations(Receiver(S), 5))
    told = listen(dispatcher.events)
    await dispatcher.stop()
    await asyncio.sleep(100)
    assert told[-1].name == "shutdown"
    assert [one.name for one in told].count("shutdown") == 1


@virtually
async def test_a_drain_that_is_no_span_is_refused_and_nothing_is_stopped() -> None:
    receiver = Receiver()
    async with dispatcher_of() as dispatcher:
        for wrong in (5, None, -S):
            with pytest.raises(InvalidRules, match="drain"):
                await dispatcher.stop(wrong)  # type: ignore[arg-type]
        await dispatcher.enqueue_many(operations(receiver, 1))
    assert receiver.got == [0]
    with pytest.raises(ImproperOrder):
        await dispatcher_of().stop(S)


def cancel_all_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@virtually
async def test_stop_hands_back_everything_after_a_program_has_cancelled_all_its_tasks() -> None:
    receiver = Receiver(ms(200))
    some = operations(receiver, 5)
    dispatcher = await started(dispatcher_of(capacity_of(10)), some)
    await asyncio.sleep(0.15)
    assert dispatcher.inflight
    cancel_all_others()
    remains = await asyncio.wait_for(dispatcher.stop(), 5)
    assert {*remains.unsent, *remains.unfinished} == set(some)
    assert await asyncio.wait_for(dispatcher.stop(), 5) == remains


@virtually
async def test_stop_hands_back_everything_if_all_tasks_are_cancelled_while_it_ends() -> None:
    async def linger(_: list[Operation]) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.5)

    some = [Operation(Watcher(linger), 1)]
    dispatcher = await started(dispatcher_of(), some)
    await asyncio.sleep(1)
    stopping = asyncio.ensure_future(dispatcher.stop(timedelta(0)))
    await asyncio.sleep(0.1)
    cancel_all_others()
    await asyncio.wait([stopping])
    remains = await asyncio.wait_for(dispatcher.stop(), 5)
    assert remains == Remains([], some)


@virtually
async def test_an_operation_that_its_callback_enqueued_again_is_unsent_only() -> None:
    async def again(some: list[Operation]) -> None:
        await dispatcher.enqueue_many(some)
        await asyncio.sleep(3_600)

    operation = Operation(Watcher(again), 1)
    dispatcher = await started(dispatcher_of(max_concurrent_batches=1), [operation])
    await asyncio.sleep(1)
    assert await dispatcher.stop(timedelta(0)) == Remains([operation], [])


@virtually
async def test_an_operation_that_two_callbacks_have_is_unfinished_once() -> None:
    async def again(some: list[Operation]) -> None:
        if some[0].attempts == 1:
            await dispatcher.enqueue_many(some)
        await asyncio.sleep(3_600)

    operation = Operation(Watcher(again), 1)
    dispatcher = await started(dispatcher_of(), [operation])
    await asyncio.sleep(1)
    assert dispatcher.inflight == 2
    assert await dispatcher.stop(timedelta(0)) == Remains([], [operation])


@virtually
async def test_an_operation_that_on_error_enqueued_again_is_unsent_only() -> None:
    async def fail(_: list[Operation]) -> None:
        raise ValueError("no luck")

    async def again(some: list[Operation], _: Exception) -> None:
        dispatcher.pause()
        await dispatcher.enqueue_many(some)
        await asyncio.sleep(3_600)

    operation = Operation(Watcher(fail, on_error=again), 1)
    dispatcher = await started(dispatcher_of(pause_time=10 * S), [operation])
    await asyncio.sleep(1)
    assert await dispatcher.stop(timedelta(0)) == Remains([operation], [])
