"""What stores in servers share: a pool of connections, transactions, and a single ack in one round trip."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeVar

from batchline.core.ack import Asked
from batchline.stores.address import Address
from batchline.stores.connections import Driver, pool
from batchline.stores.deadlines import Deadlines
from batchline.stores.forks import check_not_forked
from batchline.stores.rows import Rows
from batchline.stores.settling import Call
from batchline.stores.sql_rows import SqlRows
from batchline.stores.sql_session import SqlSession
from batchline.stores.sql_tracker import ack_parameters, acked
from batchline.stores.store import Store
from batchline.stores.tracking import Finished

__all__ = ["ServerStore", "unhurried"]

T = TypeVar("T")


class ServerStore(Store):
    """A store that any number of machines may use."""

    #: Statements that begin a transaction whose queries all see the state of one moment.
    begin_snapshot: ClassVar[Sequence[str]]

    def __init__(
        self,
        address: Address,
        driver: Driver,
        deadlines: Deadlines,
        is_fresh: Callable[[Any], bool] = lambda _: True,
    ):
        self.url = address.shown
        self.connections = pool(address, driver, deadlines, is_fresh)

    @abstractmethod
    def session(self, connection: Any) -> SqlSession:
        """A session on a connection, with the queries of this database."""

    def sending(self, connection: Any) -> AbstractContextManager[Any]:  # noqa: ARG002 - some databases do
        """Within it, statements need not be answered before the next is sent, if the database can do that."""
        return nullcontext()

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work between BEGIN and COMMIT, at READ COMMITTED."""
        return self._transact(("BEGIN",), work)

    def snapshot(self, work: Callable[[Rows], T]) -> T:
        """Do the work in a transaction that changes nothing, all its queries on the state of one moment."""
        return self._transact(self.begin_snapshot, work)

    def _transact(self, begin: Sequence[str], work: Callable[[Rows], T]) -> T:
        def within(connection: Any) -> T:
            pid = os.getpid()
            with self.sending(connection):
                for statement in begin:
                    connection.cursor().execute(statement)
                answer = work(SqlRows(self.session(connection)))
                check_not_forked(pid)
                connection.cursor().execute("COMMIT")
            return answer

        return self.connections.transact(within)

    def read(self, work: Callable[[Rows], T]) -> T:
        """Do the work, each query on what is there at its moment."""
        return self.connections.transact(lambda connection: work(SqlRows(self.session(connection))))

    def ack_group(self, asked: Asked, call: Call) -> Finished:
        """Acknowledge items of one group in one round trip, if all of them were pending and there is no parent."""
        values = ack_parameters(asked, call)
        found = self.connections.transact(lambda connection: self.session(connection).call("ack_group", **values))
        if found is None or found[0] is None:
            return super().ack_group(asked, call)
        _, ended, told_to = found
        return acked(asked, ended, told_to, call.id)

    def lost_connections(self) -> int:
        """Return how many connections were lost while a call used them."""
        return self.connections.lost

    def hurry(self) -> None:
        """Repeat no call for longer than 5 s from now on."""
        self.connections.hurry()

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()


def unhurried(work: Callable[[Any], T]) -> Callable[[Any], T]:
    """The same work without deadlines: a migration takes as long as it takes."""

    def within(connection: Any) -> T:
        with connection.unhurried():
            return work(connection)

    return within
