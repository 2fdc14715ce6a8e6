"""Callbacks that hang: their cost comes back once, in time; their slot when they end; and never too many run."""

import asyncio
import random
from datetime import timedelta

import pytest

from batchline import Operation
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, ms, virtually

S = timedelta(seconds=1)


@virtually
async def test_after_the_longest_time_the_cost_is_given_back_and_the_slot_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver, dispatcher = Receiver(90 * S), dispatcher_of(capacity_of(1_000))
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(), 40))
        await asyncio.sleep(60)
        assert (dispatcher.target, dispatcher.inflight) == (40, 1)
        await asyncio.sleep(0.2)
        assert (dispatcher.target, dispatcher.inflight) == (0, 1)
        await asyncio.sleep(29)
        assert dispatcher.inflight == 1
        await asyncio.sleep(1)
        assert (dispatcher.target, dispatcher.inflight) == (0, 0)
    assert caplog.text.count("has 1 operations for longer than") == 1


@virtually
async def test_a_watcher_has_its_own_longest_time_which_goes_before_the_dispatchers() -> None:
    receiver, dispatcher = Receiver(10 * S), dispatcher_of(max_operation_time=5 * S)
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(max_operation_time=1 * S), 100))
        await dispatcher.enqueue(Operation(receiver.watcher(), 20))
        await dispatcher.enqueue(Operation(receiver.watcher(max_operation_time=8 * S), 3))
        targets = []
        for _ in range(10):
            await asyncio.sleep(1)
            targets.append(dispatcher.target)
    assert targets == [123, 23, 23, 23, 23, 3, 3, 3, 0, 0]


@virtually
@pytest.mark.parametrize("slots", [1, 3])
async def test_hanging_callbacks_hold_their_slots_and_nothing_more_is_sent(slots: int) -> None:
    receiver = Receiver(600 * S)
    dispatcher = dispatcher_of(max_concurrent_batches=slots, max_operation_time=S)
    await dispatcher.start()
    watcher = receiver.watcher()
    await dispatcher.enqueue_many(Operation(watcher, 1, number) for number in range(10))
    for _ in range(50):
        dispatcher.flush()
        await asyncio.sleep(10)
        assert (dispatcher.inflight, receiver.running) == (slots, slots)
    assert dispatcher.target == 10 - slots
    remains = await dispatcher.stop(timedelta(0))
    assert (len(remains.unfinished), len(remains.unsent)) == (slots, 10 - slots)


@virtually
async def test_a_late_end_frees_its_slot_and_no_cost_twice() -> None:
    receiver = Receiver(3 * S)
    dispatcher = dispatcher_of(capacity_of(1_000), max_concurrent_batches=2, max_operation_time=S)
    watcher = receiver.watcher()
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 10, number) for number in range(6))
        for _ in range(100):
            await asyncio.sleep(0.1)
            late = sum(handout.late for handout in dispatcher._dispatch.handouts.values())
            assert dispatcher.target == 10 * (dispatcher.buffered + dispatcher.inflight - late)
        await dispatcher.drain()
    assert receiver.got == list(range(6))
    assert receiver.most_running == 2
    assert virtual_seconds() == pytest.approx(10)


@virtually
async def test_a_late_callback_that_raises_gets_its_operations_again() -> None:
    async def fail_once(some: list[Operation]) -> None:
        if some[0].attempts == 1:
            raise ValueError("too late, too")

    receiver = Receiver(5 * S, fail_once)
    dispatcher = dispatcher_of(capacity_of(100), max_operation_time=S)
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(), 7, "x"))
        await asyncio.sleep(5.15)
        assert (dispatcher.target, dispatcher.buffered + dispatcher.inflight) == (7, 1)
        await dispatcher.drain()
    assert receiver.got == ["x", "x"]


@virtually
async def test_a_late_callback_does_not_make_an_audit_fail() -> None:
    receiver = Receiver(500 * S)
    dispatcher = dispatcher_of(capacity_of(100), max_operation_time=S, audit_interval=10 * S)
    told = listen(dispatcher.events, "audit-pass", "audit-skip", "audit-fail")
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(), 7))
        await asyncio.sleep(105)
        await dispatcher.stop(timedelta(0))
    assert {one.name for one in told} == {"audit-pass"}


@virtually
@pytest.mark.parametrize("slots", [1, 2, 5])
async def test_never_more_callbacks_run_than_are_allowed_whatever_they_do(slots: int) -> None:
    dice = random.Random(slots)

    async def behave(some: list[Operation]) -> None:
        await asyncio.sleep(dice.choice([0, 0.01, 0.3, 1]))
        if dice.random() < 0.3:
            raise ValueError("sometimes")

    receiver = Receiver(then=behave)
    dispatcher = dispatcher_of(max_concurrent_batches=slots, max_operation_time=ms(200))
    watcher = receiver.watcher(max_batch_size=3)
    async with dispatcher:
        for number in range(60):
            await dispatcher.enqueue(Operation(watcher, 1, number, batchable=dice.random() < 0.7))
            if dice.random() < 0.2:
                await asyncio.sleep(0.2)
            dispatcher.flush()
        await dispatcher.drain()
    assert receiver.most_running == slots
    assert set(receiver.got) == set(range(60))


@virtually
async def test_with_one_batch_at_a_time_order_is_kept_from_batch_to_batch() -> None:
    dice = random.Random(3)

    async def take_a_while(_: list[Operation]) -> None:
        await asyncio.sleep(dice.random())

    receiver = Receiver(then=take_a_while)
    dispatcher = dispatcher_of(capacity_of(500), max_concurrent_batches=1)
    watcher = receiver.watcher(max_batch_size=7)
    async with dispatcher:
        for number in range(300):
            await dispatcher.enqueue(Operation(watcher, 1, number, batchable=number % 5 != 0))
            if number % 20 == 0:
                await asyncio.sleep(0.1)
        await dispatcher.drain()
    assert receiver.got == list(range(300))


@virtually
async def test_while_every_slot_is_taken_no_more_is_requested_than_is_sent() -> None:
    receiver = Receiver(S)
    dispatcher = dispatcher_of(capacity_of(10_000), max_concurrent_batches=1)
    told = listen(dispatcher.events, "request")
    watcher = receiver.watcher()
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 50, number) for number in range(5))
        await asyncio.sleep(3)
    assert told[0].value == 250 + 250  # backlog and arrivals
    assert {one.value for one in told[1:]} <= {50, 100, 200, 150}
