"""A store in PostgreSQL."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, TypeVar

from batchline.errors import InvalidStore, MissingExtra, StoreError
from batchline.stores.address import Address
from batchline.stores.connections import Busy, Lost
from batchline.stores.deadlines import OWN_OPTIONS, TOO_SLOW, Deadlines, read_deadlines
from batchline.stores.migrations import SchemaVersion, missing_migrations, schema_version
from batchline.stores.queries import pyformat_style, read_queries
from batchline.stores.server_store import ServerStore, unhurried
from batchline.stores.sql_session import SqlSession, as_json

try:
    import psycopg
    from psycopg.conninfo import make_conninfo
    from psycopg.types.numeric import Int8Dumper

    from batchline.stores.postgres.connection import PostgresConnection
except ModuleNotFoundError as error:
    raise MissingExtra("postgresql:// needs psycopg: pip install 'batchline[postgres]'") from error

__all__ = ["PostgresStore"]

T = TypeVar("T")
#: Any number that no other program takes for its advisory locks: "batchlin" in ASCII.
MIGRATING: Final = int.from_bytes(b"batchlin", "big")
#: SQLSTATE: serialization failure, deadlock, lock not available.
BUSY_STATES: Final = ("40001", "40P01", "55P03")
#: SQLSTATE: the server has ended a statement, which took too long.
TOO_SLOW_STATE: Final = "57014"
#: An idle connection is looked at this often; and again, should the other side not answer.
ALIVE_EVERY_S, ALIVE_AGAIN_S = 10, 3
#: The longest that connecting takes.
CONNECT_S: Final = 10
#: What PgBouncer says of `options`.
REFUSED: Final = "unsupported startup parameter"
#: SQLSTATE: the server is shutting down, has crashed, is starting; the session, or a transaction in it, was idle for
#: too long, or took too long; connection exceptions are class 08.
LOST_STATES: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


class PostgresStore(ServerStore):
    """`postgresql://user:password@host:port/name`, any option of libpq, and `connections`, `patience`, `timeout`."""

    room = "postgres"
    begin_snapshot = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)

    def __init__(self, address: Address):
        deadlines = read_deadlines(address)
        super().__init__(address, PostgresDriver(address, deadlines), deadlines)

    def session(self, connection: Any) -> SqlSession:
        """A session on a connection."""
        return PostgresSession(connection, read_queries(self.room, postgres_style))

    def sending(self, connection: Any) -> AbstractContextManager[Any]:
        """Within it, only who asks for an answer waits for the server."""
        sending: AbstractContextManager[Any] = connection.sending()
        return sending

    def schema(self) -> SchemaVersion:
        """Return which migrations its schema has seen."""
        return self.connections.transact(_schema)

    def migrate_alone(self) -> list[str]:
        """Bring the schema up to date, in one transaction, while no other process does."""
        return self.connections.transact(unhurried(_migrate))


def postgres_style(sql: str) -> str:
    """As psycopg takes it; bytes are sent as they are, and not as a text that has to be made and read."""
    return pyformat_style(sql).replace(")s::bytea[]", ")b::bytea[]")


class PostgresDriver:
    """How connections are opened, and work is done on one."""

    def __init__(self, address: Address, deadlines: Deadlines):
        self._deadlines = deadlines
        values: dict[str, Any] = {
            # psycopg takes whole seconds, and at least 2.
            "connect_timeout": min(CONNECT_S, math.ceil(deadlines.timeout_s)),
            "application_name": "batchline",
            **_noticing(deadlines),
            "host": address.host,
            "port": address.port,
            "user": address.user,
            "password": address.password,
            "dbname": address.path or None,
        }
        # As libpq does: `?host=/run/postgresql` goes before what stands in the address itself.
        values |= {name: value for name, value in address.options.items() if name not in OWN_OPTIONS}
        # The server takes the last of two, so the user's own setting of one of these wins.
        values["options"] = " ".join(filter(None, (_settings(deadlines), address.options.get("options"))))
        try:
            self._info = make_conninfo(**values)
        except psycopg.ProgrammingError as error:
            raise InvalidStore(f"{address.shown}: {str(error).strip()}") from error
        self._where = address.shown

    def connect(self) -> PostgresConnection:
        """A new connection, without a transaction of its own."""
        with self._translated():
            connection = self._connected()
            connection.timeout_s = self._deadlines.timeout_s
            # One type for every number: otherwise each mixture of small and large ones is a statement of its own.
            connection.adapters.register_dumper(int, Int8Dumper)
            return connection

    def _connected(self) -> PostgresConnection:
        try:
            return PostgresConnection.connect(self._info, autocommit=True)
        except psycopg.OperationalError as error:
            if REFUSED not in str(error):
                raise
            raise StoreError(
                f"{self._where}: {str(error).strip()}; expected a server that takes deadlines when a session begins: "
                "have the pooler ignore them, and set them for the user (docs/reference/stores.md)"
            ) from error

    def close(self, connection: "psycopg.Connection[Any]") -> None:
        """End a connection."""
        with suppress(psycopg.Error):
            connection.close()

    def run(self, connection: PostgresConnection, work: Callable[[Any], T]) -> T:
        """Do the work; a transaction it has begun and not ended is rolled back."""
        connection.end_within(self._deadlines.attempt_s)
        pid = os.getpid()
        with self._translated():
            try:
                return work(connection)
            except BaseException:
                is_idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                # A child that was forked within the work must not end the transaction of its parent.
                if os.getpid() == pid and not is_idle and not connection.closed:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = f"{self._where}: {str(error).strip() or type(error).__name__}"
            state = error.sqlstate or ""
            if state == TOO_SLOW_STATE:
                raise Busy(f"{said}; {TOO_SLOW}") from error
            if state in BUSY_STATES:
                raise Busy(said) from error
            if state in LOST_STATES or state.startswith("08") or (not state and _is_connection_error(error)):
                raise Lost(said) from error
            raise StoreError(said) from error


def _noticing(deadlines: Deadlines) -> dict[str, Any]:
    """How this machine notices that the other is gone, as libpq takes it; keepalives are for an idle connection."""
    return {
        "keepalives": 1,
        "keepalives_idle": ALIVE_EVERY_S,
        "keepalives_interval": ALIVE_AGAIN_S,
        "keepalives_count": 3,
        "tcp_user_timeout": _ms(deadlines.timeout_s),
    }


def _settings(deadlines: Deadlines) -> str:
    """The settings of a session with which the server ends what a client holds up that is frozen or gone."""
    settings = {
        "lock_timeout": _ms(deadlines.lock_s),
        "statement_timeout": _ms(deadlines.statement_s),
        "idle_in_transaction_session_timeout": _ms(deadlines.timeout_s),
        "tcp_user_timeout": _ms(deadlines.timeout_s),
        "tcp_keepalives_idle": ALIVE_EVERY_S,
        "tcp_keepalives_interval": ALIVE_AGAIN_S,
        "tcp_keepalives_count": 3,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)


def _is_connection_error(error: "psycopg.Error") -> bool:
    """Whether the error is of the connection and not of a query: the server has not said anything."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


