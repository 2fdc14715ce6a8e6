"""A service under a crowd: 200 and 800 clients that lease and finish at the same time, more than it works on at once.

`python -m tests.benchmarks.service_crowd 10 200 800` measures each crowd for 10 s, on PostgreSQL, with a process of
`batchline serve`. It fails if a message is leased twice, if an answer is neither 200 nor 503, or if a 503 has no
`Retry-After`.
"""

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Final

from batchline import Timeline, open_store
from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.service import memory_mib, prepared, served
from tests.benchmarks.tracker_disk import fresh
from tests.servers.ask import begin, end

__all__ = ["run"]

SECONDS, CROWDS, READY = 10.0, (200, 800), 60_000
COLUMNS: Final = ("clients", "200", "503", "messages/s", "p50", "p99", "memory, MiB", "leased twice")


@dataclass
class Crowd:
    """What clients were answered."""

    statuses: Counter[int] = field(default_factory=Counter)
    took_ms: list[float] = field(default_factory=list)
    #: How many times each message was leased, by its id: no lease ends by itself in this time.
    leased: Counter[str] = field(default_factory=Counter)
    done: int = 0
    #: Answers of 503 that do not say when to come again.
    mute: int = 0


class OneClient:
    """A connection on which one request follows the other."""

    def __init__(self, crowd: Crowd, address: str, token: str, consumer: str) -> None:
        self._crowd, self._token, self._consumer = crowd, token, consumer
        self._host, _, self._port = address.removeprefix("http://").partition(":")

    async def work(self, until_s: float) -> None:
        """Lease and finish, over and over; after a 503, wait as long as it says."""
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            while elapsed_seconds() < until_s:
                messages = await self._ask(reader, writer, "lease", {"consumer": self._consumer, "limit": 2})
                ids = [message["id"] for message in messages.get("messages", ())]
                self._crowd.leased.update(ids)
                leases = [message["lease"] for message in messages.get("messages", ())]
                while leases and not (told := await self._ask(reader, writer, "done", {"leases": leases})):
                    pass
                if leases:
                    self._crowd.done += sum(one["outcome"] == "done" for one in told["outcomes"])
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verb: str, form: object) -> dict:  # type: ignore[type-arg]
        body = json.dumps(form).encode()
        head = f"POST /v1/topics/load/messages/{verb} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        head += f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
        begin_s = elapsed_seconds()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, headers, answer = await _answer(reader)
        self._crowd.took_ms.append(1_000 * (elapsed_seconds() - begin_s))
        self._crowd.statuses[status] += 1
        if status == 200:
            return dict(json.loads(answer))
        self._crowd.mute += "retry-after" not in headers
        await asyncio.sleep(float(headers.get("retry-after", 1)))
        return {}


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    return int(lines[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def _load(address: str, token: str, pid: int, clients: int, seconds: float) -> tuple[Crowd, list[float]]:
    crowd, until_s, memory = Crowd(), elapsed_seconds() + seconds, [memory_mib(pid)]
    crowding = [OneClient(crowd, address, token, f"c{number}").work(until_s) for number in range(clients)]
    working = asyncio.gather(*crowding)
    while not working.done():
        await asyncio.wait([working], timeout=seconds / 5)
        memory.append(memory_mib(pid))
    await working
    return crowd, memory


def measure(clients: int, seconds: float, sheet: Sheet) -> None:
    """One crowd, on a database and a service of its own."""
    with fresh("PostgreSQL") as url:
        token = prepared(url, READY)
        with served(url) as (process, address):
            crowd, memory = asyncio.run(_load(address, token, process.pid, clients, seconds))
        with open_store(url) as store:
            left = Timeline(store).count("load")
    twice = sum(count > 1 for count in crowd.leased.values())
    assert set(crowd.statuses) <= {200, 503}, crowd.statuses
    assert (twice, crowd.mute) == (0, 0), "leased twice, or a 503 without Retry-After"
    assert crowd.done == crowd.leased.total() == READY - left.total, "what was leased is done, once"
    cuts, statuses = quantiles(crowd.took_ms, n=100), crowd.statuses
    cells = [f"{statuses[200]:,}", f"{statuses[503]:,}", f"{crowd.done / seconds:,.0f}", f"{cuts[49]:,.0f} ms"]
    cells += [f"{cuts[98]:,.0f} ms", " → ".join(f"{mib:,.0f}" for mib in memory), str(twice)]
    sheet.add(str(clients), *cells)
    console.print(f"  [dim]{clients} clients: {' · '.join(cells)}[/]")


def run(seconds: float = SECONDS, crowds: tuple[int, ...] = CROWDS) -> Sheet:
    """Measure every crowd for this number of seconds."""
    sheet = Sheet("Service: crowds that lease and finish two messages a request, on PostgreSQL", COLUMNS)
    begin()
    try:
        for clients in crowds:
            measure(clients, seconds, sheet)
    finally:
        end()
    return sheet


if __name__ == "__main__":
    given = sys.argv[1:]
    run(float(given[0]) if given else SECONDS, tuple(map(int, given[1:])) or CROWDS).show()
