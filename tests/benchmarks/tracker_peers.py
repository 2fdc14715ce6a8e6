"""Peer of the tracker: one row per item, in its fastest and smallest form, on the same three databases.

The row of an item that is done is deleted: that is faster than to mark it (no second index, no new version of the row)
and smaller, though such a table cannot tell an item done twice from one that never was. Fanout and item are integers of
four bytes, the primary key is the only index, and the database itself makes the rows, so none pass over the wire.

An ack is two statements, each a transaction of its own: delete, then look whether any row is left. In one transaction
it would be wrong: of the last two at once, each would still see the other's row, and nobody would be told.
"""

import json
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from queue import LifoQueue
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg

from tests.servers.database import connect_mariadb

__all__ = ["RowTable", "row_table"]

FANOUT = 1
#: As many as threads use at once.
CONNECTIONS = 4


class RowTable(ABC):
    """The table in one database. Every call has a connection to itself; the one that was used last, if it can."""

    columns: ClassVar = "fanout integer NOT NULL, item integer NOT NULL, PRIMARY KEY (fanout, item)"
    after_columns: ClassVar = ""
    #: How the database says a parameter, and a random number from 0 to below 1.
    mark: ClassVar = "%s"
    chance: ClassVar = "rand()"

    def __init__(self, url: str):
        self._url = url
        self._connections = ExitStack()
        self._cursors: LifoQueue[Any] = LifoQueue()
        for _ in range(CONNECTIONS):
            self._cursors.put(self._connections.enter_context(closing(self.connect())).cursor())
        self._sql("CREATE TABLE peer_fanouts (id integer PRIMARY KEY, total integer NOT NULL, completed integer)")
        self._sql(f"CREATE TABLE peer_items ({self.columns}) {self.after_columns}")

    @abstractmethod
    def connect(self) -> Any:
        """Connect, each statement a transaction."""

    @abstractmethod
    def numbers(self, count: int) -> str:
        """Return a query for the numbers from 0 to below `count`."""

    @abstractmethod
    def ack(self, items: Sequence[int]) -> int:
        """Delete any items; returns how many were there, and completes the fanout with the last."""

    def add(self, count: int) -> None:
        """Make the items of the one fanout."""
        self._sql(f"INSERT INTO peer_fanouts (id, total) VALUES ({FANOUT}, {count})")
        self._sql(f"INSERT INTO peer_items (fanout, item) {self.numbers(count)}")

    def ack_one(self, item: int) -> int:
        """Delete one item."""
        return self._delete(f"item = {self.mark}", item)

    def ack_range(self, items: range) -> int:
        """Delete neighbours, which is what acks of whole groups are here."""
        return self._delete(f"item BETWEEN {self.mark} AND {self.mark}", items.start, items.stop - 1)

    def ack_some(self, share: float) -> None:
        """Delete about this share of the items, random ones."""
        self._sql(f"DELETE FROM peer_items WHERE {self.chance} < {share}")

    def pending(self) -> int:
        """Count what is left, as a status does."""
        with self._cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM peer_items WHERE fanout = {FANOUT}")
            count: int = cursor.fetchone()[0]
        return count

    def close(self) -> None:
        """Close the connections of all threads."""
        self._connections.close()

    def _delete(self, which: str, *values: object) -> int:
        with self._cursor() as cursor:
            cursor.execute(f"DELETE FROM peer_items WHERE fanout = {FANOUT} AND {which}", values)
            gone: int = cursor.rowcount
            cursor.execute(f"SELECT EXISTS (SELECT 1 FROM peer_items WHERE fanout = {FANOUT})")
            if not cursor.fetchone()[0]:
                cursor.execute(f"UPDATE peer_fanouts SET completed = 1 WHERE id = {FANOUT} AND completed IS NULL")
        return gone

    def _sql(self, statement: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(statement)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._cursors.get()
        try:
            yield cursor
        finally:
            self._cursors.put(cursor)


class PostgreSQLRows(RowTable):
    """In PostgreSQL; psycopg prepares the statements by itself."""

    chance = "random()"

    def connect(self) -> Any:
        """Connect, each statement a transaction."""
        return psycopg.connect(self._url, autocommit=True)

    def numbers(self, count: int) -> str:
        """Return a query for the items."""
        return f"SELECT {FANOUT}, number FROM generate_series(0, {count - 1}) AS number"

    def ack(self, items: Sequence[int]) -> int:
        """Delete by an array."""
        return self._delete("item = ANY(%s)", list(items))


class MariaDBRows(RowTable):
    """In MariaDB."""

    def connect(self) -> Any:
        """Connect, each statement a transaction."""
        connection = connect_mariadb(self._url)
        connection.autocommit(True)
        return connection

    def numbers(self, count: int) -> str:
        """Return a query for the items."""
        return f"SELECT {FANOUT}, seq FROM seq_0_to_{count - 1}"

    def ack(self, items: Sequence[int]) -> int:
        """Delete by a list, which is part of the statement's text."""
        return self._delete("item IN %s", list(items))


class SQLiteRows(RowTable):
    """In SQLite: the table is its own primary key. Threads take turns: SQLite's own wait for a writer is a sleep."""

    after_columns = "WITHOUT ROWID"
    mark = "?"
    chance = "(random() / 18446744073709551616.0 + 0.5)"

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

    def numbers(self, count: int) -> str:
        """Return a query for the items."""
        numbers = f"SELECT 0 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < {count - 1}"
        return f"WITH RECURSIVE numbers AS ({numbers}) SELECT {FANOUT}, number FROM numbers"

    def ack(self, items: Sequence[int]) -> int:
        """Delete by a JSON list."""
        return self._delete("item IN (SELECT value FROM json_each(?))", json.dumps(list(items)))

    def _delete(self, which: str, *values: object) -> int:
        with self._turn:
            return super()._delete(which, *values)


KINDS: dict[str, type[RowTable]] = {"SQLite": SQLiteRows, "PostgreSQL": PostgreSQLRows, "MariaDB": MariaDBRows}


@contextmanager
def row_table(database: str, url: str) -> Iterator[RowTable]:
    """An empty table in that database."""
    with closing(KINDS[database](url)) as table:
        yield table
