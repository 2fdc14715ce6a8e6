"""Our own look at a database server: connections beside the store's, and who waits for whom."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from tests.servers.database import connect_mariadb
from tests.waiting import wait_until

__all__ = ["Beside", "beside"]

#: InnoDB shows the waits as they were at the last look of any connection, unless that is 0.1 s ago.
INNODB_S: Final = 0.12
#: Two tests that look at one server in turns must not keep each other from seeing anything new.
JITTER_S: Final = 0.3

WAITING: Final = {
    "postgresql": (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ),
    "mysql": (
        "SELECT count(*) FROM information_schema.innodb_trx AS t "
        "JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id "
        "WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'"
    ),
}
CONNECTED: Final = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND application_name = 'batchline'"
    ),
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}
KILL: Final = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


class Beside:
    """A connection beside the store's. Without `begin`, each statement is a transaction."""

    def __init__(self, url: str, connection: Any) -> None:
        self._connection = connection
        self._kind = url.partition(":")[0]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; the rows it selects, if it does."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def waiting(self) -> int:
        """How many transactions in this database wait for a lock."""
        return int(self.run(WAITING[self._kind])[0][0])

    def wait_for_waiting(self, number: int) -> None:
        """Continue when this number of transactions in this database wait for a lock."""
        if self._kind != "mysql":
            wait_until(lambda: self.waiting() == number)
            return
        pause = threading.Event()

        def is_so() -> bool:
            pause.wait(random.uniform(0, JITTER_S))
            return self.waiting() == number

        wait_until(is_so, INNODB_S)

    def connected(self) -> list[int]:
        """The numbers of the store's connections; in MariaDB, of all others in this database."""
        return [number for (number,) in self.run(CONNECTED[self._kind])]

    def kill(self, number: int) -> None:
        """End a connection, as an administrator does."""
        self.run(KILL[self._kind].format(number))

    @contextmanager
    def holding(self, table: str, condition: str = "true") -> Iterator[None]:
        """Hold rows locked."""
        self.run("BEGIN")
        try:
            self.run(f"SELECT * FROM {table} WHERE {condition} FOR UPDATE")
            yield
        finally:
            self.run("ROLLBACK")


@contextmanager
def beside(url: str) -> Iterator[Beside]:
    """A connection of the test's own."""
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            yield Beside(url, connection)
    else:
        with closing(connect_mariadb(url)) as other:
            other.autocommit(True)
            yield Beside(url, other)
