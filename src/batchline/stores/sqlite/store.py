"""A store in a SQLite file: WAL, one writer at a time who never finds the database locked, readers beside it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from batchline.core.ack import Asked
from batchline.errors import InvalidStore, StoreError, check_choice
from batchline.stores.address import Address
from batchline.stores.connections import Busy, Connections
from batchline.stores.migrations import missing_migrations, statements_of
from batchline.stores.queries import named_style, read_queries
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, settle
from batchline.stores.sql_rows import SqlRows
from batchline.stores.sql_session import SqlSession
from batchline.stores.sql_tracker import ack_parameters
from batchline.stores.store import Store
from batchline.stores.tracking import Finished

__all__ = ["SqliteStore"]

T = TypeVar("T")
SYNCHRONOUS: Final = ("normal", "full")
READERS: Final = 8
#: How long SQLite itself waits for another process, in each attempt; and how long we pause, in all, between attempts.
BUSY_S: Final = 10.0
PATIENCE_S: Final = 3.0
BUSY_CODES: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SqliteStore(Store):
    """`sqlite:///batchline.db` beside the program, `sqlite:////var/lib/batchline.db` anywhere."""

    room = "sqlite"

    def __init__(self, address: Address):
        address.check_options(("synchronous",))
        if address.host or not address.path or address.path == ":memory:":
            raise InvalidStore(f"expected sqlite:///file.db (memory:// for none), got {address.shown}")
        synchronous = address.option("synchronous", "normal", str.lower)
        check_choice("synchronous", synchronous, SYNCHRONOUS, InvalidStore)
        self.url = address.shown
        self._path = path = Path(address.path)
        # One connection writes, so the threads of a process queue up here, in turn, and not in SQLite, by chance.
        self._writer = Connections(SqliteDriver(path, synchronous, "BEGIN IMMEDIATE"), 1, PATIENCE_S)
        self._readers = Connections(SqliteDriver(path, synchronous, "BEGIN"), READERS, PATIENCE_S)

    @property
    def connections(self) -> Connections:
        """The connection that writes, as that of a server's store is: for tables that are not ours."""
        return self._writer

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work as the one writer."""
        return self._writer.transact(lambda connection: work(_rows(connection)))

    def read(self, work: Callable[[Rows], T]) -> T:
        """Do the work on what is there at this moment."""
        return self._readers.transact(lambda connection: work(_rows(connection)))

    def migrate_alone(self) -> list[str]:
        """Bring the schema up to date."""
        return self._writer.transact(_migrate)

    def ack_group(self, asked: Asked, call: Call) -> Finished:
        """Acknowledge items of one group in two statements, if all of them were pending and there is no parent."""
        finished = self._writer.transact(lambda connection: _ack_group(_session(connection), asked, call))
        return super().ack_group(asked, call) if finished is None else finished

    def version(self) -> int:
        """The version of the schema; looking makes no file."""
        return self._readers.transact(_version) if self._path.exists() else 0

    def close(self) -> None:
        """Close the file."""
        self._readers.close()
        self._writer.close()


class SqliteDriver:
    """How connections to a file are opened, and a transaction is run on one."""

    def __init__(self, path: Path, synchronous: str, begin: str):
        self._path = path
        self._synchronous = synchronous
        self._begin = begin

    def connect(self) -> sqlite3.Connection:
        """Open the file, and set what a connection has to be told."""
        with translated(self._path):
            connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            except BaseException:
                connection.close()
                raise
            return connection

    def close(self, connection: sqlite3.Connection) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            connection.close()

    def run(self, connection: sqlite3.Connection, work: Callable[[Any], T]) -> T:
        """Do the work in a transaction."""
        with translated(self._path):
            connection.execute(self._begin)
            try:
                answer = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return answer


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY_CODES:
            raise Busy(f"SQLite file {path}: {error}") from error
        raise StoreError(f"SQLite file {path}: {error}") from error


def _session(connection: sqlite3.Connection) -> SqlSession:
    return SqlSession(connection.cursor(), read_queries(SqliteStore.room, named_style))


def _rows(connection: sqlite3.Connection) -> SqlRows:
    return SqlRows(_session(connection))


def _ack_group(session: SqlSession, asked: Asked, call: Call) -> Finished | None:
    values = ack_parameters(asked, call)
    found = session.rows("ack_group", **values)
    if not found:
        return None
    ((bits, number),) = found
    rows = SqlRows(session)
    if not bits:
        rows.delete_groups([asked.slot])
    ((pending,),) = session.rows("ack_shard", number=number, **values)
    endings = [] if pending else settle(rows, {number: (1, 0)}, call)
    return Finished(values["count"], 0, endings)


def _version(connection: sqlite3.Connection) -> int:
    """The number of the last migration."""
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'batchline_migrations'").fetchone()
    newest = connection.execute("SELECT max(number) FROM batchline_migrations").fetchone() if there else (0,)
    return newest[0] or 0


def _migrate(connection: sqlite3.Connection) -> list[str]:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batchline_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"
    )
    missing = missing_migrations(SqliteStore.room, _version(connection))
    for migration in missing:
        for statement in statements_of(migration):
            connection.execute(statement)
        connection.execute("INSERT INTO batchline_migrations VALUES (?, ?)", (migration.number, migration.name))
    return [migration.name for migration in missing]
