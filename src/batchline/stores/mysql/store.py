"""A store in MariaDB (from 10.6 on) or MySQL (from 8.0.16 on)."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from batchline.errors import InvalidStore, MissingExtra, StoreError
from batchline.stores.address import Address
from batchline.stores.connections import Busy, Lost
from batchline.stores.deadlines import OWN_OPTIONS, TOO_SLOW, Deadlines, read_deadlines
from batchline.stores.migrations import SchemaVersion, missing_migrations, schema_version, statements_of
from batchline.stores.queries import pyformat_style, read_queries
from batchline.stores.server_store import ServerStore, unhurried
from batchline.stores.sql_session import SqlSession

try:
    import pymysql
    from pymysql.constants import CR, ER

    from batchline.stores.mysql.connection import TLS_OPTIONS, MysqlConnection, tls_arguments
except ModuleNotFoundError as error:
    raise MissingExtra("mysql:// needs PyMySQL: pip install 'batchline[mysql]'") from error

__all__ = ["MysqlStore"]

T = TypeVar("T")
BUSY_CODES: Final = (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT)
#: The server has ended a statement: of MariaDB, of MySQL.
TOO_SLOW_CODES: Final = (ER.STATEMENT_TIMEOUT, ER.QUERY_TIMEOUT)
LOST_CODES: Final = (
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_CONNECTION_ERROR,
    ER.SERVER_SHUTDOWN,
    ER.CON_COUNT_ERROR,
    1927,  # MariaDB: the connection was killed
    4031,  # MySQL: the connection was idle for too long
)
#: How long a process waits for another that migrates.
MIGRATING_S: Final = 300


class MysqlStore(ServerStore):
    """`mysql://user:password@host:port/name`, with `connections`, `patience`, `timeout` and those of TLS."""

    room = "mysql"
    begin_snapshot = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",  # of the next transaction only
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )

    def __init__(self, address: Address):
        address.check_options((*OWN_OPTIONS, *TLS_OPTIONS))
        deadlines = read_deadlines(address)
        super().__init__(address, MysqlDriver(address, deadlines), deadlines, lambda connection: connection.is_fresh)

    def session(self, connection: Any) -> SqlSession:
        """A session on a connection."""
        return MysqlSession(connection.cursor(), read_queries(self.room, pyformat_style))

    def schema(self) -> SchemaVersion:
        """Return which migrations its schema has seen."""
        return self.connections.transact(_schema)

    def migrate_alone(self) -> list[str]:
        """Bring the schema up to date while no other process does."""
        return self.connections.transact(unhurried(_migrate))


class MysqlDriver:
    """How connections are opened, and work is done on one."""

    def __init__(self, address: Address, deadlines: Deadlines):
        if not address.path:
            raise InvalidStore(f"expected mysql://user:password@host/name, got {address.shown} without a name")
        self._where = address.shown
        self._deadlines = deadlines
        self._where_to = (address.host or "127.0.0.1", address.port or 3306)
        self._place: dict[str, Any] = {
            "host": self._where_to[0],
            "port": self._where_to[1],
            "user": address.user,
            "password": address.password or "",
            "database": address.path,
            **tls_arguments(address),
        }

    def connect(self) -> MysqlConnection:
        """A new connection, without a transaction of its own."""
        with self._translated():
            connection = MysqlConnection(
                **self._place,
                autocommit=True,
                charset="utf8mb4",
                read_timeout=self._deadlines.timeout_s,
                write_timeout=self._deadlines.timeout_s,
                init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                defer_connect=True,
            )
            try:
                connection.open_within(self._deadlines, self._where_to)
            except BaseException:
                self.close(connection)
                raise
            return connection

    def close(self, connection: Any) -> None:
        """End a connection."""
        with suppress(pymysql.Error, OSError):
            connection.close()

    def run(self, connection: MysqlConnection, work: Callable[[Any], T]) -> T:
        """Do the work; a transaction it has begun and not ended is rolled back."""
        pid = os.getpid()
        with self._translated(), connection.attempt():
            try:
                return work(connection)
            except BaseException as error:
                # A child that was forked within the work must not end the transaction of its parent.
                if os.getpid() == pid and connection.open and not isinstance(error, pymysql.InterfaceError):
                    with suppress(pymysql.Error, OSError):
                        connection.rollback()
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError) as error:
            code = error.args[0] if error.args else None
            said = f"{self._where}: {error.args[-1] if error.args else type(error).__name__}"
            if code in TOO_SLOW_CODES:
                raise Busy(f"{said}; {TOO_SLOW}") from error
            if code in BUSY_CODES:
                raise Busy(said) from error
            if code in LOST_CODES or isinstance(error, pymysql.InterfaceError | OSError):
                raise Lost(said) from error
            raise StoreError(said) from error


class MysqlSession(SqlSession):
    """Names come back as texts, and the number of a new row from the driver."""

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows it selects."""
        return [tuple(map(_text, row)) for row in super().rows(query, **parameters)]

    def change_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> int:
        """Change rows by a table that is made of JSON: driver and server would take them one by one."""
        del names  # the query knows their order
        return self.run(query, rows=list(rows), **parameters)

    def call(self, query: str, **parameters: Any) -> tuple[Any, ...] | None:
        """The row that a procedure selects."""
        row = super().call(query, **parameters)
        while self._cursor.nextset():
            pass  # after its rows a procedure tells that it has ended
        return row

    def insert(self, query: str, **parameters: Any) -> int | None:
        """Insert a row, and tell its number; None if there is one already."""
        return self._cursor.lastrowid if self.run(query, **parameters) == 1 else None


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _schema(connection: Any) -> SchemaVersion:
    cursor = connection.cursor()
    cursor.execute(
        "SELECT 1 FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name = 'batchline_migrations'"
    )
    if not cursor.fetchone():
        return SchemaVersion(0, 0)
    cursor.execute("SELECT * FROM batchline_migrations")
    return schema_version(cursor.fetchall())


def _migrate(connection: Any) -> list[str]:
    cursor = connection.cursor()
    cursor.execute("SELECT GET_LOCK(CONCAT('batchline ', MD5(DATABASE())), %s)", (MIGRATING_S,))
    if cursor.fetchone() != (1,):
        raise Busy("another process has been migrating for long")
    try:
        return _migrate_alone(connection)
    finally:
        cursor.execute("SELECT RELEASE_LOCK(CONCAT('batchline ', MD5(DATABASE())))")


def _migrate_alone(connection: Any) -> list[str]:
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS batchline_migrations "
        "(number INTEGER PRIMARY KEY, name VARCHAR(100) NOT NULL, works_from INTEGER) ENGINE = InnoDB"
    )
    cursor.execute("SELECT * FROM batchline_migrations LIMIT 0")
    if "works_from" not in [column[0] for column in cursor.description]:
        cursor.execute("ALTER TABLE batchline_migrations ADD COLUMN works_from INTEGER")
    missing = missing_migrations(MysqlStore.room, _schema(connection))
    for migration in missing:
        for statement in statements_of(migration):
            cursor.execute(statement)
        cursor.execute(
            "INSERT INTO batchline_migrations (number, name, works_from) VALUES (%s, %s, %s)",
            (migration.number, migration.name, migration.works_from),
        )
    return [migration.name for migration in missing]
