"""What a store is: transactions on rows, a schema that can be brought up to date, and an end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from batchline.core.ack import Asked
from batchline.errors import SchemaMismatch
from batchline.stores.migrations import SchemaVersion, missing_migrations
from batchline.stores.rows import Rows
from batchline.stores.settling import Call
from batchline.stores.tracking import Finished, finish_items

__all__ = ["Store"]

T = TypeVar("T")


class Store(ABC):
    """State that outlives a process, or, for `memory://`, does not."""

    #: The address it was opened with, without a password.
    url: str
    #: The address as it was given, with the password: to be handed to other processes, never to be shown.
    address: str = ""
    #: Where its SQL is, below `stores/`.
    room: str
    #: The clock of all that works on it in this process: see `runtime/broker_clock.py`.
    broker_clock: object

    @abstractmethod
    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work in one transaction: all of it, or, if it raises, nothing.

        The work is done again when the database gave another transaction the right of way, or when the connection was
        lost and it is unknown whether it was done: so it must be one that can be repeated.
        """

    @abstractmethod
    def read(self, work: Callable[[Rows], T]) -> T:
        """Do the work without changing anything, and without waiting for who does."""

    def snapshot(self, work: Callable[[Rows], T]) -> T:
        """Do the work as `read` does, with all its queries on the state of one moment.

        Queries of a `read` on a server may see different states: what moves in between is in none of them, or in two.
        """
        return self.read(work)

    @abstractmethod
    def schema(self) -> SchemaVersion:
        """Return which migrations its schema has seen, and which programs it works with."""

    def version(self) -> int:
        """Return the number of the newest migration that its schema has seen; 0 for none."""
        return self.schema().newest

    def migrate(self) -> list[str]:
        """Bring the schema up to date, and tell which migrations that took; any number of processes may at once."""
        # Nearly always there is nothing to do: then nobody waits, and no right to change the schema is needed.
        if not missing_migrations(self.room, self.schema()):
            return []
        return self.migrate_alone()

    @abstractmethod
    def migrate_alone(self) -> list[str]:
        """Run what is missing while no other process does, and tell what that was."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is open."""

    def lost_connections(self) -> int:
        """Return how many connections were lost while a call used them; 0 for a store without a server."""
        return 0

    def hurry(self) -> None:  # noqa: B027 - there is nothing to do where no other process is waited for
        """Repeat no call for longer than 5 s from now on: the process is about to end."""

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless this program works with the schema: its own, or a newer compatible one."""
        missing = missing_migrations(self.room, self.schema())
        if missing:
            raise SchemaMismatch(
                f"the schema of {self.url} lacks {', '.join(migration.name for migration in missing)}: "
                "run batchline migrate --store"
            )

    def ack_group(self, asked: Asked, call: Call) -> Finished:
        """Acknowledge items of one group: what every single ack is, so a store may know a shorter way."""
        return self.transact(lambda rows: finish_items(rows, [asked], None, call))

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
