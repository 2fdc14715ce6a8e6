"""Callbacks that raise: their operations come again while attempts are left, then they are dead; the loop goes on."""

import asyncio
import functools
from datetime import timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, Watcher
from batchline.errors import TooManyAttempts
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, ms, payloads, virtually


class Failing:
    """Fails so many times, then does its work."""

    def __init__(self, times: float = float("inf"), error: BaseException | None = None):
        self.calls = 0
        self.done: list[Any] = []
        self._times, self._error = times, error or ValueError("no luck")

    def plain(self, operations: list[Operation]) -> None:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        self.done += payloads(operations)

    async def awaited(self, operations: list[Operation]) -> None:
        await asyncio.sleep(0.01)
        self.plain(operations)


class CallsPlain:
    def __init__(self, failing: Failing):
        self.failing = failing

    def __call__(self, operations: list[Operation]) -> None:
        self.failing.plain(operations)


class CallsAwaited(CallsPlain):
    async def __call__(self, operations: list[Operation]) -> None:  # type: ignore[override] # it is awaited
        await self.failing.awaited(operations)


def of_kind(kind: str, failing: Failing) -> Any:
    kinds: dict[str, Any] = {
        "async": failing.awaited,
        "plain": failing.plain,
        "partial of async": functools.partial(Failing.awaited, failing),
        "partial of plain": functools.partial(Failing.plain, failing),
        "object": CallsPlain(failing),
        "async object": CallsAwaited(failing),
        "returns a coroutine": lambda operations: failing.awaited(operations),
    }
    return kinds[kind]


KINDS = ["async", "plain", "partial of async", "partial of plain", "object", "async object", "returns a coroutine"]


@virtually
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_callback_that_raises_gets_its_operations_again(kind: str) -> None:
    failing, dispatcher = Failing(2), dispatcher_of(capacity_of(100))
    watcher = Watcher(of_kind(kind, failing))
    some = [Operation(watcher, 2, number, batchable=True) for number in range(3)]
    async with dispatcher:
        await dispatcher.enqueue_many(some)
        await dispatcher.drain()
        assert (dispatcher.target, dispatcher.buffered, dispatcher.inflight) == (0, 0, 0)
    assert failing.done == [0, 1, 2]
    assert [operation.attempts for operation in some] == [3, 3, 3]


@virtually
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "error", [StopIteration("over"), StopAsyncIteration("over"), OSError(5, "disk"), TimeoutError()]
)
async def test_whatever_is_raised_the_operations_come_again(kind: str, error: Exception) -> None:
    failing, dispatcher = Failing(1, error), dispatcher_of()
    async with dispatcher:
        await dispatcher.enqueue(Operation(Watcher(of_kind(kind, failing)), 1, "again"))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert failing.done == ["again"]


def test_a_plain_function_that_raises_stop_iteration_in_its_thread_does_not_hang() -> None:
    failing = Failing(1, StopIteration("over"))

    async def story() -> None:
        async with Dispatcher(flush_interval=ms(1)) as dispatcher:
            await dispatcher.enqueue(Operation(Watcher(failing.plain), 1, "again"))
            await asyncio.wait_for(dispatcher.drain(), 30)

    asyncio.run(story())
    assert failing.done == ["again"]


@virtually
async def test_a_listener_may_change_the_list_of_the_dead() -> None:
    dead: list[Any] = []
    watcher = Watcher(Failing().awaited, max_attempts=1, on_dead=lambda some, _: dead.extend(payloads(some)))
    async with dispatcher_of() as dispatcher:
        dispatcher.events.add_listener(lambda name, _value, _message, metadata: name == "dead" and metadata.clear())
        await dispatcher.enqueue(Operation(watcher, 1, "x"))
        await dispatcher.drain()
    assert dead == ["x"]


@virtually
async def test_without_attempts_left_operations_are_dead_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    failing, dispatcher = Failing(), dispatcher_of(capacity_of(100))
    told = listen(dispatcher.events, "dead")
    operation = Operation(Watcher(failing.awaited, name="importer", max_attempts=3), 5, "x")
    async with dispatcher:
        await dispatcher.enqueue(operation)
        await dispatcher.drain()
        assert dispatcher.target == 0
        with pytest.raises(TooManyAttempts):
            await dispatcher.enqueue(operation)
    assert failing.calls == operation.attempts == 3
    assert [(one.value, one.message, one.metadata) for one in told] == [(1, "no luck", [operation])]
    assert "1 operations of <Watcher importer> are dead: no luck" in caplog.text


@virtually
@pytest.mark.parametrize("plain", [True, False])
async def test_on_dead_gets_the_dead_and_what_they_died_of(plain: bool, caplog: pytest.LogCaptureFixture) -> None:
    failing, dead = Failing(), list[tuple[list[Any], str]]()

    def bury(operations: list[Operation], error: Exception) -> None:
        dead.append((payloads(operations), str(error)))

    async def bury_later(operations: list[Operation], error: Exception) -> None:
        await asyncio.sleep(1)
        bury(operations, error)

    watcher = Watcher(failing.awaited, max_attempts=2, on_dead=bury if plain else bury_later)
    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(3))
        await dispatcher.drain()
        assert dead == [([0, 1, 2], "no luck")]
    assert caplog.text == ""


