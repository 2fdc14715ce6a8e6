"""The rate in real time: however busy the machine is, no second has more than the page allows."""

import asyncio
from datetime import timedelta

from batchline import Dispatcher, Operation, ProvisionedResource, Watcher
from batchline.runtime.clock import elapsed_seconds

CAPACITY, COST, FLUSH_S, SECONDS = 2_000, 10, 0.010, 3


class Decided:
    """A clock that remembers what it showed last: when the dispatcher decided."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s = elapsed_seconds()
        return self.now_s


def largest(spent: list[tuple[float, float]], span_s: float) -> float:
    return max(sum(cost for at_s, cost in spent if begin <= at_s < begin + span_s) for begin, _ in spent)


def test_three_seconds_at_two_thousand_a_second() -> None:
    clock, spent = Decided(), list[tuple[float, float]]()

    def note(name: str, value: int, _message: object, _metadata: object) -> None:
        if name == "batch":
            spent.append((clock.now_s, value * COST))

    async def story() -> None:
        limiter, flush = ProvisionedResource(CAPACITY), timedelta(seconds=FLUSH_S)
        dispatcher = Dispatcher(limiter, flush_interval=flush, emit_batch=True, clock=clock)
        dispatcher.events.add_listener(note)
        watcher = Watcher(lambda _: asyncio.sleep(0), max_batch_size=50)
        async with dispatcher:
            await dispatcher.enqueue_many(
                Operation(watcher, COST, batchable=True) for _ in range(CAPACITY * SECONDS // COST)
            )
            await asyncio.wait_for(dispatcher.drain(), 60)

    asyncio.run(story())
    assert sum(cost for _, cost in spent) == CAPACITY * SECONDS
    assert largest(spent, 1.0) <= CAPACITY * 1.01 + COST + CAPACITY * FLUSH_S
