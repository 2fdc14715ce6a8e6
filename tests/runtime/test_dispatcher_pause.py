"""Pauses, asked for or because the receiver throttles: nothing is sent, nothing is lost, and it goes on by itself."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchline import Adaptive, Operation, RetryRules, Throttled, Watcher
from batchline.errors import InvalidInput
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, ms, virtually

S = timedelta(seconds=1)
TAKES = ms(10)


class Throttling:
    """A receiver that throttles until a moment, after a while."""

    def __init__(self, until_s: float = float("inf"), takes: timedelta = TAKES, retry_after: timedelta | None = None):
        self.refused: list[tuple[float, list[Any]]] = []
        self.done: list[Any] = []
        self.until_s, self._takes, self._retry_after = until_s, takes, retry_after

    async def __call__(self, operations: list[Operation]) -> None:
        await asyncio.sleep(self._takes.total_seconds())
        some = [operation.payload for operation in operations]
        if virtual_seconds() < self.until_s:
            self.refused.append((virtual_seconds(), some))
            raise Throttled(retry_after=self._retry_after)
        self.done += some


# --- asked for ---


@virtually
async def test_a_pause_stops_sending_for_its_time_and_is_told_with_it() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of()
    told = listen(dispatcher.events, "pause", "resume")
    async with dispatcher:
        assert dispatcher.pause() is True
        await dispatcher.enqueue(Operation(receiver.watcher(), 1, "x"))
        dispatcher.flush()
        await dispatcher.drain()
    assert receiver.batches[0][0] == pytest.approx(0.5)
    assert [(round(one.at_s, 6), one.name, one.value) for one in told] == [(0, "pause", 500), (0.5, "resume", 0)]


@virtually
async def test_a_pause_while_paused_is_ignored_and_does_not_make_it_longer() -> None:
    dispatcher = dispatcher_of(pause_time=2 * S)
    told = listen(dispatcher.events, "pause", "resume")
    async with dispatcher:
        assert dispatcher.pause()
        await asyncio.sleep(1.5)
        assert not dispatcher.pause()
        await asyncio.sleep(1)
        assert dispatcher.pause()
        await asyncio.sleep(3)
    assert [(round(one.at_s, 3), one.name) for one in told] == [
        (0, "pause"),
        (2, "resume"),
        (2.5, "pause"),
        (4.5, "resume"),
    ]


@virtually
async def test_before_start_and_after_stop_there_is_nothing_to_pause() -> None:
    dispatcher = dispatcher_of()
    assert not dispatcher.pause()
    async with dispatcher:
        pass
    assert not dispatcher.pause()
    assert dispatcher.events.counts["pause"] == 0


@virtually
async def test_while_paused_producers_enqueue_and_wait_as_ever() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(buffer=2, pause_time=5 * S)
    watcher = receiver.watcher()
    async with dispatcher:
        dispatcher.pause()
        producing = asyncio.ensure_future(dispatcher.enqueue_many(Operation(watcher, 1, n) for n in range(4)))
        await asyncio.sleep(4)
        assert (dispatcher.buffered, dispatcher.target, producing.done()) == (2, 2, False)
        await producing
        assert virtual_seconds() == pytest.approx(5)
    assert receiver.got == [0, 1, 2, 3]


@virtually
async def test_what_is_in_flight_when_it_is_paused_ends_as_ever_and_late_ones_are_late() -> None:
    short, long = Receiver(2 * S), Receiver(30 * S)
    dispatcher = dispatcher_of(pause_time=20 * S, max_operation_time=5 * S)
    async with dispatcher:
        await dispatcher.enqueue_many([Operation(short.watcher(), 3), Operation(long.watcher(), 4)])
        await asyncio.sleep(0.2)
        dispatcher.pause()
        await asyncio.sleep(2)
        assert (dispatcher.inflight, dispatcher.target) == (1, 4)
        await asyncio.sleep(4)
        assert (dispatcher.inflight, dispatcher.target) == (1, 0)


@virtually
async def test_a_pause_while_it_drains_makes_the_drain_wait() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(10), pause_time=3 * S)
    watcher = receiver.watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 1, number) for number in range(20))
    stopping = asyncio.ensure_future(dispatcher.stop())
    await asyncio.sleep(1.05)
    assert dispatcher.pause()
    remains = await stopping
    assert (remains.unsent, receiver.got) == ([], list(range(20)))
    assert virtual_seconds() == pytest.approx(5, abs=0.2)


@virtually
async def test_after_a_pause_no_more_is_sent_than_a_flush_is_worth() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100), pause_time=60 * S)
    watcher = receiver.watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(500))
    dispatcher.pause()
    await asyncio.sleep(60.001)
    assert len(receiver.got) <= 100 * 0.11 + 1
    await dispatcher.stop(timedelta(0))


# --- throttled ---


@virtually
async def test_throttled_operations_come_first_again_in_order_without_an_attempt_used() -> None:
    throttling = Throttling(until_s=1)
    dispatcher, watcher = dispatcher_of(capacity_of(100), max_concurrent_batches=1), Watcher(throttling, max_attempts=1)
    some = [Operation(watcher, 1, number, batchable=True) for number in range(20)]
    async with dispatcher:
        await dispatcher.enqueue_many(some)
        await asyncio.sleep(0.2)
        assert (dispatcher.target, dispatcher.inflight, dispatcher.buffered) == (20, 0, 20)
        assert all(operation.attempts == 0 for operation in some)
        await dispatcher.drain()
    assert throttling.done == list(range(20))
    assert all(operation.attempts == 1 for operation in some)
    assert dispatcher.events.counts["dead"] == 0


@virtually
async def test_the_pauses_grow_and_after_a_calm_time_they_begin_again() -> None:
    throttling = Throttling(takes=ms(0))
    dispatcher = dispatcher_of(pause_time=S, calm=60 * S)
    told = listen(dispatcher.events, "pause")
    watcher = Watcher(throttling)
    async with dispatcher:
        await dispatcher.enqueue(Operation(watcher, 1, "x"))
        await asyncio.sleep(16)
        throttling.until_s = 0
        await dispatcher.drain()
        assert [one.value for one in told] == [1_000, 2_000, 4_000, 8_000, 16_000]
        await asyncio.sleep(61)
        throttling.until_s = virtual_seconds() + 0.5
        await dispatcher.enqueue(Operation(watcher, 1, "y"))
        await dispatcher.drain()
    assert [one.value for one in told][5:] == [1_000]
    assert throttling.done == ["x", "y"]


@virtually
async def test_pauses_are_never_longer_than_the_longest_and_chance_shortens_them() -> None:
    told: dict[float, list[Any]] = {}
    for chance in (0.0, 1.0):
        rules = RetryRules(first=S, factor=3, longest=20 * S, jitter=0.5)
        dispatcher = dispatcher_of(backoff=rules, chance=lambda chance=chance: chance)
        told[chance] = listen(dispatcher.events, "pause")
        await dispatcher.start()
        await dispatcher.enqueue(Operation(Watcher(Throttling(takes=ms(0)))))
        await asyncio.sleep(100)
        await dispatcher.stop(timedelta(0))
    assert [one.value for one in told[0.0]][:5] == [1_000, 3_000, 9_000, 20_000, 20_000]
    assert [one.value for one in told[1.0]][:5] == [500, 1_500, 4_500, 10_000, 10_000]


@virtually
@pytest.mark.parametrize(("asked", "paused"), [(ms(100), 500), (7 * S, 7_000), (timedelta(0), 500), (-S, 500)])
async def test_the_receiver_is_left_alone_for_as_long_as_it_asks_at_least(asked: timedelta, paused: int) -> None:
    throttling, dispatcher = Throttling(0.15, retry_after=asked), dispatcher_of()
    told = listen(dispatcher.events, "pause")
    async with dispatcher:
        await dispatcher.enqueue(Operation(Watcher(throttling), 1, "x"))
        await dispatcher.drain()
    assert [one.value for one in told] == [paused]
    assert virtual_seconds() == pytest.approx(0.12 + paused / 1_000)


@virtually
@pytest.mark.parametrize("retry_after", [None, 5 * S])
async def test_many_that_are_throttled_at_once_count_once(retry_after: timedelta | None) -> None:
    class OneAfterTheOther(Throttling):
        async def __call__(self, operations: list[Operation]) -> None:
            await asyncio.sleep(operations[0].payload / 100)
            await super().__call__(operations)

    throttling = OneAfterTheOther(until_s=0.5, retry_after=retry_after)
    limiter = capacity_of(1_000, adaptive=Adaptive(floor=0.1, fall=0.3, step=0.05, every=1_000 * S))
    dispatcher = dispatcher_of(limiter)
    watcher = Watcher(throttling)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 1, number) for number in range(20))
        await asyncio.sleep(0.4)
        assert len(throttling.refused) == 20
        assert limiter.capacity == pytest.approx(700)
        await dispatcher.drain()
    assert dispatcher._dispatch.pausing._times == 1
    assert sorted(throttling.done) == list(range(20))


@virtually
async def test_adaptive_capacity_falls_with_each_throttling_and_recovers_in_steps() -> None:
    throttling = Throttling(takes=ms(0))
    limiter = capacity_of(1_000, adaptive=Adaptive(floor=0.4, fall=0.5, step=0.1, every=10 * S))
    told = listen(limiter.events, "capacity")
    async with dispatcher_of(limiter, backoff=RetryRules(first=ms(100), factor=1, jitter=0)) as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(throttling), 1))
        await asyncio.sleep(1)
        throttling.until_s = 0
        await dispatcher.drain()
        for _ in range(80):
            await asyncio.sleep(1)
            assert limiter.capacity <= 1_000
    assert [one.value for one in told] == [pytest.approx(x) for x in (1_000, 500, 400, 500, 600, 700, 800, 900, 1_000)]


@virtually
async def test_a_plain_function_may_throttle_too() -> None:
    calls = 0

    def throttle_once(_: list[Operation]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Throttled("too much", retry_after=2 * S)

    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(throttle_once)))
        await dispatcher.drain()
    assert calls == 2
    assert virtual_seconds() == pytest.approx(2.1)


@virtually
async def test_on_error_hears_nothing_of_throttling() -> None:
    heard: list[Exception] = []
    throttling = Throttling(until_s=0.3)
    async with dispatcher_of() as dispatcher:
        await dispatcher.enqueue(Operation(Watcher(throttling, on_error=lambda _, error: heard.append(error)), 1, "x"))
        await dispatcher.drain()
    assert (heard, throttling.done) == ([], ["x"])


@virtually
async def test_what_was_throttled_when_it_stops_is_handed_back() -> None:
    dispatcher = dispatcher_of(pause_time=60 * S)
    await dispatcher.start()
    await dispatcher.enqueue(Operation(Watcher(Throttling()), 1, "x"))
    await asyncio.sleep(1)
    remains = await dispatcher.stop(S)
    assert [operation.payload for operation in remains.unsent] == ["x"]


def test_a_time_to_retry_after_is_a_timedelta() -> None:
    with pytest.raises(InvalidInput, match="retry_after"):
        Throttled(retry_after=5)  # type: ignore[arg-type]
