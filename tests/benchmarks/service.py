"""The service under load: messages leased and done a second through HTTP, how long requests take, and its memory.

`python -m tests.benchmarks.service 20` measures each case for so many seconds. Service, clients and database share the
machine.
"""

import asyncio
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Final

from batchline import Timeline, open_store
from batchline.client import AsyncClient
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.tokens import Tokens
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.tracker_disk import fresh
from tests.servers.ask import begin, end

__all__ = ["SECONDS", "memory_mib", "prepared", "run", "served"]

DATABASES: Final = ("SQLite", "PostgreSQL")
SECONDS, CONSUMERS, BODY = 10.0, 16, b"x" * 100
#: Messages a request leases, and finishes.
AT_ONCE: Final = (1, 20, 100)
#: Messages that lie ready: more than are taken.
READY: Final = 10_000
COLUMNS: Final = ("case", "messages/s", "requests/s", "lease p50", "p99", "done p50", "p99", "memory, MiB")


@dataclass
class Taken:
    """What consumers took, and how long each request was under way, in milliseconds."""

    messages: int = 0
    lease_ms: list[float] = field(default_factory=list)
    done_ms: list[float] = field(default_factory=list)

    def cells(self, took_s: float) -> list[str]:
        """As a row shows it."""
        requests = len(self.lease_ms) + len(self.done_ms)
        cuts = [quantiles(span, n=100) for span in (self.lease_ms, self.done_ms)]
        parts = [f"{some[place]:,.1f} ms" for some in cuts for place in (49, 98)]
        return [f"{self.messages / took_s:,.0f}", f"{requests / took_s:,.0f}", *parts]


@contextmanager
def served(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service of its own process, as a user starts it, and its address."""
    command = [sys.executable, "-m", "batchline", "serve", "--store", url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
            assert found, "the service did not start"
            yield process, found.group()
        finally:
            process.terminate()


def memory_mib(pid: int) -> float:
    """What a process has in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found.group(1)) / 1024


async def consume(client: AsyncClient, consumer: str, at_once: int, until_s: float, taken: Taken) -> None:
    """Lease and finish, over and over."""
    while (begin_s := elapsed_seconds()) < until_s:
        messages = await client.lease("load", consumer, limit=at_once)
        leased_s = elapsed_seconds()
        await client.done(messages)
        taken.lease_ms.append(1_000 * (leased_s - begin_s))
        taken.done_ms.append(1_000 * (elapsed_seconds() - leased_s))
        taken.messages += len(messages)


def load(address: str, token: str, at_once: int, seconds: float) -> Taken:
    """Be the consumers, in a process of their own."""

    async def work() -> Taken:
        taken, until_s = Taken(), elapsed_seconds() + seconds
        async with AsyncClient(address, token) as client:
            names = [f"c{number}" for number in range(CONSUMERS)]
            await asyncio.gather(*(consume(client, name, at_once, until_s, taken) for name in names))
        return taken

    return asyncio.run(work())


def prepared(url: str, count: int) -> str:
    """A topic with so many messages, and a token."""
    with open_store(url) as store:
        timeline = Timeline(store)
        timeline.create_topic("load")
        for _ in range(0, count, READY):
            timeline.create("load", [BODY] * READY, producer_group="bench")
        return Tokens(store).create(producer_group="bench", consumers=["*"], topics=["*"])[1]


def measure(database: str, at_once: int, seconds: float, sheet: Sheet) -> None:
    """One case, on a database and a service of its own."""
    with fresh(database) as url:
        token = prepared(url, int(seconds) * at_once * 2_000 + READY)
        with served(url) as (process, address), multiprocessing.get_context("spawn").Pool(1) as pool:
            taken = pool.apply(load, (address, token, at_once, seconds))
            memory = memory_mib(process.pid)
        assert taken.messages, "nothing was taken"
    sheet.add(f"{database}, {at_once} at once", *taken.cells(seconds), f"{memory:,.0f}")
    console.print(f"  [dim]{database}, {at_once} at once: {taken.messages / seconds:,.0f} messages/s[/]")


def run(seconds: float = SECONDS) -> Sheet:
    """Measure every case for so long."""
    title = f"Service: leased and done through HTTP by {CONSUMERS} consumers in one process"
    sheet = Sheet(title, COLUMNS)
    begin()
    try:
        for database in DATABASES:
            for at_once in AT_ONCE:
                measure(database, at_once, seconds, sheet)
    finally:
        end()
    return sheet


if __name__ == "__main__":
    run(*map(float, sys.argv[1:2])).show()
