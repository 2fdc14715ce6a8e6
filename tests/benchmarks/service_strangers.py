"""The service while a stranger attacks it: how long a good client's requests take, and how much memory it gains.

`python -m tests.benchmarks.service_strangers 5` attacks for this number of seconds in each case. Service, stranger,
client and database share the machine.
"""

import multiprocessing
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from statistics import quantiles
from typing import Final

import httpx2

from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.measure import Sheet, console
from tests.benchmarks.service import memory_mib, prepared, served
from tests.benchmarks.tracker_disk import fresh

__all__ = ["SECONDS", "run"]

SECONDS: Final = 5.0
#: Bytes that a stranger offers at most, and how much of them at once.
MOST, AT_ONCE = 200 << 20, 1 << 20
HALVES, TOKENS_AT_ONCE = 256, 200
HEAD: Final = b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n"
HALF: Final = (
    b"POST /v1/topics/load/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\n"
    b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
)
COLUMNS: Final = ("attack", "attempts", "answered", "refused", "p50", "p99", "max", "memory gained, MiB")
Attack = Callable[[tuple[str, int], float, str], int]


def attack_none(_: tuple[str, int], until_s: float, __: str) -> int:
    """Do nothing."""
    multiprocessing.Event().wait(max(until_s - elapsed_seconds(), 0))
    return 0


def attack_headers(place: tuple[str, int], until_s: float, _: str) -> int:
    """Send headers without end."""
    return _pour(place, HEAD, b"x-%d: y\r\n" % 7 * (AT_ONCE // 8), until_s)


def attack_header(place: tuple[str, int], until_s: float, _: str) -> int:
    """Send one header without end."""
    return _pour(place, HEAD + b"x: ", b"y" * AT_ONCE, until_s)


def _pour(place: tuple[str, int], head: bytes, piece: bytes, until_s: float) -> int:
    """Offer bytes on one connection after the other; return how many mebibytes were taken."""
    sent = 0
    while sent < MOST and elapsed_seconds() < until_s:
        with suppress(OSError), socket.create_connection(place, timeout=2) as connection:
            connection.sendall(head)
            while sent < MOST and elapsed_seconds() < until_s:
                connection.sendall(piece)
                sent += len(piece)
    return sent >> 20


def attack_halves(place: tuple[str, int], until_s: float, token: str) -> int:
    """Begin requests with bodies, and never end them."""
    with ExitStack() as stack:
        for _ in range(HALVES):
            connection = stack.enter_context(socket.create_connection(place, timeout=5))
            connection.sendall(HALF % token.encode())
        multiprocessing.Event().wait(max(until_s - elapsed_seconds(), 0))
    return HALVES


def attack_tokens(place: tuple[str, int], until_s: float, _: str) -> int:
    """Send wrong tokens on 200 connections."""
    tried = 0
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(place, timeout=30)) for _ in range(TOKENS_AT_ONCE)]
        while elapsed_seconds() < until_s:
            for connection in connections:
                connection.sendall(_wrong())
            for connection in connections:
                connection.recv(1 << 16)
            tried += len(connections)
    return tried


def _wrong() -> bytes:
    return HEAD + b"authorization: Bearer bl_%s_%s\r\n\r\n" % (
        secrets.token_hex(6).encode(),
        secrets.token_hex(32).encode(),
    )


ATTACKS: Final = (attack_none, attack_headers, attack_header, attack_halves, attack_tokens)


@contextmanager
def attacking(
    attack: Attack, place: tuple[str, int], seconds: float, token: str
) -> Iterator[tuple[float, Callable[[], int]]]:
    """A stranger in a process of its own: until when it attacks, and what it has done when that is over."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(elapsed_seconds)  # the process takes its time to start
        until_s = elapsed_seconds() + seconds
        attacked = pool.apply_async(attack, (place, until_s, token))
        yield until_s, lambda: attacked.get(60)


def measure(attack: Attack, seconds: float, sheet: Sheet) -> None:
    """One case, on a service of its own."""
    with fresh("SQLite") as url:
        token = prepared(url, 1)
        with served(url) as (process, address):
            place = address.removeprefix("http://").split(":")
            before = most = memory_mib(process.pid)
            took_ms, refused = [], 0
            with httpx2.Client(base_url=address, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
                client.get("/v1/topics/load")
                with attacking(attack, (place[0], int(place[1])), seconds, token) as (until_s, attempts):
                    while (began_s := elapsed_seconds()) < until_s:
                        refused += client.get("/v1/topics/load").status_code != 200
                        took_ms.append(1_000 * (elapsed_seconds() - began_s))
                        most = max(most, memory_mib(process.pid))
                    tried = attempts()
            most = max(most, memory_mib(process.pid))
    cuts = quantiles(took_ms, n=100)
    name = (attack.__doc__ or "").rstrip(".")
    times = [f"{found:,.1f} ms" for found in (cuts[49], cuts[98], max(took_ms))]
    sheet.add(name, f"{tried:,}", f"{len(took_ms):,}", f"{refused:,}", *times, f"{most - before:,.0f}")
    console.print(f"  [dim]{name}: {times}[/]")


def run(seconds: float = SECONDS) -> Sheet:
    """Measure every case for this number of seconds."""
    sheet = Sheet("Service: a good client's reads while a stranger attacks (attempts of headers in MiB)", COLUMNS)
    for attack in ATTACKS:
        measure(attack, seconds, sheet)
    return sheet


if __name__ == "__main__":
    run(*map(float, sys.argv[1:2])).show()
