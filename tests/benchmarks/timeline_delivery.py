"""How long after its moment a message is in the hands of a consumer that waits for it."""

import threading
from collections.abc import Sequence

from batchline.runtime.clock import now_us
from tests.benchmarks.measure import Figures
from tests.benchmarks.timeline_ours import OURS, Ours, contender, contenders
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
    """Receive messages and finish them as they become due, in order; returns by how many ms each was late.

    Ours asks when the next is due and sleeps until then; the peers cannot say it, and are asked every 10 ms.
    """
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
            sleep(max(0.0, _wake_ms(queue) - now_us() / 1_000) / 1_000)
    return late_ms


def _wake_ms(queue: Queue) -> float:
    next_due = queue.next_due() if isinstance(queue, Ours) else None
    return now_us() / 1_000 + POLL_MS if next_due is None else next_due


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
