"""Publishing and workers: parcels and measurements a second, beside the bare timeline with messages of the same size.

`python -m tests.benchmarks.worker 64` publishes so many parcels in each lane.
"""

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from typing import Any, Final

from batchline import Consumer, LeasedMessage, NewMessage, Store, Timeline, Tracker, open_store
from batchline.core.consignment import Consignment
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.publisher import AT_ONCE, Publisher, make_topics
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink
from tests.benchmarks.measure import Figures, once
from tests.benchmarks.tracker_disk import fresh
from tests.servers.ask import begin, end

__all__ = ["AT_ONCE", "PARCELS", "run"]

DATABASES: Final = ("SQLite", "PostgreSQL")
LANES, MEASUREMENTS, PARCELS = 16, 500, 256
WORKERS: Final = (1, 4)
WAIT_S: Final = 120.0


class Nowhere(Sink):
    """Takes everything at once."""

    async def send(self, parcels: Sequence[Consignment]) -> None:
        """Do nothing."""


def made_parcels(lane: int, count: int) -> list[Consignment]:
    """The parcels of a lane, their measurements as JSON."""
    one = '{"device":"device-%04d","type":"temperature","t":"2026-11-15T12:%02d:%02dZ","value":%d.%d}'

    def payload(number: int) -> bytes:
        values = (
            one % (lane, place % 60, number % 60, place * number % 97, place % 7) for place in range(MEASUREMENTS)
        )
        return f"[{','.join(values)}]".encode()

    return [
        Consignment(
            f"{lane}-{number}",
            "bench",
            lane,
            number,
            None,
            MEASUREMENTS,
            "2026-11-15T12:00:00Z",
            "2026-11-15T12:59:59Z",
            payload(number),
        )
        for number in range(1, count + 1)
    ]


def parts(parcels: Sequence[Consignment]) -> list[Sequence[Consignment]]:
    """As many as are published at once."""
    return [parcels[first : first + AT_ONCE] for first in range(0, len(parcels), AT_ONCE)]


def publish(store: Store, lanes: Sequence[Sequence[Consignment]], fanout: str) -> float:
    """Publish all lanes, a part of each in turn; how long it took."""
    publisher = Publisher(store, "parcels", fanout)

    def work() -> None:
        for some in zip(*map(parts, lanes), strict=True):
            for part in some:
                publisher.post(part)

    return once(work)


def create(timeline: Timeline, lanes: Sequence[Sequence[Consignment]]) -> float:
    """Create messages with the same bodies; how long it took."""

    def work() -> None:
        for some in zip(*map(parts, lanes), strict=True):
            for part in some:
                new = [NewMessage(one.as_body(), id=f"{{{one.lane}}}{one.number}") for one in part]
                timeline.create("messages", new, producer_group="bench")

    return once(work)


# --- who delivers -----------------------------------------------------------------------------------------------------


async def _until_told(runner: Any, told: Any) -> None:
    loop = asyncio.get_running_loop()

    def listen() -> None:
        told.wait(WAIT_S)
        loop.call_soon_threadsafe(runner.stop)

    threading.Thread(target=listen, daemon=True).start()
    await runner.run()


async def _nothing(_: LeasedMessage) -> None:
    pass


def deliver(url: str, bare: bool, number: int, gate: Barrier, told: Any) -> None:
    """Be one of the workers, or one of the consumers of the bare timeline, until told to end."""
    with open_store(url) as store:

        async def work() -> None:
            name = f"w{number}"
            runner: Any = (
                Consumer(Timeline(store), "messages", _nothing, consumer=name, concurrency=256)
                if bare
                else Worker(store, "parcels", Nowhere(), worker=name)
            )
            # Each knows of the others before there is anything to share.
            Timeline(store).subscribe("messages" if bare else "parcels", name)
            gate.wait(WAIT_S)
            await _until_told(runner, told)

        asyncio.run(work())


def delivered_in(url: str, timeline: Timeline, workers: int, bare: bool, fill: Any) -> float:
    """How long so many processes take for all that is on the topic."""
    context = multiprocessing.get_context("spawn")
    gate, told = context.Barrier(workers + 1), context.Event()
    processes = [context.Process(target=deliver, args=(url, bare, number, gate, told)) for number in range(workers)]
    for process in processes:
        process.start()
    fill()
    gate.wait(WAIT_S)
    begin_s, topic = elapsed_seconds(), "messages" if bare else "parcels"
    while timeline.count(topic).total:
        threading.Event().wait(0.01)
    took_s = elapsed_seconds() - begin_s
    told.set()
    for process in processes:
        process.join(WAIT_S)
    return took_s


def measure(database: str, parcels: int, figures: Figures) -> None:
    """All figures of one database."""
    lanes = [made_parcels(lane, parcels) for lane in range(LANES)]
    count = LANES * parcels
    for workers in WORKERS:
        with fresh(database) as url, open_store(url) as store:
            timeline, tracker, took = Timeline(store), Tracker(store), dict[str, float]()
            make_topics(timeline, "parcels")
            timeline.create_topic("messages")
            fanout = tracker.open().id
            took["create"] = took["publish"] = 0.0

            def create_all(timeline: Timeline = timeline, took: dict[str, float] = took) -> None:
                took["create"] = create(timeline, lanes)

            def publish_all(store: Store = store, took: dict[str, float] = took, fanout: str = fanout) -> None:
                took["publish"] = publish(store, lanes, fanout)

            bare_s = delivered_in(url, timeline, workers, True, create_all)
            worker_s = delivered_in(url, timeline, workers, False, publish_all)
            assert tracker.status(fanout).pending == 0
        if workers == 1:
            figures.add(f"{database}, published", "messages created on the bare timeline", count, took["create"])
            figures.add(f"{database}, published", "parcels, tracked, in lanes", count, took["publish"])
        figures.add(f"{database}, delivered, {workers} workers", "messages, bare consumers", count, bare_s)
        figures.add(f"{database}, delivered, {workers} workers", "parcels, workers", count, worker_s)


def run(parcels: int = PARCELS) -> Figures:
    """Measure with so many parcels in each lane."""
    figures = Figures(f"Workers: parcels of {MEASUREMENTS} measurements in {LANES} lanes", "parcels/s")
    begin()
    try:
        for database in DATABASES:
            measure(database, max(parcels // AT_ONCE, 1) * AT_ONCE, figures)
    finally:
        end()
    return figures


if __name__ == "__main__":
    run(*map(int, sys.argv[1:2])).show()
