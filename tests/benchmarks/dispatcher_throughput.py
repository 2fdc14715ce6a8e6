"""How many operations a second a dispatcher can hand out, beside a plain queue that is drained in batches.

Without a limiter, and with one that never holds anything back, which has to look at each operation all the same.
"""

import asyncio
import queue
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any

from batchline import Dispatcher, Operation, ProvisionedResource, Watcher
from tests.benchmarks.measure import Figures, once

__all__ = ["Way", "measure_throughput"]

COUNT = 1_000_000
BATCH, BUFFER, AT_ONCE = 500, 10_000, 5_000
#: Runs are repeated, but not those that are long.
REPEATS, LONG_S = 5, 2.0
AIM = 1_000_000
#: So much capacity that nothing is ever held back.
PLENTY = 1e9
#: With each call a thread waits for the loop: of single ones fewer are enough.
ONE_BY_ONE = 50
Share = Iterable[Operation]


@dataclass(frozen=True)
class Way:
    """How operations come in."""

    name: str
    #: 1 for `enqueue`, more for `enqueue_many`.
    at_once: int
    limited: bool = False
    threads: bool = False

    async def dispatch(self, shares: Sequence[Share]) -> int:
        """Let a producer for each share enqueue it, and wait until all is handed out; tells how many were."""
        handed_out = 0

        async def receive(operations: list[Operation]) -> None:
            nonlocal handed_out
            handed_out += len(operations)

        RECEIVER.callback = receive
        async with Dispatcher(ProvisionedResource(PLENTY) if self.limited else None, buffer=BUFFER) as dispatcher:
            await asyncio.gather(*(self._produce(dispatcher, share) for share in shares))
            # What is left in the buffer would wait for the next flush: the figure would be in steps of 100 ms.
            dispatcher.flush()
            await dispatcher.drain()
        return handed_out

    async def _produce(self, dispatcher: Dispatcher, share: Share) -> None:
        if self.threads:
            await asyncio.to_thread(self._produce_in_thread, dispatcher, share)
        elif self.at_once == 1:
            for operation in share:
                await dispatcher.enqueue(operation)
        else:
            for some in _pieces(share, self.at_once):
                await dispatcher.enqueue_many(some)

    def _produce_in_thread(self, dispatcher: Dispatcher, share: Share) -> None:
        if self.at_once == 1:
            for operation in share:
                dispatcher.threadsafe.enqueue(operation)
        else:
            for some in _pieces(share, self.at_once):
                dispatcher.threadsafe.enqueue_many(some)


async def _nobody(operations: list[Operation]) -> None:
    raise AssertionError("nobody receives")


#: Of all operations: they are made once, and each run receives them anew.
RECEIVER = Watcher(_nobody, name="bench", max_batch_size=BATCH)


async def drain_queue(shares: Sequence[Share]) -> int:
    """The same by an asyncio.Queue, one consumer takes what is there, up to a batch."""
    waiting: asyncio.Queue[Operation] = asyncio.Queue(BUFFER)
    received = 0

    async def produce(share: Share) -> None:
        for operation in share:
            await waiting.put(operation)

    async def consume() -> None:
        nonlocal received
        while True:
            batch = [await waiting.get()]
            while len(batch) < BATCH and not waiting.empty():
                batch.append(waiting.get_nowait())
            received += len(batch)

    consumer = asyncio.ensure_future(consume())
    await asyncio.gather(*(produce(share) for share in shares))
    while not waiting.empty():
        await asyncio.sleep(0)
    consumer.cancel()
    return received


async def drain_thread_queue(shares: Sequence[Share]) -> int:
    """The same by a queue.Queue of threads."""
    waiting: queue.Queue[Operation | None] = queue.Queue(BUFFER)

    def produce(share: Share) -> None:
        for operation in share:
            waiting.put(operation)

    def consume() -> int:
        received = 0
        while waiting.get() is not None:
            received += 1
        return received

    consumer = asyncio.ensure_future(asyncio.to_thread(consume))
    await asyncio.gather(*(asyncio.to_thread(produce, share) for share in shares))
    await asyncio.to_thread(waiting.put, None)
    return await consumer


def _pieces(share: Share, size: int) -> Iterator[Share]:
    if isinstance(share, list):
        yield from (share[begin : begin + size] for begin in range(0, len(share), size))
        return
    made = iter(share)
    while piece := list(islice(made, size)):
        yield piece


# --- what is measured ---

MANY = f"enqueue_many, {AT_ONCE:,} a call"
LIMITED = f"limiter of {PLENTY:,.0f}/s: "
WAYS = (
    Way("enqueue_many, all in one call", COUNT),
    Way(MANY, AT_ONCE),
    Way(f"enqueue_many, {BATCH} a call", BATCH),
    Way("enqueue", 1),
    Way(LIMITED + MANY, AT_ONCE, limited=True),
    Way(LIMITED + "enqueue", 1, limited=True),
)
THREAD_WAYS = (
    Way(f"threadsafe.{MANY}", AT_ONCE, threads=True),
    Way("threadsafe.enqueue", 1, threads=True),
)
Run = Callable[[Sequence[Share]], Coroutine[Any, Any, int]]


@dataclass(frozen=True)
class Workload:
    """So many operations from so many producers."""

    count: int
    producers: int
    #: Whether operations are made before the clock runs.
    made: bool

    def shares(self) -> list[Share]:
        """What each producer has."""
        each = self.count // self.producers
        makers = [_made(each) for _ in range(self.producers)]
        return [list(maker) for maker in makers] if self.made else list(makers)

    def seconds(self, run: Run) -> float:
        """The time of a run; if it is short, the median of a few."""
        times = [self._once(run)]
        while sum(times) < LONG_S and len(times) < REPEATS:
            times.append(self._once(run))
        return median(times)

    def _once(self, run: Run) -> float:
        shares = self.shares()
        return once(lambda: self._checked(run, shares))

    def _checked(self, run: Run, shares: Sequence[Share]) -> None:
        handed_out = asyncio.run(run(shares))
        assert handed_out == self.count // self.producers * self.producers, f"{handed_out} of {self.count}"


def _made(count: int) -> Iterator[Operation]:
    return (Operation(RECEIVER, 1, number, batchable=True) for number in range(count))


def measure_throughput(scale: float = 1.0) -> Figures:
    """Operations a second, of about a million."""
    count = max(BATCH, int(COUNT * scale))
    figures = Figures(f"Stage 5 throughput: {count:,} operations of cost 1, batches of {BATCH}", "operations/s")
    for made in (True, False):
        for producers in (1, 4):
            group = f"{'made before' if made else 'made in the loop'}, {_plural(producers, 'task')}"
            _measure(figures, group, "asyncio.Queue, 1 consumer", drain_queue, Workload(count, producers, made))
            figures.add_value(group, "the aim", AIM)
            for way in WAYS if made else WAYS[1::2]:
                _measure(figures, group, way.name, way.dispatch, Workload(count, producers, made))
    for threads in (1, 4):
        group = f"made before, {_plural(threads, 'thread')}"
        _measure(figures, group, "queue.Queue, 1 consumer", drain_thread_queue, Workload(count, threads, True))
        for way in THREAD_WAYS:
            some = count if way.at_once > 1 else max(BATCH, count // ONE_BY_ONE)
            _measure(figures, group, way.name, way.dispatch, Workload(some, threads, True))
    return figures


def _measure(figures: Figures, group: str, name: str, run: Run, workload: Workload) -> None:
    figures.add(group, name, workload.count, workload.seconds(run))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
