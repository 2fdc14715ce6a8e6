"""Parsers of HTTP in front of the same application: requests by the second of the service's processor time.

`python -m tests.benchmarks.service_parsers 3` measures each for this number of seconds, three times in turn, and shows
the median. Time of the processor, not of the wall: what else the machine does changes it little. The limits cost what
lies between httptools and ours; h11 has one limit of its own, on the size of a head.
"""

import asyncio
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Final, Literal

import uvicorn

from batchline import Timeline, open_store
from batchline.service.listening import address_of, listening, run_fast, serve_app
from batchline.service.service import Service
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.process_tree import cpu_seconds

__all__ = ["SECONDS", "run"]

SECONDS: Final = 3.0
ROUNDS, CONNECTIONS = 3, 16
Parser = Literal["httptools", "h11", "ours"]
PARSERS: Final[tuple[Parser, ...]] = ("httptools", "ours", "h11")
BODY: Final = b'{"consumer":"c","limit":10}'
HEADERS: Final = b"host: localhost\r\naccept: */*\r\nuser-agent: bench\r\nauthorization: Bearer bl_%s_%s\r\n" % (
    b"0" * 12,
    b"0" * 64,
)
REQUESTS: Final = {
    "GET, small": b"GET /health/live HTTP/1.1\r\n" + HEADERS + b"\r\n",
    "POST of a lease": b"POST /v1/topics/t/messages/lease HTTP/1.1\r\n"
    + HEADERS
    + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)
    + BODY,
}


def serve(parser: Parser, told: Connection) -> None:
    """Be the service, in a process of its own."""
    with open_store("memory://") as store, listening("127.0.0.1:0", insecure=False) as listener:
        Timeline(store).create_topic("t")
        with closing(Service(store)) as service:
            told.send(address_of(listener).rpartition(":")[2])
            if parser == "ours":
                run_fast(serve_app(service.app, listener, gate=service.gate))
                return
            config = uvicorn.Config(
                service.app, http=parser, log_level="error", lifespan="off", proxy_headers=False, ws="none"
            )
            run_fast(uvicorn.Server(config).serve([listener]))


@contextmanager
def served(parser: Parser) -> Iterator[tuple[int, int]]:
    """A service of its own process: its id, and its port."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(parser, its))
    process.start()
    try:
        assert process.pid
        yield process.pid, int(mine.recv())
    finally:
        process.terminate()
        process.join()


class Asker(asyncio.Protocol):
    """A connection that asks again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self._request, self.answers = request, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Ask again when all of an answer has come: it ends with a brace."""
        if data.endswith(b"}"):
            assert b" 200 " in data[:20] or data.startswith(b"{"), data
            self.answers += 1
            self._transport.write(self._request)


async def _asked(port: int, request: bytes, seconds: float) -> int:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    askers = [(await loop.create_connection(lambda: Asker(request), "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    loop.call_later(seconds, done.set)
    await done.wait()
    return sum(one.answers for one in askers)


def measure(parser: Parser, request: bytes, seconds: float) -> float:
    """Requests by the second of processor time."""
    with served(parser) as (pid, port):
        asyncio.run(_asked(port, request, 0.3))
        before_s = cpu_seconds(pid)
        return asyncio.run(_asked(port, request, seconds)) / (cpu_seconds(pid) - before_s)


def run(seconds: float = SECONDS) -> Sheet:
    """Measure every parser, in turn."""
    sheet = Sheet(
        "Service: requests by the second of processor time",
        ("request", *PARSERS, "ours / httptools", "h11 / httptools"),
    )
    for name, request in REQUESTS.items():
        rounds = [[measure(parser, request, seconds) for parser in PARSERS] for _ in range(ROUNDS)]
        found = {parser: median(some) for parser, some in zip(PARSERS, zip(*rounds, strict=True), strict=True)}
        rates = [f"{found[parser]:,.0f}" for parser in PARSERS]
        ratios = [f"{found[parser] / found['httptools']:.2f}" for parser in ("ours", "h11")]
        sheet.add(name, *rates, *ratios)
        console.print(f"  [dim]{name}: {found}[/]")
    return sheet


if __name__ == "__main__":
    run(*map(float, sys.argv[1:2])).show()
