"""How long after its moment a message is in the hands of a consumer that waits for it."""

import asyncio
import threading
from collections.abc import Sequence

from batchline import Consumer, LeasedMessage
from batchline.runtime.clock import now_us
from tests.benchmarks.measure import Figures
from tests.benchmarks.timeline_ours import OURS, TOPIC, Ours, contender, contenders
from tests.benchmarks.timeline_peers import MANY, Queue
from tests.benchmarks.tracker_disk import fresh

__all__ = ["measure_delivery"]

MESSAGES, APART_MS = 250, 20
#: Until the first is due: procrastinate creates them one by one.
AHEAD_MS = 2_000
POLL_MS = 10
#: After the last moment; who has not delivered all by then has lost some.
GRACE_MS = 10_000
WAITING = 10_000


def deliver(queue: Queue, moments_ms: Sequence[int]) -> list[float]:
    """Receive messages and finish them as they become due; returns by how many ms each was late."""
    return _consume(queue, len(moments_ms)) if isinstance(queue, Ours) else _poll(queue, moments_ms)


def _consume(queue: Ours, count: int) -> list[float]:
    """Ours, with a consumer as users run it."""
    late_ms: list[float] = []

    async def handle(message: LeasedMessage) -> None:
        late_ms.append(now_us() / 1_000 - message.at_ms)
        if len(late_ms) == count:
            consumer.stop()

    consumer = Consumer(queue.timeline, TOPIC, handle, consumer=queue.consumer())
    asyncio.run(asyncio.wait_for(consumer.run(), (AHEAD_MS + MESSAGES * APART_MS + GRACE_MS) / 1_000))
    return late_ms


def _poll(queue: Queue, moments_ms: Sequence[int]) -> list[float]:
    """The peers cannot say when the next is due, and are asked every 10 ms."""
    late_ms: list[float] = []
    sleep = threading.Event().wait
    while len(late_ms) < len(moments_ms) and now_us() // 1_000 < moments_ms[-1] + GRACE_MS:
        tokens = queue.lease(100)
        received_us = now_us()
        due_ms = moments_ms[len(late_ms) : len(late_ms) + len(tokens)]
        late_ms += [received_us / 1_000 - ms for ms in due_ms]
        if tokens:
            queue.done(tokens)
        else:
            sleep(POLL_MS / 1_000)
    return late_ms


def measure_delivery(database: str, waiting: int, figures: Figures) -> None:
    """Measure contenders; each has others that wait as well."""
    names = [name for name in contenders(database) if name != MANY and not name.startswith(f"{OURS},")]
    for name in names:
        with fresh(database) as url, contender(name, url) as queue:
            queue.preload(min(waiting, WAITING))
            begin_ms = now_us() // 1_000 + AHEAD_MS
            moments = range(begin_ms, begin_ms + MESSAGES * APART_MS, APART_MS)
            queue.create_at(moments)
            late_ms = sorted(deliver(queue, moments))
        assert len(late_ms) == MESSAGES, f"{name} delivered {len(late_ms)} of {MESSAGES}"
        assert late_ms[0] >= 0, f"{name} delivered before the moment"
        for shown, place in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            figures.add_value(f"{database}: {shown}", name, late_ms[min(int(place * MESSAGES), MESSAGES - 1)])
