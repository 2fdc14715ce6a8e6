"""Connections: kept open for the next call, renewed when the server went away, tried again when it was busy."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from batchline.core.moment import span_of
from batchline.errors import BatchlineError, InvalidStore, StoreError, StoreUnavailable
from batchline.stores.address import Address

__all__ = ["Busy", "Connections", "Driver", "Lost", "pool"]

#: How long to wait before the next attempt, in seconds; the last is repeated until patience ends.
PAUSES_S: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
#: What a store takes unless its address says otherwise.
CONNECTIONS: Final = 10
PATIENCE: Final = timedelta(seconds=30)
#: Connections of a parent process: never used here, and never closed.
PARENTS: Final[list[Any]] = []
T = TypeVar("T")


class Lost(Exception):
    """The server went away, or is not there; what was in the air may or may not have happened."""


class Busy(Exception):
    """The database gave another transaction the right of way; nothing of ours has happened."""


class Driver(Protocol):
    """What a database's driver does for the pool; its errors come as Lost, Busy or BatchlineError."""

    def connect(self) -> Any:
        """A new connection."""

    def close(self, connection: Any) -> None:
        """End a connection, whatever state it is in."""

    def run(self, connection: Any, work: Callable[[Any], T]) -> T:
        """Do the work in a transaction: committed if it returns, rolled back if it raises."""


class Connections:
    """A pool: each call takes a connection for itself, and at most `most` are open at once."""

    def __init__(self, driver: Driver, most: int, patience_s: float):
        self._driver = driver
        self._most = most
        self._patience_s = patience_s
        self._closed = threading.Event()
        self._worked = False
        self._reset()

    def _reset(self) -> None:
        """Start without connections."""
        self._pid = os.getpid()
        self._free: list[Any] = []
        self._turns = threading.BoundedSemaphore(self._most)

    def _leave_to_parent(self) -> None:
        """After a fork, those that are open are the parent's: closing them here would end them there."""
        PARENTS.append(self._free)
        self._reset()

    def transact(self, work: Callable[[Any], T]) -> T:
        """Do the work in a transaction, again if it must be: so the work changes nothing but the database."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        waited_s = 0.0
        for attempt in count():
            try:
                with self._turns:
                    return self._once(work)
            except (Lost, Busy) as error:
                pause_s = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
                # An address that never answered is more likely wrong than its server is away.
                patient = self._worked or isinstance(error, Busy)
                if not patient or waited_s + pause_s > self._patience_s or self._closed.wait(pause_s):
                    raise StoreUnavailable(f"{error} (tried for {waited_s:.1f} s)") from error.__cause__
                waited_s += pause_s
        raise AssertionError  # it counts for ever

    def _once(self, work: Callable[[Any], T]) -> T:
        if self._closed.is_set():
            raise StoreError("the store was closed")
        connection = self._take()
        try:
            answer = self._driver.run(connection, work)
        except (BatchlineError, Busy):
            self._give_back(connection)  # rolled back, and as good as before
            raise
        except Lost:
            # The server was restarted: the others are as dead as this one.
            self._driver.close(connection)
            self._close_free()
            raise
        except BaseException:
            # Nobody knows where in its protocol it stands.
            self._driver.close(connection)
            raise
        self._give_back(connection)
        self._worked = True
        return answer

    def _take(self) -> Any:
        with suppress(IndexError):
            return self._free.pop()
        return self._driver.connect()

    def _give_back(self, connection: Any) -> None:
        self._free.append(connection)
        if self._closed.is_set():
            self._close_free()

    def _close_free(self) -> None:
        with suppress(IndexError):
            while True:
                self._driver.close(self._free.pop())

    def close(self) -> None:
        """Close every connection, those in use when their call is done; calls that wait give up."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        self._closed.set()
        self._close_free()


def pool(address: Address, driver: Driver) -> Connections:
    """The pool of a server's store, of the size and patience that its address asks for."""
    most = address.option("connections", CONNECTIONS, int)
    patience = address.option("patience", PATIENCE, span_of)
    if most < 1:
        raise InvalidStore(f"connections in the store's address must be at least 1, got {most}")
    return Connections(driver, most, patience.total_seconds())
