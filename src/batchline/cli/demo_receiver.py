"""A receiver of parcels as the world has them: metered, now and then busy, and not always well.

It takes so many measurements a second and answers 429 to what is more. Sometimes it answers 500. Sometimes it takes a
parcel and cuts the connection before it has said so: the parcel comes again, and is known by its Idempotency-Key. What
it does to which parcel is decided by the seed; when it is busy, too.
"""

import asyncio
import json
import random
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

from batchline.runtime.clock import elapsed_seconds

__all__ = ["Arrival", "Identity", "Meter", "Receiver", "Temper"]

#: What a measurement is known by: key, type, event time as it came, sequence.
Identity = tuple[str, str, str, int]
STATUSES: Final = {"taken": 200, "repeated": 200, "throttled": 429, "failed": 500}
#: Answers after which a measurement is at the receiver.
TAKEN: Final = ("taken", "cut")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A parcel as it came, once."""

    #: Seconds of the steady clock.
    at_s: float
    parcel: str
    publication: str
    lane: int
    number: int
    #: How many measurements it holds.
    count: int
    #: What became of it: taken, cut (taken, and the connection cut), repeated, throttled, failed.
    answer: str

    @property
    def is_first(self) -> bool:
        """Whether its measurements were new."""
        return self.answer in TAKEN


@dataclass(frozen=True, slots=True)
class Temper:
    """What to expect of a receiver."""

    #: Measurements that it takes within a second; and while it is busy.
    limit: float
    busy_limit: float
    #: When it is busy, in seconds since the first parcel: from, to.
    busy: Sequence[tuple[float, float]] = ()
    #: Shares of the attempts that it fails, and that it takes and cuts.
    failing: float = 0.02
    cutting: float = 0.015
    seed: int = 0

    def fate(self, parcel: str, attempt: int) -> str:
        """What it does at an attempt to hand it a parcel, whenever that is."""
        chance = random.Random(f"{self.seed} {parcel} {attempt}").random()  # noqa: S311 - the same seed, the same faults
        if chance < self.failing:
            return "failed"
        return "cut" if chance < self.failing + self.cutting else "taken"

    def limit_at(self, seconds: float) -> float:
        """How much it takes a second, so many seconds after the first parcel."""
        return self.busy_limit if any(begin <= seconds < end for begin, end in self.busy) else self.limit


class Meter:
    """Counts what was taken within the last second."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, int]] = deque()
        self._sum = 0

    def takes(self, now_s: float, count: int, limit: float) -> bool:
        """Whether so many more are within the limit: then they are taken. One parcel alone always is."""
        while self._taken and self._taken[0][0] <= now_s - 1:
            self._sum -= self._taken.popleft()[1]
        if self._taken and self._sum + count > limit:
            return False
        self._taken.append((now_s, count))
        self._sum += count
        return True


class Receiver:
    """Listens on loopback while it is entered, on a loop in a thread of its own, and keeps what came."""

    def __init__(self, temper: Temper):
        self.temper = temper
        #: Everything that came, in order; and of the parcels that were taken, their measurements.
        self.arrivals: list[Arrival] = []
        self.held: dict[str, list[Identity]] = {}
        self.answers: Counter[str] = Counter()
        #: Measurements that are new.
        self.measurements = 0
        self._attempts: Counter[str] = Counter()
        self._meter = Meter()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="demo-receiver", daemon=True)

    @property
    def url(self) -> str:
        """Where parcels are to be sent."""
        return f"http://127.0.0.1:{self._port}/measurements"

    def take(self, parcel: Mapping[str, Any], key: str, now_s: float) -> str:
        """A parcel has come: what becomes of it."""
        answer = self._answer_to(key, parcel["count"], now_s)
        if answer in TAKEN:
            self.held[key] = [_identity(one) for one in parcel["measurements"]]
            self.measurements += len(self.held[key])
        place = parcel["publication"], parcel["lane"], parcel["number"]
        self.arrivals.append(Arrival(now_s, key, *place, parcel["count"], answer))
        self.answers[answer] += 1
        return answer

    def _answer_to(self, key: str, count: int, now_s: float) -> str:
        since_first_s = now_s - self.arrivals[0].at_s if self.arrivals else 0.0
        if not self._meter.takes(now_s, count, self.temper.limit_at(since_first_s)):
            return "throttled"
        if key in self.held:
            return "repeated"
        self._attempts[key] += 1
        return self.temper.fate(key, self._attempts[key])

    # --- HTTP ---

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port: int = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._ended.wait()
        server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):  # the worker is gone, or the receiver goes
                while await self._exchange(reader, writer):
                    await writer.drain()
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; False if the connection is cut instead."""
        headers = _headers((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        body = await reader.readexactly(int(headers["content-length"]))
        now_s = elapsed_seconds()
        answer = self.take(json.loads(body), unquote(headers["idempotency-key"]), now_s)
        if answer == "cut":
            return False
        writer.write(_response(answer))
        return True


def _headers(head: str) -> dict[str, str]:
    lines = (line.partition(":") for line in head.strip().split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in lines}


def _response(answer: str) -> bytes:
    body = json.dumps({"answer": answer})
    later = "Retry-After: 1\r\n" if answer == "throttled" else ""
    head = f"HTTP/1.1 {STATUSES[answer]} {answer}\r\nContent-Type: application/json\r\n{later}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _identity(measurement: Mapping[str, Any]) -> Identity:
    return measurement["key"], measurement["type"], measurement["event_time"], measurement["sequence"]
