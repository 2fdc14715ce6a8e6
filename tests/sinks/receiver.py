"""An HTTP receiver of parcels that can be told to misbehave: beside a test, or in a process of its own.

POST /control   a JSON list of faults: from now on it does these
GET  /arrived   what has arrived, as JSON: requests, and arrivals in the order in which each came first
POST anything   a parcel

python -m tests.sinks.receiver --port 8080 --state arrived.db
"""

import argparse
import asyncio
import gzip
import json
import signal
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from tests.sinks.arrivals import Arrival, Arrivals, Lane, lanes_of
from tests.sinks.fault import Fault, Plan, read_faults

__all__ = ["Receiver", "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came; the body without its gzip."""

    method: str
    path: str
    #: By names in small letters.
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Listens while it is entered, on a loop in a thread of its own, so both plain and async tests may use it."""

    def __init__(self, state: Path | None = None, port: int = 0):
        self._arrivals = Arrivals(state)
        self._wanted_port = port
        self._plan = Plan([])
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        #: How many connections and requests there were, and the last of these.
        self.connections = self.requests = 0
        self.last: Request | None = None

    @property
    def url(self) -> str:
        """Where parcels are to be sent."""
        return f"http://127.0.0.1:{self.port}/measurements"

    def misbehave(self, *faults: Fault, seed: int = 0) -> None:
        """Do this from now on, instead of what was planned; those that hang are let go."""
        self._plan = Plan(list(faults), seed)
        self._loop.call_soon_threadsafe(self._let_go)

    def arrived(self) -> list[Arrival]:
        """What has arrived, each parcel once, in the order in which each came first."""
        return self._arrivals.all()

    def forget(self) -> None:
        """Be as if nothing had come."""
        self._arrivals.forget()
        self.connections = self.requests = 0

    def lanes(self) -> dict[Lane, list[int]]:
        """The numbers of each lane in the order in which they came first."""
        return lanes_of(self.arrived())

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._arrivals.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended, self._changed = asyncio.Event(), asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._wanted_port)
        self.port: int = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._ended.wait()
        server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _let_go(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        self.connections += 1
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):  # the client is gone, or the receiver goes
                while await self._answer(await _read(reader), writer):
                    await writer.drain()
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; False if that was the end of the connection."""
        routes = {"/control": self._control, "/arrived": self._tell}
        if route := routes.get(request.path):
            writer.write(route(request))
            return True
        self.requests, self.last = self.requests + 1, request
        fault = self._plan.next()
        try:
            body = json.loads(request.body)
            if fault.takes:
                self._arrivals.take(unquote(request.headers["idempotency-key"]), body, {*fault.refused, *fault.again})
        except (ValueError, KeyError, TypeError) as error:
            writer.write(_response(400, f"no parcel: {error!r}"))
            return True
        return await self._act(fault, _answer(fault, body), writer)

    async def _act(self, fault: Fault, answer: bytes, writer: asyncio.StreamWriter) -> bool:
        if fault.do == "hang":
            await self._changed.wait()
        elif fault.do == "half":
            writer.write(answer[: len(answer) // 2])
            await writer.drain()
        elif fault.do == "answer":
            writer.write(answer)
            return True
        return False

    def _control(self, request: Request) -> bytes:
        try:
            self.misbehave(*read_faults(json.loads(request.body)))
        except (ValueError, TypeError) as error:
            return _response(400, str(error))
        return _response(200, "{}")

    def _tell(self, _: Request) -> bytes:
        arrived = [asdict(one) for one in self.arrived()]
        return _response(200, json.dumps({"requests": self.requests, "arrived": arrived}))


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return Request(method, path, headers, body)


def _answer(fault: Fault, parcel: Any) -> bytes:
    text = fault.body
    if text is None:
        text = json.dumps(_verdicts(fault, parcel)) if fault.status == 207 else f'{{"status":{fault.status}}}'
    retry_after = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    return _response(fault.status, text, {**(fault.headers or {}), **retry_after})


def _verdicts(fault: Fault, parcel: Any) -> list[dict[str, Any]]:
    measurements = parcel["measurements"] if isinstance(parcel, dict) else parcel
    statuses = [422 if i in fault.refused else 503 if i in fault.again else 201 for i in range(len(measurements))]
    return [{"index": i, "status": s} | ({"error": f"not {i}"} if s > 299 else {}) for i, s in enumerate(statuses)]


def _response(status: int, text: str, headers: dict[str, str] | None = None) -> bytes:
    body = text.encode()
    lines = [f"HTTP/1.1 {status} -", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def main() -> None:
    """Receive until a signal ends it; a line on stdout says when it listens, and where."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path)
    options = parser.parse_args()
    ended = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    with Receiver(options.state, options.port) as receiver:
        print(receiver.url, flush=True)  # noqa: T201 - who started it waits for this
        signal.sigwait(ended)


if __name__ == "__main__":
    main()