class PostgresSession(SqlSession):
    """Lists of numbers become arrays, written by us: psycopg would do it number by number. Lists of rows are JSON,
    or, where there may be thousands, an array per column.
    """

    def __init__(self, connection: PostgresConnection, queries: dict[str, str]):
        super().__init__(None, queries)
        self._connection = connection

    def parameter(self, value: Any) -> Any:
        """A parameter as psycopg takes it."""
        if not isinstance(value, list) or isinstance(value, Texts):
            return value
        if value and isinstance(value[0], int):
            return f"{{{','.join(map(str, value))}}}"
        return value if value and isinstance(value[0], str) else as_json(value)

    def _send(self, sql: str, parameters: dict[str, Any], binary: bool = False) -> None:
        # A cursor for each statement: several may be under way.
        self._cursor = self._connection.cursor()
        self._cursor.execute(sql, {name: self.parameter(value) for name, value in parameters.items()}, binary=binary)

    def raw_rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows it selects, with bytes as they are: sent as such, not as text."""
        self._send(self._text(query), parameters, binary=True)
        return self.fetched()

    def fetched(self) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        self._connection.receive()
        return list(self._cursor.fetchall())

    def run(self, query: str, **parameters: Any) -> int:
        """Change rows, and tell how many."""
        self._execute(query, parameters)
        self._connection.receive()
        changed: int = self._cursor.rowcount
        return changed

    def tell(self, query: str, **parameters: Any) -> None:
        """Change rows, whatever comes of it; should it fail, the transaction does."""
        self._execute(query, parameters)

    def keyed_rows(self, query: str, keys: Sequence[tuple[int, int]], **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of these bundles and numbers that it selects, in their order."""
        bundles, numbers = zip(*keys, strict=True)
        return self.raw_rows(query, bundle=list(bundles), number=list(numbers), **parameters)

    def insert_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> int:
        """Insert rows, and tell how many."""
        return self.run(query, **parameters, **_arrays(names, rows))

    def tell_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> None:
        """Insert rows, whatever comes of it; should it fail, the transaction does."""
        self.tell(query, **parameters, **_arrays(names, rows))


def _arrays(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows as an array per column."""
    return dict(zip(names, map(_array, zip(*rows, strict=True)), strict=True))


def _array(column: tuple[Any, ...]) -> Any:
    """Write a column of numbers as an array; of texts, psycopg makes one."""
    if isinstance(column[0], int):
        return f"{{{','.join(map(str, column))}}}".replace("None", "NULL")
    return Texts(column)


class Texts(list[Any]):
    """Texts or bytes, some of which may be NULL: an array as it is, and no list of rows."""


def _schema(connection: "psycopg.Connection[Any]") -> SchemaVersion:
    there = connection.execute("SELECT to_regclass('batchline_migrations')").fetchone()
    if there is None or there[0] is None:
        return SchemaVersion(0, 0)
    # Not prepared: a newer program may add a column.
    return schema_version(connection.execute("SELECT * FROM batchline_migrations", prepare=False))


def _migrate(connection: "psycopg.Connection[Any]") -> list[str]:
    # In a transaction of its own: otherwise processes that look at the table would wait for all of the migration.
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,), prepare=False)
        _prepare_table(connection)
    connection.execute("BEGIN")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
    missing = missing_migrations(PostgresStore.room, _schema(connection))
    for migration in missing:
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO batchline_migrations (number, name, works_from) VALUES (%s, %s, %s)",
            (migration.number, migration.name, migration.works_from),
        )
    connection.execute("COMMIT")
    return [migration.name for migration in missing]


def _prepare_table(connection: "psycopg.Connection[Any]") -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batchline_migrations "
        "(number integer PRIMARY KEY, name text NOT NULL, works_from integer)"
    )
    columns = connection.execute("SELECT * FROM batchline_migrations LIMIT 0", prepare=False).description
    if "works_from" not in [column.name for column in columns or ()]:
        connection.execute("ALTER TABLE batchline_migrations ADD COLUMN works_from integer")
