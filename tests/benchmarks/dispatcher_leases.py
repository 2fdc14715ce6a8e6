"""What leases cost: calls a second, and partitions a second, of each kind of lease manager, one call after the other.

Beside the least that a call can be: a round trip of the same driver that asks for nothing.
"""

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

import psycopg

from batchline.leases.blob_leases import BlobLeases
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.stores.redis.connection import connect
from tests.benchmarks.measure import Figures
from tests.benchmarks.tracker_disk import fresh
from tests.leases.keeping import azure_address
from tests.servers.ask import ask
from tests.servers.database import connect_mariadb
from tests.servers.server import ProgramMissingError

__all__ = ["KINDS", "keeper", "measure_leases", "turns"]

KINDS = ("memory", "SQLite", "PostgreSQL", "MariaDB", "Redis", "Azurite")
SIZES = (1, 10, 100)
#: A turn is three calls for all its partitions: acquire, renew, release.
CALLS = 3
LIMIT_S = 2.0
LEASE_MS = 60_000
INSTANCE = "bench"


@contextmanager
def keeper(kind: str) -> Iterator[str]:
    """The address of a place for leases that nobody else uses."""
    with ExitStack() as stack:
        if kind in ("SQLite", "PostgreSQL", "MariaDB"):
            yield stack.enter_context(fresh(kind))
        elif kind == "Azurite":
            yield azure_address(ask("azurite"), f"bench-{uuid.uuid4().hex}")
        else:
            yield "memory://" if kind == "memory" else ask("redis")


def turns(manager: LeaseManager, partitions: int, limit_s: float) -> tuple[int, float]:
    """Acquire, renew and release so many partitions, until the time is up; how often, and in how many seconds."""
    wanted = list(range(partitions))
    begin_s, done = elapsed_seconds(), 0
    while elapsed_seconds() - begin_s < limit_s:
        acquired = manager.acquire(INSTANCE, wanted, partitions, LEASE_MS, now_us())
        renewed = manager.renew(INSTANCE, wanted, LEASE_MS, now_us())
        manager.release(INSTANCE, wanted, now_us())
        assert sorted(acquired) == sorted(renewed) == wanted
        done += 1
    return done, elapsed_seconds() - begin_s


def measure_leases(scale: float = 1.0) -> tuple[Figures, Figures]:
    """Calls a second and partitions a second, of each kind."""
    calls = Figures("Stage 5 lease calls: acquire, renew and release in turn, one thread", "calls/s")
    partitions = Figures("Stage 5 leased partitions: acquire, renew and release in turn, one thread", "partitions/s")
    for kind in KINDS:
        try:
            _measure(kind, LIMIT_S * scale, calls, partitions)
        except ProgramMissingError as error:
            calls.leave_out(kind, "all", str(error))
    return calls, partitions


def _measure(kind: str, limit_s: float, calls: Figures, partitions: Figures) -> None:
    with keeper(kind) as address, open_leases(address, f"bench-{uuid.uuid4()}") as manager:
        manager.provision(max(SIZES), "bench", now_us())
        with _bare(kind, address, manager) as (name, ping):
            calls.add(kind, name, *_within(ping, limit_s))
        for size in SIZES:
            turns(manager, size, limit_s / 20)
            done, seconds = turns(manager, size, limit_s)
            row = f"{size} partition{'s' if size > 1 else ''} a call"
            calls.add(kind, row, done * CALLS, seconds)
            partitions.add(kind, row, done * size, seconds)


def _within(work: Callable[[], object], limit_s: float) -> tuple[int, float]:
    work()
    begin_s, done = elapsed_seconds(), 0
    while elapsed_seconds() - begin_s < limit_s:
        work()
        done += 1
    return done, elapsed_seconds() - begin_s


@contextmanager
def _bare(kind: str, address: str, manager: LeaseManager) -> Iterator[tuple[str, Callable[[], object]]]:
    """The least that a call can be, and what it is called."""
    with ExitStack() as stack:
        if kind == "SQLite":
            file = sqlite3.connect(urlsplit(address).path[1:], isolation_level=None)
            connection = stack.enter_context(closing(file))
            yield "an empty transaction", lambda: connection.executescript("BEGIN IMMEDIATE; COMMIT")
        elif kind == "PostgreSQL":
            session = stack.enter_context(psycopg.connect(address, autocommit=True))
            yield "SELECT 1", lambda: session.execute("SELECT 1").fetchone()
        elif kind == "MariaDB":
            cursor = stack.enter_context(closing(connect_mariadb(address))).cursor()
            yield "SELECT 1", lambda: cursor.execute("SELECT 1")
        elif kind == "Redis":
            yield "PING", stack.enter_context(connect(address)).ping
        elif isinstance(manager, BlobLeases):
            yield "is the container there", manager._container.exists
        else:
            assert isinstance(manager, StoreLeases)
            store = manager._store
            yield "an empty transaction", lambda: store.transact(lambda _: None)
