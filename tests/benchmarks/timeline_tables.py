"""Peer of the timeline: a plain table with SKIP LOCKED, in the best form we know, on three databases.

One row a message, an index on the moment it is due, and a lease moves that moment into the future, so a lost worker's
messages come back by themselves. It does less than ours: whoever knows a message's number can finish it, even when the
lease is over and another has it.
"""

import json
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from queue import LifoQueue
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg

from tests.servers.database import connect_mariadb

__all__ = ["CONNECTIONS", "HOUR_MS", "LEASE_MS", "TABLES", "YEAR_MS", "OnCursors", "PostgreSQLMany", "Table", "settle"]

#: As many as threads use at once.
CONNECTIONS = 4
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS
#: Longer than a benchmark: nothing is leased twice, and nothing that waits becomes due.
LEASE_MS = HOUR_MS
WAITING_BODY = "x" * 100


class OnCursors(ABC):
    """A queue by SQL of ours. Every call has a connection to itself; the one that was used last, if it can."""

    def __init__(self, url: str):
        self._url = url
        self._connections = ExitStack()
        self._cursors: LifoQueue[Any] = LifoQueue()
        for _ in range(CONNECTIONS):
            self._cursors.put(self._connections.enter_context(closing(self.connect())).cursor())

    @abstractmethod
    def connect(self) -> Any:
        """Connect, each statement a transaction."""

    def close(self) -> None:
        """Close the connections of all threads."""
        self._connections.close()

    def _sql(self, *statements: str) -> None:
        with self._cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._cursors.get()
        try:
            yield cursor
        finally:
            self._cursors.put(cursor)


class Table(OnCursors):
    """The plain table. Moments are milliseconds of the database's own clock."""

    #: Types, the moment now and a random span of time, as the database says them.
    id_type: ClassVar[str]
    body_type: ClassVar[str]
    now: ClassVar[str]
    some_time: ClassVar[str]
    drop_index: ClassVar[str] = "DROP INDEX peer_due"
    mark: ClassVar[str] = "%s"

    def __init__(self, url: str):
        super().__init__(url)
        message = f"id {self.id_type}, due bigint NOT NULL, body {self.body_type} NOT NULL"
        # Unless it is there: then this is one of several processes.
        columns = f"{message}, attempts integer NOT NULL DEFAULT 0, locked_by bigint"
        self._sql(f"CREATE TABLE IF NOT EXISTS peer_messages ({columns})")
        self._index()
        with self._cursor() as cursor:
            cursor.execute(f"SELECT {self.now}")
            # Every message has a moment of its own; all of them have passed.
            self._moments = count(cursor.fetchone()[0] - DAY_MS)

    @abstractmethod
    def rows(self, count: int) -> str:
        """Return what to select from to have so many rows."""

    def preload(self, count: int) -> None:
        """Insert without the index and make it anew, which takes a fraction of the time when moments are random."""
        due = f"{self.now} + {HOUR_MS} + {self.some_time}"
        self._sql(
            self.drop_index,
            f"INSERT INTO peer_messages (due, body) SELECT {due}, '{WAITING_BODY}' FROM {self.rows(count)}",
        )
        self._index()
        settle(self._url)

    def create_at(self, moments_ms: Sequence[int]) -> None:
        """Insert rows."""
        with self._cursor() as cursor:
            insert = f"INSERT INTO peer_messages (due, body) VALUES ({self.mark}, {self.mark})"
            cursor.executemany(insert, [(ms, WAITING_BODY.encode()) for ms in moments_ms])

    def count(self) -> int:
        """Count all rows."""
        with self._cursor() as cursor:
            cursor.execute("SELECT count(*) FROM peer_messages")
            return int(cursor.fetchone()[0])

    def _index(self) -> None:
        self._sql("CREATE INDEX IF NOT EXISTS peer_due ON peer_messages (due)")

    def _with_moments(self, bodies: Sequence[bytes]) -> list[tuple[int, bytes]]:
        return [(next(self._moments), body) for body in bodies]

    def _due(self, columns: str, limit: int) -> str:
        return f"SELECT {columns} FROM peer_messages WHERE due <= {self.now} ORDER BY due LIMIT {limit}"

    def _lease(self, which: str) -> str:
        changes = f"due = {self.now} + {LEASE_MS}, attempts = attempts + 1, locked_by = {self.mark}"
        return f"UPDATE peer_messages SET {changes} WHERE id {which}"


