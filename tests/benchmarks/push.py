"""Push: what idle sockets cost, how late messages come over the network, and how many a second do.

`python -m tests.benchmarks.push [sockets] [store]`: one `batchline serve` on an SQLite file, or on the store named.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from batchline import Consumer, LeasedMessage, NewMessage, Timeline, open_store
from batchline.client.subscription import Push
from batchline.runtime.clock import elapsed_seconds, now_us
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.process_tree import cpu_seconds
from tests.benchmarks.service import memory_mib, served
from tests.service.serving import Place

__all__ = ["run"]

SOCKETS = 500
IDLE_S = 20.0
#: Messages whose lateness is told, and how far they are apart.
LATE, APART_MS = 300, 10
MANY = 20_000


def weight(pid: int) -> tuple[float, float]:
    """Megabytes of memory, and seconds of processor time so far."""
    return memory_mib(pid), cpu_seconds(pid)


@asynccontextmanager
async def sockets(place: Place, topic: str, count: int) -> AsyncIterator[list[Push]]:
    """So many sockets that nobody says anything on."""
    opened = [place.subscription(topic, f"idle{number}", prefetch=1, duration=None) for number in range(count)]
    for begin in range(0, count, 50):
        await asyncio.gather(*(one.resume() for one in opened[begin : begin + 50]))
    try:
        yield opened
    finally:
        await asyncio.gather(*(one.leave() for one in opened))


def _note(sheet: Sheet, what: str, figure: float) -> None:
    console.print(f"  [dim]{what}: {figure:,.1f}[/]")
    sheet.add(what, f"{figure:,.1f}")


async def weigh_idle(place: Place, pid: int, count: int, sheet: Sheet) -> None:
    """What idle sockets cost."""
    async with sockets(place, "warm", 1):
        await asyncio.sleep(1)
        begin_mb, begin_s = weight(pid)
        await asyncio.sleep(IDLE_S)
        one_s = weight(pid)[1] - begin_s
        async with sockets(place, "idle", count):
            _, busy_s = weight(pid)
            await asyncio.sleep(IDLE_S)
            many_mb, many_s = weight(pid)
    _note(sheet, "memory of a process with one socket, MB", begin_mb)
    _note(sheet, f"memory of each of {count} sockets, kB", (many_mb - begin_mb) / count * 1024)
    _note(sheet, "processor with 1 idle socket, % of a core", one_s / IDLE_S * 100)
    _note(sheet, f"processor with {count} idle sockets on another topic, %", (many_s - busy_s) / IDLE_S * 100)


async def measure_late(place: Place, timeline: Timeline, sheet: Sheet, count: int) -> None:
    """How late messages come, while others are idle."""
    late: list[float] = []
    topic = timeline.create_topic("late").name
    consumer = Consumer(place, topic, _noting(late), concurrency=10)
    async with sockets(place, "idle", count):
        running = asyncio.ensure_future(consumer.run())
        begin_ms = timeline.now_ms() + 1_000
        messages = [NewMessage(at=begin_ms + APART_MS * number) for number in range(LATE)]
        await asyncio.to_thread(timeline.create, topic, messages, producer_group="p")
        while len(late) < LATE:
            await asyncio.sleep(0.1)
    consumer.stop()
    await running
    late.sort()
    _note(sheet, f"late, beside {count} idle sockets: median, ms", statistics.median(late))
    _note(sheet, "late: 99 of 100, ms", late[LATE * 99 // 100])
    _note(sheet, "late: least, ms", late[0])


def _noting(late: list[float]) -> Callable[[LeasedMessage], Awaitable[None]]:
    async def note(message: LeasedMessage) -> None:
        late.append(now_us() / 1_000 - message.at_ms)

    return note


async def measure_speed(place: Place, timeline: Timeline, sheet: Sheet, consumers: int, concurrency: int) -> None:
    """Messages a second through consumers."""
    topic = timeline.create_topic(f"many{consumers}-{concurrency}").name
    for _ in range(MANY // 5_000):
        await asyncio.to_thread(timeline.create, topic, [b"x" * 100] * 5_000, producer_group="p")

    async def handle(_: LeasedMessage) -> None:
        pass

    some = [Consumer(place, topic, handle, consumer=f"c{n}", concurrency=concurrency) for n in range(consumers)]
    begin = elapsed_seconds()
    running = [asyncio.ensure_future(one.run()) for one in some]
    while sum(one.outcomes["done"] for one in some) < MANY:
        await asyncio.sleep(0.02)
    _note(sheet, f"pushed and done: {consumers} × {concurrency}, messages/s", MANY / (elapsed_seconds() - begin))
    for one in some:
        one.stop()
    await asyncio.gather(*running)


def run(count: int = SOCKETS, url: str | None = None) -> Sheet:
    """Measure all of it."""
    sheet = Sheet("Push: over the network", ("what", "figure"))
    with tempfile.TemporaryDirectory() as place:
        address = url or f"sqlite:///{place}/push.db"
        with open_store(address) as store:
            timeline = Timeline(store)
            for topic in ("warm", "idle"):
                timeline.create_topic(topic, lease=timedelta(minutes=1))
            with served(address) as (process, where):
                asyncio.run(_measure(Place(where), process.pid, timeline, sheet, count))
    return sheet


async def _measure(place: Place, pid: int, timeline: Timeline, sheet: Sheet, count: int) -> None:
    await weigh_idle(place, pid, count, sheet)
    await measure_late(place, timeline, sheet, count)
    for consumers, concurrency in ((1, 1), (1, 100), (10, 10)):
        await measure_speed(place, timeline, sheet, consumers, concurrency)
    console.print(f"the service at its end: {weight(pid)[0]:.0f} MB")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else SOCKETS, sys.argv[2] if len(sys.argv) > 2 else None).show()
