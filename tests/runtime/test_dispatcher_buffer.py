"""A full buffer: who enqueues waits, in order, or is refused; who gives up waiting leaves nothing behind."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from batchline import Dispatcher, Operation, Watcher
from batchline.errors import BufferFull, InvalidOperation
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, largest_spent, ms, virtually


def operations(watcher: Watcher, *payloads: object, cost: float = 1) -> list[Operation]:
    return [Operation(watcher, cost, payload) for payload in payloads]


async def full(receiver: Receiver, buffer: int = 3, **options: object) -> tuple[Dispatcher, Watcher]:
    """A started dispatcher whose buffer is full, and that sends one operation a second."""
    dispatcher, watcher = dispatcher_of(capacity_of(1), buffer=buffer, **options), receiver.watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(operations(watcher, *[f"first {number}" for number in range(buffer)]))
    return dispatcher, watcher


@virtually
async def test_enqueue_waits_for_room() -> None:
    receiver = Receiver()
    dispatcher, watcher = await full(receiver)
    await dispatcher.enqueue(Operation(watcher, 1, "later"))
    assert virtual_seconds() == pytest.approx(0.1)
    await dispatcher.enqueue(Operation(watcher, 1, "still later"))
    assert virtual_seconds() == pytest.approx(1.1)
    assert dispatcher.buffered == 3
    await dispatcher.stop()
    assert receiver.got == ["first 0", "first 1", "first 2", "later", "still later"]


@virtually
async def test_more_than_the_buffer_holds_goes_in_by_and_by() -> None:
    receiver = Receiver()
    dispatcher = dispatcher_of(capacity_of(1_000), buffer=10)
    most = 0

    def look(*_: object) -> None:
        nonlocal most
        most = max(most, dispatcher.buffered)

    dispatcher.events.add_listener(look)
    async with dispatcher:
        await dispatcher.enqueue_many(operations(receiver.watcher(), *range(500)))
        await dispatcher.drain()
    assert receiver.got == list(range(500))
    assert most <= 10
    assert largest_spent(receiver.spent, 0.1) <= 1_000 * 0.2 + 1


@virtually
async def test_without_a_limit_a_small_buffer_holds_up_nothing() -> None:
    receiver = Receiver()
    async with dispatcher_of(buffer=10) as dispatcher:
        await dispatcher.enqueue_many(operations(receiver.watcher(), *range(1_000)))
        await dispatcher.drain()
    assert receiver.got == list(range(1_000))
    assert virtual_seconds() < 0.5


@virtually
async def test_producers_that_wait_take_turns_in_the_order_they_came() -> None:
    receiver = Receiver()
    dispatcher, watcher = await full(receiver, 2)
    order: list[str] = []

    async def produce(name: str, count: int) -> None:
        await dispatcher.enqueue_many(operations(watcher, *[f"{name}{number}" for number in range(count)]))
        order.append(name)

    producers = []
    for name, count in (("a", 5), ("b", 1), ("c", 3), ("d", 1)):
        producers.append(asyncio.ensure_future(produce(name, count)))
        await asyncio.sleep(0.01)
    await asyncio.gather(*producers)
    await dispatcher.stop()
    # Who comes with one does not wait for all of who came with five.
    assert order.index("b") < order.index("c") < order.index("a")
    got = receiver.got[2:]
    assert [name for name in got if name[1] == "0"] == ["a0", "b0", "c0", "d0"]
    assert sorted(got) == sorted(["a0", "a1", "a2", "a3", "a4", "b0", "c0", "c1", "c2", "d0"])
    for name in "abcd":
        own = [one for one in got if one[0] == name]
        assert own == sorted(own)


@virtually
async def test_one_that_comes_when_there_is_room_again_does_not_take_it_from_those_who_wait() -> None:
    receiver = Receiver()
    dispatcher, watcher = dispatcher_of(capacity_of(40), buffer=4), receiver.watcher()

    def produce(name: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(dispatcher.enqueue(Operation(watcher, 1, name)))

    def come(event: str, sent: int, *_: object) -> None:
        if event == "flush-done" and sent and len(producers) == 4:
            producers.append(produce("late"))

    await dispatcher.start()
    await dispatcher.enqueue_many(operations(watcher, *range(4)))
    producers = [produce(name) for name in ("a", "b", "c", "d")]
    dispatcher.events.add_listener(come)
    await asyncio.sleep(1)
    await asyncio.gather(*producers)
    await dispatcher.stop()
    assert receiver.got[4:] == ["a", "b", "c", "d", "late"]


@virtually
async def test_enqueue_nowait_takes_what_fits_and_refuses_what_does_not() -> None:
    receiver = Receiver()
    dispatcher, watcher = dispatcher_of(capacity_of(1), buffer=2), receiver.watcher()
    async with dispatcher:
        for operation in operations(watcher, 0, 1):
            dispatcher.enqueue_nowait(operation)
        with pytest.raises(BufferFull, match="buffer of 2 has room for 0, got 1"):
            dispatcher.enqueue_nowait(Operation(watcher, 1, "too many"))
        assert (dispatcher.buffered, dispatcher.target) == (2, 2)
    assert receiver.got == [0, 1]


@virtually
async def test_with_error_on_full_buffer_nobody_waits_and_it_is_all_or_nothing() -> None:
    receiver = Receiver()
    dispatcher, watcher = await full(receiver, 5, error_on_full_buffer=True)
    await asyncio.sleep(1.5)
    assert dispatcher.buffered == 3
    with pytest.raises(BufferFull, match="has room for 2, got 3"):
        await dispatcher.enqueue_many(operations(watcher, "a", "b", "c"))
    assert (dispatcher.buffered, dispatcher.target) == (3, 3)
    await dispatcher.enqueue_many(operations(watcher, "d", "e"))
    with pytest.raises(BufferFull, match="has room for 0, got 1"):
        await dispatcher.enqueue(Operation(watcher, 1, "f"))
    assert virtual_seconds() == pytest.approx(1.5)
    await dispatcher.stop()
    assert receiver.got[5:] == ["d", "e"]


@virtually
async def test_a_producer_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    receiver = Receiver()
    dispatcher, watcher = await full(receiver, 2)
    names = ["a", "b", "c", "d"]
    waiting = [asyncio.ensure_future(dispatcher.enqueue(Operation(watcher, 1, name))) for name in names]
    await asyncio.sleep(0.05)
    for place in (0, 2):
        waiting[place].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [one.cancelled() for one in waiting] == [True, False, True, False]
    await dispatcher.stop()
    assert receiver.got[2:] == ["b", "d"]


@virtually
async def test_many_producers_that_come_and_go_lose_and_double_nothing() -> None:
    receiver = Receiver(ms(30))
    dispatcher, watcher = dispatcher_of(capacity_of(300), buffer=7), receiver.watcher()
    enqueued: list[tuple[int, int]] = []

    async def produce(name: int) -> None:
        for number in range(20):
            try:
                await asyncio.wait_for(dispatcher.enqueue(Operation(watcher, 1, (name, number))), 0.25)
            except TimeoutError:
                continue
            enqueued.append((name, number))

    async with dispatcher:
        await asyncio.gather(*[produce(name) for name in range(30)])
        await dispatcher.drain()
    assert sorted(receiver.got) == sorted(enqueued)
    for name in range(30):
        of_one = [number for who, number in receiver.got if who == name]
        assert of_one == sorted(of_one)


@virtually
async def test_operations_that_come_again_are_taken_even_if_the_buffer_is_full() -> None:
    failed: list[object] = []

    async def fail_once(some: list[Operation]) -> None:
        await asyncio.sleep(0.05)
        if some[0].attempts == 1:
            failed.append(some[0].payload)
            raise ValueError("again")

    receiver = Receiver(then=fail_once)
    dispatcher = dispatcher_of(capacity_of(100), buffer=3)
    async with dispatcher:
        await dispatcher.enqueue_many(operations(receiver.watcher(), *range(30)))
        await dispatcher.drain()
    assert sorted(failed) == list(range(30))  # type: ignore[type-var]
    assert sorted(receiver.got) == sorted([*range(30)] * 2)


@virtually
async def test_nothing_to_enqueue_is_nothing_even_if_the_buffer_is_full() -> None:
    receiver = Receiver()
    dispatcher, _ = await full(receiver, 1)
    await asyncio.wait_for(dispatcher.enqueue_many([]), 0.01)
    await dispatcher.stop()
    assert receiver.got == ["first 0"]


@virtually
async def test_an_iterator_is_read_once_and_whole_before_anything_is_enqueued() -> None:
    receiver = Receiver()
    async with dispatcher_of() as dispatcher:
        watcher = receiver.watcher()

        def some(error: bool) -> Iterator[Operation]:
            yield from operations(watcher, "a", "b")
            if error:
                raise LookupError("half-way")

        with pytest.raises(LookupError):
            await dispatcher.enqueue_many(some(error=True))
        assert dispatcher.buffered == 0
        await dispatcher.enqueue_many(some(error=False))
        with pytest.raises(InvalidOperation, match="among them"):
            await dispatcher.enqueue_many([*operations(watcher, "c"), "d"])  # type: ignore[list-item]
    assert receiver.got == ["a", "b"]


@virtually
async def test_before_start_a_full_buffer_waits_for_the_start() -> None:
    receiver = Receiver()
    dispatcher, watcher = dispatcher_of(buffer=2), receiver.watcher()
    producing = asyncio.ensure_future(dispatcher.enqueue_many(operations(watcher, *range(5))))
    await asyncio.sleep(3)
    assert dispatcher.buffered == 2
    async with dispatcher:
        await producing
    assert receiver.got == list(range(5))
    assert virtual_seconds() < 3 + timedelta(seconds=1).total_seconds()
