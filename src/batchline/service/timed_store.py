"""A store whose calls are timed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from batchline.core.ack import Asked
from batchline.errors import StoreError
from batchline.runtime.clock import elapsed_seconds
from batchline.stores.migrations import SchemaVersion
from batchline.stores.rows import Rows
from batchline.stores.settling import Call
from batchline.stores.store import Store
from batchline.stores.tracking import Finished

__all__ = ["TimedStore"]

T = TypeVar("T")
#: Gets what was called, how long it took, and whether the store failed.
Told = Callable[[str, float, bool], object]


class TimedStore(Store):
    """Does what another store does, and tells how long it took."""

    def __init__(self, store: Store, tell: Told) -> None:
        self._store, self._tell = store, tell
        self.url, self.address, self.room = store.url, store.address, store.room

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work in one transaction."""
        with self._timed("transact"):
            return self._store.transact(work)

    def read(self, work: Callable[[Rows], T]) -> T:
        """Do the work without changing anything."""
        with self._timed("read"):
            return self._store.read(work)

    def snapshot(self, work: Callable[[Rows], T]) -> T:
        """Do the work without changing anything, on the state of one moment."""
        with self._timed("read"):
            return self._store.snapshot(work)

    def ack_group(self, asked: Asked, call: Call) -> Finished:
        """Acknowledge items of one group, by the store's own way."""
        with self._timed("ack"):
            return self._store.ack_group(asked, call)

    def schema(self) -> SchemaVersion:
        """Which migrations the schema has seen."""
        return self._store.schema()

    def migrate_alone(self) -> list[str]:
        """Run what is missing."""
        return self._store.migrate_alone()

    def lost_connections(self) -> int:
        """Return how many connections were lost while a call used them."""
        return self._store.lost_connections()

    def close(self) -> None:
        """Let go of whatever is open."""
        self._store.close()

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        began, failed = elapsed_seconds(), False
        try:
            yield
        except StoreError:
            failed = True
            raise
        finally:
            self._tell(call, elapsed_seconds() - began, failed)
