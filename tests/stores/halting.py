"""Transactions that stop at a chosen place until something else has happened: overlaps without luck."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from batchline.stores.migrations import SchemaVersion
from batchline.stores.rows import Rows
from batchline.stores.store import Store
from tests.stores.racing import PATIENCE_S

__all__ = ["Beforehand", "Interrupted", "in_flight"]

T = TypeVar("T")


class Beforehand(Store):
    """A store in which work is done by another."""

    def __init__(self, store: Store):
        self._store = store
        self.url, self.room = store.url, store.room

    def read(self, work: Callable[[Rows], T]) -> T:
        """As the other does."""
        return self._store.read(work)

    def schema(self) -> SchemaVersion:
        """The other's."""
        return self._store.schema()

    def migrate_alone(self) -> list[str]:
        """As the other does."""
        return self._store.migrate_alone()

    def close(self) -> None:
        """The other stays open."""


class Halting(Beforehand):
    """Its first transaction stands still before it is committed, until it may go on."""

    def __init__(self, store: Store):
        super().__init__(store)
        self.inside, self.go_on = threading.Event(), threading.Event()

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work, and wait."""

        def halted(rows: Rows) -> T:
            answer = work(rows)
            self.inside.set()
            assert self.go_on.wait(PATIENCE_S)
            return answer

        return self._store.transact(halted)


@contextmanager
def in_flight(store: Store, call: Callable[[Store], T]) -> Iterator["Future[T]"]:
    """Make a call on a store, and keep its transaction open until the end of the block."""
    halting = Halting(store)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(call, halting)
        try:
            assert halting.inside.wait(PATIENCE_S)
            yield running
        finally:
            halting.go_on.set()
        running.result(PATIENCE_S)


class Interrupted(Beforehand):
    """In its first transaction something else happens before rows are asked for something by name."""

    def __init__(self, store: Store, at: str, then: Callable[[], object]):
        super().__init__(store)
        self._at = at
        self._then: Callable[[], object] | None = then

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work on rows that are watched."""
        return self._store.transact(lambda rows: work(cast("Rows", _Watched(rows, self._at, self._happen))))

    def _happen(self) -> None:
        if self._then is not None:
            then, self._then = self._then, None
            then()

    @property
    def has_happened(self) -> bool:
        """Whether it came to that."""
        return self._then is None


class _Watched:
    """Rows, and what happens before one of their methods is called."""

    def __init__(self, rows: Rows, at: str, happen: Callable[[], None]):
        self._rows, self._at, self._happen = rows, at, happen

    def __getattr__(self, name: str) -> Any:
        if name == self._at:
            self._happen()
        return getattr(self._rows, name)