class PostgreSQLTable(Table):
    """In PostgreSQL: COPY, and a lease in one statement."""

    id_type = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    body_type = "bytea"
    now = "floor(extract(epoch FROM now()) * 1000)::bigint"
    some_time = f"(random() * {YEAR_MS - HOUR_MS})::bigint"

    def connect(self) -> Any:
        """Connect, each statement a transaction; psycopg prepares statements by itself.

        Statistics of a queue are old at once: when they say that few are due, PostgreSQL would rather read and sort all
        that are due than walk along the index to the first of them.
        """
        return psycopg.connect(self._url, autocommit=True, options="-c enable_sort=off")

    def rows(self, count: int) -> str:
        """Return a series."""
        return f"generate_series(1, {count})"

    def create(self, bodies: Sequence[bytes]) -> None:
        """Copy rows, in binary."""
        with self._cursor() as cursor, cursor.copy("COPY peer_messages (due, body) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "bytea"])
            for row in self._with_moments(bodies):
                copy.write_row(row)

    def lease(self, limit: int) -> Sequence[int]:
        """Move what is due into the future. By an array: with IN (SELECT …) it may read the whole table."""
        lease = self._lease(f"= ANY(ARRAY({self._due('id', limit)} FOR UPDATE SKIP LOCKED)) RETURNING id, body")
        with self._cursor() as cursor:
            cursor.execute(lease, [threading.get_ident()], binary=True)
            return [id for id, _body in cursor.fetchall()]

    def done(self, tokens: Sequence[int]) -> int:
        """Delete by an array."""
        with self._cursor() as cursor:
            cursor.execute("DELETE FROM peer_messages WHERE id = ANY(%s)", [list(tokens)])
            return int(cursor.rowcount)


class PostgreSQLMany(PostgreSQLTable):
    """The same, created with what most programs use instead of COPY."""

    def create(self, bodies: Sequence[bytes]) -> None:
        """Insert rows one by one; psycopg sends them together."""
        with self._cursor() as cursor, cursor.connection.transaction():
            cursor.executemany("INSERT INTO peer_messages (due, body) VALUES (%s, %s)", self._with_moments(bodies))


class MariaDBTable(Table):
    """In MariaDB, which has no UPDATE … RETURNING: a lease is a transaction of two statements."""

    id_type = "bigint AUTO_INCREMENT PRIMARY KEY"
    body_type = "longblob"
    now = "CAST(unix_timestamp(now(3)) * 1000 AS INTEGER)"
    some_time = f"CAST(rand() * {YEAR_MS - HOUR_MS} AS INTEGER)"
    drop_index = "DROP INDEX peer_due ON peer_messages"

    def connect(self) -> Any:
        """Connect, each statement a transaction; by default InnoDB would lock the gaps between rows, too."""
        connection = connect_mariadb(self._url)
        connection.autocommit(True)
        connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection

    def rows(self, count: int) -> str:
        """Return a sequence."""
        return f"seq_1_to_{count}"

    def create(self, bodies: Sequence[bytes]) -> None:
        """Insert rows; PyMySQL makes one statement of them."""
        with self._cursor() as cursor:
            cursor.executemany("INSERT INTO peer_messages (due, body) VALUES (%s, %s)", self._with_moments(bodies))

    def lease(self, limit: int) -> Sequence[int]:
        """Lock what is due, then move it into the future."""
        with self._cursor() as cursor:
            cursor.connection.begin()
            cursor.execute(f"{self._due('id, body', limit)} FOR UPDATE SKIP LOCKED")
            ids = [id for id, _body in cursor.fetchall()]
            if ids:
                cursor.execute(self._lease("IN %s"), (threading.get_ident(), ids))
            cursor.connection.commit()
        return ids

    def done(self, tokens: Sequence[int]) -> int:
        """Delete by a list, which is part of the statement's text."""
        with self._cursor() as cursor:
            return int(cursor.execute("DELETE FROM peer_messages WHERE id IN %s", (list(tokens),)))


class SQLiteTable(Table):
    """In SQLite, where only one writes: threads take turns, as SQLite's own wait for a writer is a sleep."""

    id_type = "integer PRIMARY KEY"
    body_type = "blob"
    now = "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)"
    some_time = f"(random() & 0x7fffffffffffffff) % {YEAR_MS - HOUR_MS}"
    mark = "?"

    def __init__(self, url: str):
        self._turn = threading.Lock()
        super().__init__(url)

    def connect(self) -> Any:
        """Connect as our store does, each statement a transaction."""
        path = urlsplit(self._url).path[1:]
        connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def rows(self, count: int) -> str:
        """Return a recursive query."""
        numbers = f"SELECT 1 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < {count}"
        return f"(WITH RECURSIVE numbers AS ({numbers}) SELECT number FROM numbers)"

    def create(self, bodies: Sequence[bytes]) -> None:
        """Insert rows in one transaction."""
        with self._turn, self._cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany("INSERT INTO peer_messages (due, body) VALUES (?, ?)", self._with_moments(bodies))
            cursor.execute("COMMIT")

    def lease(self, limit: int) -> Sequence[int]:
        """Move what is due into the future; one statement, so it begins as a writer without being told."""
        with self._turn, self._cursor() as cursor:
            cursor.execute(self._lease(f"IN ({self._due('id', limit)}) RETURNING id, body"), [threading.get_ident()])
            return [id for id, _body in cursor.fetchall()]

    def done(self, tokens: Sequence[int]) -> int:
        """Delete by a JSON list."""
        with self._turn, self._cursor() as cursor:
            cursor.execute(
                "DELETE FROM peer_messages WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(tokens))]
            )
            return int(cursor.rowcount)


TABLES: dict[str, type[PostgreSQLTable | MariaDBTable | SQLiteTable]] = {
    "sqlite": SQLiteTable,
    "postgresql": PostgreSQLTable,
    "mysql": MariaDBTable,
}


def settle(url: str) -> None:
    """Do what a database's own housekeeping does within minutes: no plan rests on the statistics of an empty table."""
    kind = urlsplit(url).scheme
    if kind == "sqlite":
        with closing(sqlite3.connect(urlsplit(url).path[1:], timeout=60, isolation_level=None)) as file:
            file.execute("ANALYZE")
    elif kind == "postgresql":
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("VACUUM (ANALYZE)")
    else:
        with closing(connect_mariadb(url)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            for (table,) in cursor.fetchall():
                cursor.execute(f"ANALYZE TABLE `{table}`")
                cursor.fetchall()
