"""A service under steady load for long: its memory, its file descriptors and how long requests take, step by step.

`python -m tests.benchmarks.service_soak 1800` runs for so many seconds, in ten steps: messages are created at a steady
rate, and consumers wait for them by long poll and by socket.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from statistics import quantiles
from typing import Final

from batchline import Consumer, LeasedMessage
from batchline.client import AsyncClient, Client
from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.service import memory_mib, prepared, served
from tests.benchmarks.tracker_disk import fresh

__all__ = ["run"]

SECONDS, STEPS = 1_800.0, 10
A_SECOND, AT_ONCE, POLLING, PUSHED = 300, 30, 8, 4
COLUMNS: Final = ("after", "memory, MiB", "open files", "created", "done", "create p50", "p99")


class Soak:
    """What was created and done, and how long creating took."""

    def __init__(self) -> None:
        self.created = self.done = 0
        self.create_ms: list[float] = []
        self.ended = asyncio.Event()

    async def produce(self, client: AsyncClient) -> None:
        """Create messages at a steady rate."""
        begin_s, calls = elapsed_seconds(), 0
        while not self.ended.is_set():
            calls += 1
            sent_s = elapsed_seconds()
            await client.create("load", [b"x" * 100] * AT_ONCE, producer_group="bench")
            self.create_ms.append(1_000 * (elapsed_seconds() - sent_s))
            self.created += AT_ONCE
            await asyncio.sleep(max(0.0, begin_s + calls * AT_ONCE / A_SECOND - elapsed_seconds()))

    async def poll(self, client: AsyncClient, consumer: str) -> None:
        """Wait for messages, and finish them."""
        while not self.ended.is_set():
            messages = await client.lease("load", consumer, limit=AT_ONCE, wait=timedelta(seconds=2))
            if messages:
                await client.done(messages)
            self.done += len(messages)

    async def handle(self, _: LeasedMessage) -> None:
        """Be done with a message that was pushed."""
        self.done += 1

    def cells(self) -> list[str]:
        """As a row shows it; how long creating took is of the last step."""
        cuts, self.create_ms = quantiles(self.create_ms, n=100), []
        return [f"{self.created:,}", f"{self.done:,}", f"{cuts[49]:,.1f} ms", f"{cuts[98]:,.1f} ms"]


async def soak(address: str, token: str, pid: int, seconds: float, sheet: Sheet) -> None:
    """Load a service, and look at it ten times."""
    state = Soak()
    async with AsyncClient(address, token) as client:
        with Client(address, token) as pushing:
            pushed = [Consumer(pushing, "load", state.handle, consumer=f"p{n}") for n in range(PUSHED)]
            tasks = [asyncio.create_task(consumer.run()) for consumer in pushed]
            tasks += [asyncio.create_task(state.poll(client, f"c{n}")) for n in range(POLLING)]
            tasks.append(asyncio.create_task(state.produce(client)))
            for step in range(1, STEPS + 1):
                await asyncio.sleep(seconds / STEPS)
                files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                cells = f"{step * seconds / STEPS:,.0f} s", f"{memory_mib(pid):,.1f}", f"{files}", *state.cells()
                sheet.add(*cells)
                console.print(f"  [dim]{' · '.join(cells)}[/]")
            state.ended.set()
            for consumer in pushed:
                consumer.stop()
            await asyncio.gather(*tasks)


def run(seconds: float = SECONDS) -> Sheet:
    """Keep a service on SQLite under load for so long."""
    sheet = Sheet(f"Service soak: {A_SECOND} messages a second, {POLLING} long polls, {PUSHED} sockets", COLUMNS)
    with fresh("SQLite") as url:
        token = prepared(url, 0)
        with served(url) as (process, address):
            asyncio.run(soak(address, token, process.pid, seconds, sheet))
    return sheet


if __name__ == "__main__":
    run(*map(float, sys.argv[1:2])).show()