@virtually
async def test_an_on_dead_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise LookupError("no grave")

    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(Failing().awaited, max_attempts=1, on_dead=fail)))
        await dispatcher.drain()
    assert "on_dead raised: 1 operations are dead: no luck" in caplog.text


@virtually
async def test_of_a_batch_only_those_without_attempts_left_are_dead() -> None:
    failing, dead = Failing(2), list[Any]()
    watcher = Watcher(failing.awaited, max_attempts=2, on_dead=lambda some, _: dead.extend(payloads(some)))
    old, new = Operation(watcher, 1, "old", batchable=True), Operation(watcher, 1, "new", batchable=True)
    old.attempts = 1
    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue_many([old, new])
        await dispatcher.drain()
    assert dead == ["old", "new"]
    assert (old.attempts, new.attempts) == (2, 2)


@virtually
@pytest.mark.parametrize("plain", [True, False])
async def test_on_error_decides_what_becomes_of_them(plain: bool) -> None:
    failing, given = Failing(), list[tuple[list[Any], str]]()

    def note(operations: list[Operation], error: Exception) -> None:
        given.append((payloads(operations), str(error)))

    async def note_later(operations: list[Operation], error: Exception) -> None:
        await asyncio.sleep(1)
        note(operations, error)

    async with dispatcher_of() as dispatcher:
        watcher = Watcher(failing.awaited, max_attempts=5, on_error=note if plain else note_later)
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(2))
        await dispatcher.drain()
    assert given == [([0, 1], "no luck")]
    assert failing.calls == 1
    assert dispatcher.events.counts["dead"] == 0


@virtually
async def test_on_error_may_enqueue_them_again() -> None:
    failing, dispatcher = Failing(3), dispatcher_of()

    async def again(operations: list[Operation], _: Exception) -> None:
        await dispatcher.enqueue_many(operations)

    async with dispatcher:
        await dispatcher.enqueue(Operation(Watcher(failing.awaited, on_error=again), 1, "x"))
        await dispatcher.drain()
    assert (failing.calls, failing.done) == (4, ["x"])


@virtually
@pytest.mark.parametrize("error", [RuntimeError("worse"), asyncio.CancelledError()], ids=["raises", "is cancelled"])
async def test_an_on_error_that_does_not_end_well_is_logged_and_they_come_again(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(2)

    async def fail(*_: object) -> None:
        raise error

    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(failing.awaited, max_attempts=3, on_error=fail), 1, "x"))
        await asyncio.wait_for(dispatcher.drain(), 60)
    assert failing.done == ["x"]
    assert "<Watcher Failing.awaited>: on_error raised" in caplog.text


@virtually
async def test_what_on_error_has_in_hand_when_everything_stops_is_handed_back() -> None:
    async def think(*_: object) -> None:
        await asyncio.sleep(3_600)

    dispatcher = dispatcher_of()
    await dispatcher.start()
    await dispatcher.enqueue(Operation(Watcher(Failing().awaited, on_error=think), 1, "x"))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(timedelta(seconds=1))
    assert payloads(remains.unsent + remains.unfinished) == ["x"]


@virtually
async def test_a_callback_that_cancels_itself_has_failed() -> None:
    calls = 0

    async def cancelled(_: list[Operation]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

    given: list[str] = []
    for on_error in (None, lambda _, error: given.append(str(error))):
        calls = 0
        async with dispatcher_of() as dispatcher:
            await dispatcher.enqueue(Operation(Watcher(cancelled, on_error=on_error)))
            await asyncio.wait_for(dispatcher.drain(), 60)
            assert (dispatcher.inflight, dispatcher.target) == (0, 0)
        assert calls == (2 if on_error is None else 1)
    assert given == ["it was cancelled"]


@virtually
async def test_a_callback_may_do_what_it_likes_with_its_list() -> None:
    failing, seen = Failing(1), list[Any]()

    async def take_out(operations: list[Operation]) -> None:
        seen.append(payloads(operations))
        while operations:
            operations.pop()
        await failing.awaited(operations)

    async with dispatcher_of(capacity_of(100)) as dispatcher:
        watcher = Watcher(take_out)
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(3))
        await dispatcher.drain()
        assert dispatcher.target == 0
    assert seen == [[0, 1, 2], [0, 1, 2]]


@virtually
async def test_one_that_always_fails_does_not_hold_up_the_others() -> None:
    failing, receiver = Failing(), Receiver()
    dispatcher = dispatcher_of(capacity_of(100))
    async with dispatcher:
        bad, good = Watcher(failing.awaited, max_attempts=1_000), receiver.watcher()
        await dispatcher.enqueue_many(Operation(bad, 1) for _ in range(50))
        await dispatcher.enqueue_many(Operation(good, 1, number) for number in range(50))
        await asyncio.sleep(1.5)
        assert receiver.got == list(range(50))
        assert virtual_seconds() < 2
        await dispatcher.stop(timedelta(0))
    assert failing.calls > 50
