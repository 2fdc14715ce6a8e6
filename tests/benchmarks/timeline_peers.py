"""Peers of the timeline: a plain table with SKIP LOCKED on the same three databases, procrastinate and pgmq.

What procrastinate and pgmq carry is JSON, which has no bytes: bodies are base64 there, and are not decoded again. Both
look for what is due in the order of creation: every lease of theirs passes over all that wait and were created before.
To call `preload` first is their worst case; messages that are due and older than those that wait cost them nothing.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg

from tests.benchmarks.procrastinate_peer import Procrastinate
from tests.benchmarks.timeline_tables import HOUR_MS, LEASE_MS, TABLES, YEAR_MS, OnCursors, PostgreSQLMany, settle

__all__ = ["MANY", "PEERS", "PGMQ", "PROCRASTINATE", "TABLE", "Queue", "missing", "peer", "settle"]

TABLE, MANY = "SKIP LOCKED table", "SKIP LOCKED table, executemany"
PROCRASTINATE, PGMQ = "procrastinate, one by one", "pgmq"
#: Who is on which database.
PEERS = {"SQLite": (TABLE,), "PostgreSQL": (TABLE, MANY, PROCRASTINATE, PGMQ), "MariaDB": (TABLE,)}
#: Names the file that installs pgmq, of which nothing is kept here.
PGMQ_SQL = "PGMQ_SQL"


class Queue(Protocol):
    """One way to keep messages until they are due. Four threads may use it at once."""

    def create(self, bodies: Sequence[bytes]) -> None:
        """Create messages that are due at once."""

    def create_at(self, moments_ms: Sequence[int]) -> None:
        """Create messages that are due at these moments, in their order."""

    def preload(self, count: int) -> None:
        """Let the server make messages that wait, due at random moments of the next year, but not in its first hour."""

    def lease(self, limit: int) -> Sequence[Any]:
        """Lease what is due and fetch the bodies; returns what `done` takes, empty if nothing is due."""

    def done(self, tokens: Sequence[Any]) -> int:
        """Finish messages for good; returns how many."""

    def close(self) -> None:
        """Close the connections of all threads."""


class Pgmq(OnCursors):
    """pgmq by its own functions, installed as SQL only."""

    def __init__(self, url: str):
        super().__init__(url)
        self._sql(Path(os.environ[PGMQ_SQL]).read_text(), "SELECT pgmq.create('bench')")

    def connect(self) -> Any:
        """Connect, each statement a transaction."""
        return psycopg.connect(self._url, autocommit=True)

    def create(self, bodies: Sequence[bytes]) -> None:
        """Send a batch."""
        messages = [f'"{b64encode(body).decode()}"' for body in bodies]
        with self._cursor() as cursor:
            cursor.execute("SELECT pgmq.send_batch('bench', %s::jsonb[])", [messages])

    def create_at(self, moments_ms: Sequence[int]) -> None:
        """Send one by one, each with a moment."""
        send = "SELECT pgmq.send('bench', to_jsonb(repeat('x', 100)), to_timestamp(%s / 1000.0))"
        with self._cursor() as cursor:
            cursor.executemany(send, [(ms,) for ms in moments_ms])

    def preload(self, count: int) -> None:
        """Insert into its table: it has no call for messages of different moments."""
        due = f"now() + interval '{HOUR_MS} ms' + random() * interval '{YEAR_MS - HOUR_MS} ms'"
        message = "to_jsonb(repeat('x', 100))"
        self._sql(f"INSERT INTO pgmq.q_bench (vt, message) SELECT {due}, {message} FROM generate_series(1, {count})")
        settle(self._url)

    def lease(self, limit: int) -> Sequence[int]:
        """Read, which hides what was read."""
        with self._cursor() as cursor:
            cursor.execute(f"SELECT msg_id, message FROM pgmq.read('bench', {LEASE_MS // 1000}, {limit})")
            return [id for id, _message in cursor.fetchall()]

    def done(self, tokens: Sequence[int]) -> int:
        """Delete a batch."""
        with self._cursor() as cursor:
            cursor.execute("SELECT pgmq.delete('bench', %s::bigint[])", [list(tokens)])
            return int(cursor.rowcount)


def missing(name: str) -> str | None:
    """Say why there is no such peer here; None if there is."""
    return f"{PGMQ_SQL} names no file" if name == PGMQ and not Path(os.environ.get(PGMQ_SQL, "")).is_file() else None


@contextmanager
def peer(name: str, url: str) -> Iterator[Queue]:
    """The peer, empty, in that empty database; a table is of the kind that the address says."""
    kinds: dict[str, Callable[[str], Queue]] = {
        TABLE: TABLES[urlsplit(url).scheme],
        MANY: PostgreSQLMany,
        PROCRASTINATE: Procrastinate,
        PGMQ: Pgmq,
    }
    with closing(kinds[name](url)) as queue:
        yield queue
