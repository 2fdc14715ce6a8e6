"""The rate through the loop: held under storms of flushes, for any cost, when capacity changes; deadlines and turns."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchline import Operation, Ramp
from batchline.errors import DeadlinePassed, InvalidOperation, TooExpensive
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import (
    Receiver,
    capacity_of,
    dispatcher_of,
    largest_spent,
    listen,
    ms,
    payloads,
    virtually,
)

S = timedelta(seconds=1)


def in_s(seconds: float) -> datetime:
    """So many seconds from now."""
    return datetime.fromtimestamp(virtual_wall_us() / 1e6 + seconds, UTC)


@virtually
async def test_thousands_of_flushes_are_one_and_the_rate_is_held() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(1_000))
    watcher = receiver.watcher()
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 10, number) for number in range(1_000))
        for _ in range(500):
            for _ in range(1_000):
                dispatcher.flush()
            await asyncio.sleep(0.01)
        assert dispatcher.events.counts["flush-start"] <= 600
        assert len(receiver.got) * 10 == pytest.approx(5_000, rel=0.01)
        for span_s in (0.01, 0.1, 1):
            assert largest_spent(receiver.spent, span_s) <= 1_000 * (span_s + 0.1) + 10
        await dispatcher.stop(timedelta(0))


@virtually
async def test_at_50_a_second_with_the_default_interval_no_second_carries_more_than_56() -> None:
    """The number in the README: more than 50, because a rest is saved up for one flush interval."""
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(50))
    watcher = receiver.watcher()
    async with dispatcher:
        await asyncio.sleep(3)
        await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(200))
        while len(receiver.got) < 200:
            dispatcher.flush()
            await asyncio.sleep(0.007)
    assert 50 < largest_spent(receiver.spent, 1) <= 56


@virtually
async def test_a_flush_that_is_asked_for_comes_at_once() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(flush_interval=3600 * S)
    async with dispatcher:
        await dispatcher.enqueue(Operation(receiver.watcher(), 1, "x"))
        await asyncio.sleep(10)
        assert receiver.got == []
        dispatcher.flush()
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert receiver.got == ["x"]


@virtually
@pytest.mark.parametrize(("capacity", "cost"), [(20_000, 3_000), (20_000, 1), (5, 1), (19, 10), (0.5, 0.1)])
async def test_saturated_the_rate_is_the_capacity(capacity: float, cost: float) -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(capacity), buffer=200_000)
    watcher = receiver.watcher(max_batch_size=500)
    seconds = max(5, round(100 * cost / capacity))
    await dispatcher.start()
    count = round(capacity * (seconds + 2) / cost)
    await dispatcher.enqueue_many(Operation(watcher, cost, batchable=True) for _ in range(count))
    await asyncio.sleep(seconds)
    sent = sum(spent for _, spent in receiver.spent)
    assert abs(sent - capacity * seconds) <= 0.01 * capacity * seconds + cost + capacity * 0.1
    await dispatcher.stop(timedelta(0))


@virtually
async def test_what_costs_nothing_is_never_held_back() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(0))
    watcher = receiver.watcher()
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 0, number) for number in range(100))
        await dispatcher.drain()
    assert receiver.got == list(range(100))
    assert virtual_seconds() < 0.2


@virtually
async def test_the_largest_costs_are_held_as_the_small_ones_are() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(1e15))
    watcher = receiver.watcher()
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, cost) for cost in (1e15, 1, 1e15, 0, 1e15))
        await dispatcher.drain()
        assert dispatcher.target == 0
    assert [round(at_s, 1) for at_s, _ in receiver.batches] == [0.1, 0.1, 1.1, 1.1, 2.1]


@virtually
async def test_capacity_0_holds_everything_back_until_there_is_some_again() -> None:
    receiver, limiter = Receiver(), capacity_of(100)
    watcher = receiver.watcher()
    async with dispatcher_of(limiter) as dispatcher:
        limiter.set_capacity(0)
        await dispatcher.enqueue_many(Operation(watcher, 10, number) for number in range(10))
        await asyncio.sleep(30)
        assert receiver.got == []
        with pytest.raises(TooExpensive, match="100"):
            await dispatcher.enqueue(Operation(watcher, 101))
        limiter.set_capacity(50)
        await dispatcher.drain()
        assert virtual_seconds() == pytest.approx(32, abs=0.3)


@virtually
async def test_an_operation_dearer_than_the_capacity_can_ever_be_is_refused_and_after_a_raise_it_is_not() -> None:
    receiver, limiter = Receiver(), capacity_of(100)
    dear = Operation(receiver.watcher(), 150, "dear")
    async with dispatcher_of(limiter) as dispatcher:
        with pytest.raises(TooExpensive, match="cost 150 is more than the limiter can ever give in a second, 100"):
            await dispatcher.enqueue(dear)
        limiter.set_capacity(200)
        limiter.set_capacity(10)
        await dispatcher.enqueue_many([dear, Operation(receiver.watcher(), 1, "next")])
        await dispatcher.drain()
        # The dear one goes into debt, and the next waits for it.
        assert [round(at_s) for at_s, _ in receiver.batches] == [0, 15]


@virtually
async def test_a_new_capacity_counts_at_once() -> None:
    receiver, limiter = Receiver(), capacity_of(100)
    watcher = receiver.watcher()
    told = listen(limiter.events, "capacity")
    dispatcher = dispatcher_of(limiter)
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(5_000))
    await asyncio.sleep(0.05)  # the capacity changes between flushes
    for capacity in (1_000, 10, 500):
        await asyncio.sleep(2)
        limiter.set_capacity(capacity)
    await asyncio.sleep(2)
    await dispatcher.stop(timedelta(0))
    per_s = [
        sum(cost for at_s, cost in receiver.spent if begin < at_s <= begin + 2) for begin in (0.05, 2.05, 4.05, 6.05)
    ]
    assert per_s == [pytest.approx(expected, rel=0.06, abs=2) for expected in (200, 2_000, 20, 1_000)]
    assert [one.value for one in told] == [100, 1_000, 10, 500]


@virtually
async def test_a_ramp_grows_as_it_is_told() -> None:
    receiver = Receiver()
    limiter = capacity_of(1_000, ramp=Ramp(start=100, step=100, every=S))
    dispatcher = dispatcher_of(limiter)
    watcher = receiver.watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(9_000))
    assert limiter.capacity == pytest.approx(100)
    await asyncio.sleep(4)
    assert limiter.capacity == pytest.approx(500)
    assert sum(cost for _, cost in receiver.spent) == pytest.approx((100 + 500) / 2 * 4, rel=0.08)
    await asyncio.sleep(20)
    assert limiter.capacity == 1_000
    await dispatcher.stop(timedelta(0))


# --- several capacities, actual costs ---


@virtually
async def test_of_several_capacities_every_one_is_held() -> None:
    receiver = Receiver()
    watcher, other = receiver.watcher(), receiver.watcher()
    dispatcher = dispatcher_of(capacity_of({"ru": 1_000, "network": 10}))
    await dispatcher.start()
    with pytest.raises(InvalidOperation, match="did you mean 'network'"):
        await dispatcher.enqueue(Operation(watcher, {"netwrok": 1}))
    await dispatcher.enqueue_many(Operation(watcher, {"ru": 10, "network": 1}, "both") for _ in range(100))
    await dispatcher.enqueue_many(Operation(other, {"ru": 10}, "one") for _ in range(1_000))
    assert dispatcher.target == {"ru": 11_000, "network": 100}
    await asyncio.sleep(5)
    assert receiver.got.count("both") == pytest.approx(46, abs=5)
    assert receiver.got.count("one") == pytest.approx(450, abs=15)
    await dispatcher.stop(timedelta(0))


@virtually
@pytest.mark.parametrize(("actual", "expected"), [(5, 20), (20, 5), (0, 100)])
async def test_what_an_operation_really_cost_is_what_counts(actual: float, expected: int) -> None:
    async def settle(some: list[Operation]) -> None:
        for operation in some:
            operation.settle(actual)

    receiver = Receiver(then=settle)
    dispatcher, watcher = dispatcher_of(capacity_of(100), max_concurrent_batches=1), receiver.watcher()
    await dispatcher.start()
    await dispatcher.enqueue_many(Operation(watcher, 10) for _ in range(2_000))
    await asyncio.sleep(1)
    before = len(receiver.batches)
    await asyncio.sleep(10)
    a_second = (len(receiver.batches) - before) / 10
    # With one batch at a time, an interval sees at most one: 10 a second.
    assert a_second == pytest.approx(min(expected, 10), rel=0.1)
    await dispatcher.stop(timedelta(0))


# --- deadlines, priorities ---


@virtually
async def test_past_its_deadline_an_operation_is_not_sent_and_its_watcher_hears_of_it() -> None:
    dead: list[Any] = []
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(1))
    watcher = receiver.watcher(on_dead=lambda some, error: dead.append((payloads(some), error)))
    async with dispatcher:
        deadlines = {"none": None, "soon": in_s(1.5), "later": in_s(100), "also soon": in_s(1.5)}
        for payload, deadline in deadlines.items():
            await dispatcher.enqueue(Operation(watcher, 1, payload, deadline=deadline))
        await dispatcher.drain()
    assert receiver.got == ["none", "soon", "later"]
    assert [buried for buried, _ in dead] == [["also soon"]]
    assert isinstance(dead[0][1], DeadlinePassed)
    assert dispatcher.events.counts["dead"] == 1


@virtually
async def test_drain_does_not_wait_for_what_has_passed_its_deadline() -> None:
    limiter, watcher = capacity_of(1), Receiver().watcher()
    async with dispatcher_of(limiter) as dispatcher:
        limiter.set_capacity(0)
        await dispatcher.enqueue_many(Operation(watcher, 1, deadline=in_s(2)) for _ in range(3))
        await asyncio.wait_for(dispatcher.drain(), 60)
        assert virtual_seconds() == pytest.approx(2, abs=0.2)
        assert (dispatcher.buffered, dispatcher.target) == (0, 0)
    assert dispatcher.events.counts["dead"] == 3


@virtually
async def test_higher_priority_goes_first_and_watchers_take_turns() -> None:
    receiver = Receiver()
    dispatcher, watchers = dispatcher_of(capacity_of(10)), [receiver.watcher() for _ in range(2)]
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watchers[0], 1, "large") for _ in range(20))
        await dispatcher.enqueue_many(Operation(watchers[1], 1, "small") for _ in range(4))
        await dispatcher.enqueue_many(Operation(watchers[0], 1, "urgent", priority=1) for _ in range(3))
        await dispatcher.drain()
    assert receiver.got[:3] == ["urgent"] * 3
    assert receiver.got[3:11].count("small") in (3, 4)


@virtually
async def test_a_full_second_is_never_saved_up() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100), flush_interval=ms(10))
    watcher = receiver.watcher()
    async with dispatcher:
        for _ in range(5):
            await asyncio.sleep(20)
            await dispatcher.enqueue_many(Operation(watcher, 1) for _ in range(50))
    assert largest_spent(receiver.spent, 0.2) <= 100 * (0.2 + 0.01) + 1
