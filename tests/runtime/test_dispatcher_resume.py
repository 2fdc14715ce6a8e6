"""After a pause the rate is the rate again, from its first second on."""

import asyncio

from batchline import Dispatcher, Operation, ProvisionedResource, Watcher
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us


async def second_after_a_pause() -> float:
    """What is handed out within a second after a pause that ends between two flushes, at 1,000 a second."""
    handed_out: list[tuple[float, int]] = []

    async def note(operations: list[Operation]) -> None:
        handed_out.append((virtual_seconds(), len(operations)))

    resumed_s: list[float] = []

    def hear(name: str, *_: object) -> None:
        if name == "resume":
            resumed_s.append(virtual_seconds())

    limiter = ProvisionedResource(1_000, clock=virtual_seconds)
    watcher = Watcher(note)
    async with Dispatcher(limiter, clock=virtual_seconds, wall=virtual_wall_us) as dispatcher:
        dispatcher.events.add_listener(hear)
        await dispatcher.enqueue_many(Operation(watcher, 1, batchable=True) for _ in range(5_000))
        await asyncio.sleep(0.05)
        assert dispatcher.pause()
        await dispatcher.drain()
    (begin_s,) = resumed_s
    return sum(count for at_s, count in handed_out if begin_s <= at_s < begin_s + 0.999)


def test_a_pause_is_not_made_up_for() -> None:
    assert 850 <= run_virtually(second_after_a_pause()) <= 1_000
