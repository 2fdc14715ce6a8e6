"""A store in a SQLite file: WAL, one writer at a time who never finds the database locked, readers beside it."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from batchline.core.ack import Asked
from batchline.errors import ForkedStore, InvalidStore, StoreError, check_choice
from batchline.stores.address import Address
from batchline.stores.connections import Busy, Connections
from batchline.stores.forks import FORKS, check_not_forked, leak
from batchline.stores.migrations import SchemaVersion, missing_migrations, schema_version, statements_of
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
#: How long SQLite itself waits for another process, in each attempt; and how long all attempts take together.
BUSY_S: Final = 10.0
PATIENCE_S: Final = 120.0
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
        self._writer = SqliteConnections(SqliteDriver(path, synchronous, "BEGIN IMMEDIATE"), 1, PATIENCE_S)
        self._readers = SqliteConnections(SqliteDriver(path, synchronous, "BEGIN"), READERS, PATIENCE_S)

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

    def schema(self) -> SchemaVersion:
        """Return the version of the schema. Looking makes no file."""
        return self._readers.transact(_schema) if self._path.exists() else SchemaVersion(0, 0)

    def hurry(self) -> None:
        """Repeat no call for longer than 5 s from now on: another process may hold the file's lock."""
        self._readers.hurry()
        self._writer.hurry()

    def close(self) -> None:
        """Close the file."""
        self._readers.close()
        self._writer.close()


class SqliteConnections(Connections):
    """A pool that is empty whenever the process forks: a child may use neither its connections nor their locks."""

    def __init__(self, driver: "SqliteDriver", most: int, patience_s: float):
        super().__init__(driver, most, patience_s)
        FORKS.add(self)

    def _once(self, work: Callable[[Any], T]) -> T:
        with FORKS:
            return super()._once(work)

    def _leave_to_parent(self) -> None:
        FORKS.notice_fork()  # before the connections are out of sight
        super()._leave_to_parent()

    def close(self) -> None:
        """Close every connection."""
        with suppress(ForkedStore), FORKS:
            super().close()

    def close_idle(self) -> None:
        """Close the connections that no call uses."""
        self._close_free()

    def leak_idle(self) -> bool:
        """Keep them open for ever. Return whether there were any."""
        leak(self._free)
        return bool(self._free)


class SqliteDriver:
    """How connections to a file are opened, and a transaction is run on one."""

    def __init__(self, path: Path, synchronous: str, begin: str):
        self._path = path
        self._synchronous = synchronous
        self._begin = begin

    def connect(self) -> sqlite3.Connection:
        """Open the file, and set what a connection has to be told."""
        with translated(self._path):
            _create_private(self._path)
            # Opened only: a file that SQLite creates may be read by everyone, or as the umask says.
            there = f"{self._path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(there, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
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
            pid = os.getpid()
            connection.execute(self._begin)
            try:
                answer = work(connection)
                check_not_forked(pid)
                connection.execute("COMMIT")
            except BaseException:
                # A child that was forked within the work must not end the transaction of its parent.
                if os.getpid() == pid and connection.in_transaction:
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


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner may read and write. Leave an existing one as it is.

    SQLite gives the files beside it (`-wal`, `-shm`) the same mode.
    """
    # Where a link leads to: a link itself would count as existing. What cannot be created, SQLite cannot open.
    with suppress(OSError, RuntimeError):  # RuntimeError: links in a circle
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


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


def _schema(connection: sqlite3.Connection) -> SchemaVersion:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'batchline_migrations'").fetchone()
    return schema_version(connection.execute("SELECT * FROM batchline_migrations") if there else ())


def _migrate(connection: sqlite3.Connection) -> list[str]:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batchline_migrations "
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, works_from INTEGER) STRICT"
    )
    columns = connection.execute("SELECT name FROM pragma_table_info('batchline_migrations')").fetchall()
    if ("works_from",) not in columns:
        connection.execute("ALTER TABLE batchline_migrations ADD COLUMN works_from INTEGER")
    missing = missing_migrations(SqliteStore.room, _schema(connection))
    for migration in missing:
        for statement in statements_of(migration):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO batchline_migrations (number, name, works_from) VALUES (?, ?, ?)",
            (migration.number, migration.name, migration.works_from),
        )
    return [migration.name for migration in missing]
