"""Stores that die, repeat themselves or cannot read a row: what a call must survive."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from batchline import Store
from batchline.core.fanout import Fanout
from batchline.stores.rows import Rows
from tests.stores.halting import Beforehand

__all__ = ["Breaking", "Dying", "Killed", "Repeating"]

T = TypeVar("T")


class Killed(BaseException):
    """The process is gone."""


class Dying(Beforehand):
    """Counts transactions; before the one after the last that it may do, it dies or something else happens."""

    def __init__(self, store: Store, after: int | None = None, then: Callable[[], None] | None = None):
        super().__init__(store)
        self.transactions, self._after, self._then = 0, after, then

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work, or die."""
        if self.transactions == self._after:
            if self._then is None:
                raise Killed
            self._then()
        self.transactions += 1
        return self._store.transact(work)


class Repeating(Beforehand):
    """Does every transaction twice, as if the answer to its commit had been lost."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work and do it again."""
        self._store.transact(work)
        return self._store.transact(work)


class Breaking(Beforehand):
    """Rows of certain fanouts cannot be read under their lock."""

    def __init__(self, store: Store, bad: list[str], error: Exception | None = None):
        super().__init__(store)
        self._bad, self._error = bad, error or RuntimeError("broken row")

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work on rows that include broken ones."""
        return self._store.transact(lambda rows: work(cast("Rows", BrokenRows(rows, self._bad, self._error))))


class BrokenRows:
    """Rows that include broken ones."""

    def __init__(self, rows: Rows, bad: list[str], error: Exception):
        self._rows, self._bad, self._error = rows, bad, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def hold_fanout(self, number: int) -> Fanout | None:
        found = self._rows.hold_fanout(number)
        if found is not None and found.id in self._bad:
            raise self._error
        return found
