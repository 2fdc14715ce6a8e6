"""A dispatcher from other threads: each verb waits there for what the loop does."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, Watcher
from batchline.errors import DispatcherStopped, ImproperOrder, InvalidOperation
from tests.runtime.dispatching import ms

PATIENCE_S = 30.0


class Noting:
    def __init__(self) -> None:
        self.got: list[Any] = []

    async def __call__(self, operations: list[Operation]) -> None:
        self.got += [operation.payload for operation in operations]


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.wait_for(asyncio.to_thread(work, *arguments), PATIENCE_S)


def test_four_threads_enqueue_at_once_and_nothing_is_lost_or_out_of_order() -> None:
    noting, each = Noting(), 300
    gate = threading.Barrier(4)

    def produce(dispatcher: Dispatcher, watcher: Watcher, name: int) -> None:
        gate.wait(PATIENCE_S)
        for number in range(0, each, 3):
            dispatcher.threadsafe.enqueue(Operation(watcher, 1, (name, number), batchable=True))
            some = [Operation(watcher, 1, (name, number + more), batchable=True) for more in (1, 2)]
            dispatcher.threadsafe.enqueue_many(some)
        dispatcher.threadsafe.flush()

    async def story() -> None:
        # A small buffer: threads wait for room, too.
        async with Dispatcher(buffer=20, flush_interval=ms(1), max_concurrent_batches=1) as dispatcher:
            watcher = Watcher(noting)
            with ThreadPoolExecutor(4) as threads:
                loop = asyncio.get_running_loop()
                work = [loop.run_in_executor(threads, produce, dispatcher, watcher, name) for name in range(4)]
                await asyncio.wait_for(asyncio.gather(*work), PATIENCE_S)
            await asyncio.wait_for(dispatcher.drain(), PATIENCE_S)
            assert (dispatcher.target, dispatcher.buffered) == (0, 0)

    asyncio.run(story())
    assert sorted(noting.got) == [(name, number) for name in range(4) for number in range(each)]
    for name in range(4):
        assert [number for who, number in noting.got if who == name] == list(range(each))


def test_what_is_refused_is_refused_in_the_thread() -> None:
    async def story() -> None:
        async with Dispatcher() as dispatcher:
            for wrong in ("text", [5]):
                with pytest.raises(InvalidOperation):
                    await in_thread(dispatcher.threadsafe.enqueue_many, wrong)

    asyncio.run(story())


def test_in_the_loops_own_thread_it_is_refused_where_it_would_wait_for_itself() -> None:
    noting = Noting()

    async def story() -> None:
        async with Dispatcher(flush_interval=ms(1)) as dispatcher:
            operation = Operation(Watcher(noting), 1, "x")
            with pytest.raises(ImproperOrder, match=r"await dispatcher\.enqueue"):
                dispatcher.threadsafe.enqueue(operation)
            with pytest.raises(ImproperOrder, match=r"await dispatcher\.enqueue"):
                dispatcher.threadsafe.enqueue_many([operation])
            assert dispatcher.buffered == 0
            dispatcher.threadsafe.flush()
            dispatcher.threadsafe.pause()

    asyncio.run(story())
    assert noting.got == []


def test_before_start_there_is_no_loop_to_do_it_in() -> None:
    dispatcher = Dispatcher()
    operation = Operation(Watcher(Noting()))
    verbs: dict[Callable[..., Any], tuple[Any, ...]] = {
        dispatcher.threadsafe.enqueue: (operation,),
        dispatcher.threadsafe.enqueue_many: ([operation],),
        dispatcher.threadsafe.flush: (),
        dispatcher.threadsafe.pause: (),
    }
    for verb, arguments in verbs.items():
        with pytest.raises(ImproperOrder, match="once it is started"):
            verb(*arguments)


def test_after_stop_and_after_the_loops_end_it_is_stopped() -> None:
    dispatcher = Dispatcher()
    operation = Operation(Watcher(Noting()))

    async def story() -> None:
        async with dispatcher:
            pass
        with pytest.raises(DispatcherStopped, match="1 operations not enqueued") as stopped:
            await in_thread(dispatcher.threadsafe.enqueue, operation)
        assert stopped.value.operations == [operation]
        await in_thread(dispatcher.threadsafe.flush)
        await in_thread(dispatcher.threadsafe.pause)

    asyncio.run(story())
    with pytest.raises(DispatcherStopped, match="loop of the dispatcher is closed"):
        dispatcher.threadsafe.enqueue(operation)
    with pytest.raises(DispatcherStopped, match="loop of the dispatcher is closed"):
        dispatcher.threadsafe.flush()


def test_threads_that_wait_for_room_wake_when_it_is_stopped() -> None:
    async def story() -> None:
        dispatcher = Dispatcher(buffer=1, flush_interval=timedelta(hours=1), max_concurrent_batches=1)
        hanging = Watcher(lambda _: asyncio.sleep(3_600))
        await dispatcher.start()
        # One is with the callback, one in the buffer; the others wait.
        await dispatcher.enqueue(Operation(hanging))
        dispatcher.flush()
        await asyncio.sleep(0.05)
        await dispatcher.enqueue(Operation(hanging))
        waiting = [
            asyncio.ensure_future(in_thread(dispatcher.threadsafe.enqueue, Operation(hanging, 1, number)))
            for number in range(3)
        ]
        while dispatcher._queued < 3:
            await asyncio.sleep(0.01)
        await dispatcher.stop(timedelta(0))
        woken: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in woken] == [DispatcherStopped] * 3
        assert sorted(one.operations[0].payload for one in woken) == [0, 1, 2]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_from_a_plain_callback_in_its_thread_more_can_be_enqueued() -> None:
    got: list[int] = []

    async def story() -> None:
        async with Dispatcher(flush_interval=ms(1)) as dispatcher:

            def go_on(operations: list[Operation]) -> None:
                for operation in operations:
                    got.append(operation.payload)
                    if operation.payload < 5:
                        dispatcher.threadsafe.enqueue(Operation(watcher, 1, operation.payload + 1))

            watcher = Watcher(go_on)
            await dispatcher.enqueue(Operation(watcher, 1, 0))
            await asyncio.wait_for(dispatcher.drain(), PATIENCE_S)

    asyncio.run(story())
    assert got == [0, 1, 2, 3, 4, 5]


def test_plain_callbacks_run_in_threads_and_the_loop_goes_on() -> None:
    together = threading.Barrier(4)

    def meet(_: list[Operation]) -> None:
        together.wait(PATIENCE_S)

    async def story() -> None:
        async with Dispatcher(flush_interval=ms(1)) as dispatcher:
            watcher = Watcher(meet)
            await dispatcher.enqueue_many(Operation(watcher) for _ in range(4))
            await asyncio.wait_for(dispatcher.drain(), PATIENCE_S)

    asyncio.run(story())
    assert not together.broken


def test_a_thread_that_hangs_is_not_waited_for_when_it_is_stopped() -> None:
    gate, begun = threading.Event(), threading.Event()

    def hang(_: list[Operation]) -> None:
        begun.set()
        gate.wait(PATIENCE_S)

    async def story() -> list[Any]:
        dispatcher = Dispatcher(flush_interval=ms(1))
        await dispatcher.start()
        await dispatcher.enqueue(Operation(Watcher(hang), 1, "x"))
        await in_thread(begun.wait, PATIENCE_S)
        remains = await asyncio.wait_for(dispatcher.stop(timedelta(0)), PATIENCE_S)
        assert not gate.is_set()
        return [operation.payload for operation in remains.unfinished]

    try:
        assert asyncio.run(story()) == ["x"]
    finally:
        gate.set()
