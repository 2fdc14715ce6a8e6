"""A store in PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, TypeVar

from batchline.errors import InvalidStore, MissingExtra, StoreError
from batchline.stores.address import Address
from batchline.stores.connections import Busy, Lost
from batchline.stores.migrations import missing_migrations
from batchline.stores.queries import pyformat_style, read_queries
from batchline.stores.server_store import ServerStore
from batchline.stores.sql_session import SqlSession, as_json

try:
    import psycopg
    from psycopg.conninfo import make_conninfo
    from psycopg.types.numeric import Int8Dumper
except ModuleNotFoundError as error:
    raise MissingExtra("postgresql:// needs psycopg: pip install 'batchline[postgres]'") from error

__all__ = ["PostgresStore"]

T = TypeVar("T")
#: Any number that no other program takes for its advisory locks: "batchlin" in ASCII.
MIGRATING: Final = int.from_bytes(b"batchlin", "big")
#: SQLSTATE: serialization failure, deadlock, lock not available.
BUSY_STATES: Final = ("40001", "40P01", "55P03")
#: SQLSTATE: the server is shutting down, has crashed, is starting; the session, or a transaction in it, was idle for
#: too long, or took too long; connection exceptions are class 08.
LOST_STATES: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


class PostgresStore(ServerStore):
    """`postgresql://user:password@host:port/name`, with any option of libpq; and `connections`, `patience`."""

    room = "postgres"

    def __init__(self, address: Address):
        super().__init__(address, PostgresDriver(address))

    def session(self, connection: Any) -> SqlSession:
        """A session on a connection."""
        return PostgresSession(connection, read_queries(self.room, postgres_style))

    def sending(self, connection: Any) -> AbstractContextManager[Any]:
        """Within it, only who asks for an answer waits for the server."""
        pipeline: AbstractContextManager[Any] = connection.pipeline()
        return pipeline

    def version(self) -> int:
        """The number of the newest migration that its schema has seen."""
        return self.connections.transact(_version)

    def migrate_alone(self) -> list[str]:
        """Bring the schema up to date, in one transaction, while no other process does."""
        return self.connections.transact(_migrate)


def postgres_style(sql: str) -> str:
    """As psycopg takes it; bytes are sent as they are, and not as a text that has to be made and read."""
    return pyformat_style(sql).replace(")s::bytea[]", ")b::bytea[]")


class PostgresDriver:
    """How connections are opened, and work is done on one."""

    def __init__(self, address: Address):
        own = ("connections", "patience")
        values: dict[str, Any] = {
            "connect_timeout": "10",
            "application_name": "batchline",
            "host": address.host,
            "port": address.port,
            "user": address.user,
            "password": address.password,
            "dbname": address.path or None,
        }
        # As libpq does: `?host=/run/postgresql` goes before what stands in the address itself.
        values |= {name: value for name, value in address.options.items() if name not in own}
        try:
            self._info = make_conninfo(**values)
        except psycopg.ProgrammingError as error:
            raise InvalidStore(f"{address.shown}: {str(error).strip()}") from error
        self._where = address.shown

    def connect(self) -> "psycopg.Connection[Any]":
        """A new connection, without a transaction of its own."""
        with self._translated():
            connection = psycopg.connect(self._info, autocommit=True)
            # One type for every number: otherwise each mixture of small and large ones is a statement of its own.
            connection.adapters.register_dumper(int, Int8Dumper)
            return connection

    def close(self, connection: "psycopg.Connection[Any]") -> None:
        """End a connection."""
        with suppress(psycopg.Error):
            connection.close()

    def run(self, connection: "psycopg.Connection[Any]", work: Callable[[Any], T]) -> T:
        """Do the work; a transaction it has begun and not ended is rolled back."""
        with self._translated():
            try:
                return work(connection)
            except BaseException:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not connection.closed:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = f"{self._where}: {str(error).strip() or type(error).__name__}"
            state = error.sqlstate or ""
            if state in BUSY_STATES:
                raise Busy(said) from error
            if state in LOST_STATES or state.startswith("08") or (not state and _is_connection_error(error)):
                raise Lost(said) from error
            raise StoreError(said) from error


def _is_connection_error(error: "psycopg.Error") -> bool:
    """Whether the error is of the connection and not of a query: the server has not said anything."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


class PostgresSession(SqlSession):
    """Lists of numbers become arrays, written by us: psycopg would do it number by number. Lists of rows are JSON,
    or, where there may be thousands, an array per column.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", queries: dict[str, str]):
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
        return list(self._cursor.fetchall())

    def run(self, query: str, **parameters: Any) -> int:
        """Change rows, and tell how many."""
        # At its end the answers to all that was sent are there.
        with self._connection.pipeline():
            self.tell(query, **parameters)
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


def _version(connection: "psycopg.Connection[Any]") -> int:
    there = connection.execute("SELECT to_regclass('batchline_migrations')").fetchone()
    if there is None or there[0] is None:
        return 0
    newest = connection.execute("SELECT max(number) FROM batchline_migrations").fetchone()
    return newest[0] or 0 if newest else 0


def _migrate(connection: "psycopg.Connection[Any]") -> list[str]:
    connection.execute("BEGIN")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batchline_migrations (number integer PRIMARY KEY, name text NOT NULL)"
    )
    missing = missing_migrations(PostgresStore.room, _version(connection))
    for migration in missing:
        connection.execute(migration.sql)
        connection.execute("INSERT INTO batchline_migrations VALUES (%s, %s)", (migration.number, migration.name))
    connection.execute("COMMIT")
    return [migration.name for migration in missing]
