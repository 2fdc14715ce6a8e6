"""Connections: kept open for the next call, renewed when the server went away, tried again when it was busy."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from batchline.errors import BatchlineError, InvalidStore, StoreError, StoreUnavailable
from batchline.runtime.clock import elapsed_seconds
from batchline.stores.address import Address
from batchline.stores.deadlines import Deadlines

__all__ = ["Busy", "Connections", "Driver", "Lost", "pool"]

log: Final = logging.getLogger("batchline")

#: How long to wait before the next attempt, in seconds; the last is repeated until patience ends.
PAUSES_S: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
#: What a store takes unless its address says otherwise.
CONNECTIONS: Final = 10
#: How long a call is repeated while the process is ending.
HURRIED_S: Final = 5.0
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
    """A pool: each call takes a connection for itself, and at most `most` are open at once.

    A call ends within `patience_s`, counted over all it waits for: a free connection, connecting, attempts, pauses.
    Only an attempt that is under way then may go on; the driver limits it.
    """

    def __init__(self, driver: Driver, most: int, patience_s: float, is_fresh: Callable[[Any], bool] = lambda _: True):
        self._driver = driver
        self._most = most
        self._patience_s = patience_s
        #: Whether a connection may be used again: after a rest, the server may have ended it.
        self._is_fresh = is_fresh
        self._closed = threading.Event()
        self._worked = False
        #: How many connections were lost while a call used them.
        self.lost = 0
        self._lost_at_s: float | None = None
        self._hurried_until_s: float | None = None
        self._reset()

    def _reset(self) -> None:
        """Start without connections."""
        self._pid = os.getpid()
        self._free: list[Any] = []
        self._noting = threading.Lock()
        self._turns = threading.BoundedSemaphore(self._most)

    def _leave_to_parent(self) -> None:
        """After a fork, those that are open are the parent's: closing them here would end them there."""
        PARENTS.append(self._free)
        self._reset()
        # Another thread of the parent may have been in this event.
        was_closed, self._closed = self._closed.is_set(), threading.Event()
        if was_closed:
            self._closed.set()

    def transact(self, work: Callable[[Any], T]) -> T:
        """Do the work in a transaction, again if it must be: so the work changes nothing but the database."""
        began_s = elapsed_seconds()
        for attempt in count():
            try:
                with self._turn(began_s):
                    return self._once(work)
            except (Lost, Busy) as error:
                pause_s = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
                now_s = elapsed_seconds()
                # An address that never answered is more likely wrong than its server is away.
                patient = self._worked or isinstance(error, Busy)
                if not patient or now_s + pause_s > self._ends_s(began_s) or self._closed.wait(pause_s):
                    raise StoreUnavailable(f"{error} (tried for {now_s - began_s:.1f} s)") from error.__cause__
        raise AssertionError  # it counts for ever

    def _ends_s(self, began_s: float) -> float:
        """Return until when a call is repeated that began at this moment."""
        ends_s = began_s + self._patience_s
        if self._hurried_until_s is None:
            return ends_s
        return min(ends_s, began_s + HURRIED_S if self._lost_at_s is None else self._hurried_until_s)

    @contextmanager
    def _turn(self, began_s: float) -> Iterator[None]:
        """Wait for a free connection; raise StoreUnavailable if there is none before the call's patience ends."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        pid = self._pid
        left_s = max(self._ends_s(began_s) - elapsed_seconds(), 0.0)
        if not self._turns.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
            raise StoreUnavailable(
                f"all {self._most} connections to the store were in use for {self._patience_s:g} s, expected one to "
                "become free: call the store from fewer threads, or raise `connections` or `patience` in its address"
            )
        try:
            yield
        finally:
            if os.getpid() == pid:  # a child that was forked within has turns of its own
                self._turns.release()

    def _once(self, work: Callable[[Any], T]) -> T:
        if self._closed.is_set():
            raise StoreError("the store was closed")
        if self._hurried_until_s is not None and self._lost_at_s is not None:
            self._check_hurry(self._hurried_until_s)
        connection = self._take()
        pid = os.getpid()
        try:
            answer = self._driver.run(connection, work)
        except BaseException as error:
            if os.getpid() == pid:
                self._take_back(connection, error)
            else:  # forked within the work
                PARENTS.append(connection)
            raise
        self._give_back(connection)
        self._worked = True
        if self._lost_at_s is not None:
            self._note_found()
        return answer

    def _take_back(self, connection: Any, error: BaseException) -> None:
        """Keep a connection whose work has failed, or close it."""
        if isinstance(error, BatchlineError | Busy):
            self._give_back(connection)  # rolled back, and as good as before
            return
        # How far its protocol has come is unknown.
        self._driver.close(connection)
        if isinstance(error, Lost):
            self._note_lost(error)
            # The server was restarted: the others are as dead as this one.
            self._close_free()

    def _check_hurry(self, until_s: float) -> None:
        """Raise StoreUnavailable if the process is ending, and the store has had its time to come back."""
        if elapsed_seconds() > until_s:
            raise StoreUnavailable("the store does not answer, and the process is ending: it is not asked again")

    def _note_lost(self, error: Lost) -> None:
        """Count a lost connection, and log the first of an outage."""
        with self._noting:
            self.lost += 1
            if self._lost_at_s is None:
                self._lost_at_s = elapsed_seconds()
                said = " ".join(str(error).split())  # a line, whatever the driver says
                log.warning("connection to the store lost; calls are repeated for %g s: %s", self._patience_s, said)

    def _note_found(self) -> None:
        """Log that an outage is over."""
        with self._noting:
            if self._lost_at_s is not None:
                away_s, self._lost_at_s = elapsed_seconds() - self._lost_at_s, None
                log.info("the store answers again after %.1f s; connections lost so far: %d", away_s, self.lost)

    def _take(self) -> Any:
        with suppress(IndexError):
            connection = self._free.pop()
            if self._is_fresh(connection):
                return connection
            # The others were given back before this one.
            self._driver.close(connection)
            self._close_free()
        return self._driver.connect()

    def _give_back(self, connection: Any) -> None:
        self._free.append(connection)
        if self._closed.is_set():
            self._close_free()

    def _close_free(self) -> None:
        with suppress(IndexError):
            while True:
                self._driver.close(self._free.pop())

    def hurry(self) -> None:
        """Repeat no call for longer than 5 s from now on, and none later while the server does not answer."""
        if self._hurried_until_s is None:
            self._hurried_until_s = elapsed_seconds() + HURRIED_S

    def close(self) -> None:
        """Close every connection, those in use when their call is done; calls that wait give up."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        self._closed.set()
        self._close_free()


def pool(
    address: Address, driver: Driver, deadlines: Deadlines, is_fresh: Callable[[Any], bool] = lambda _: True
) -> Connections:
    """The pool of a server's store, of the size that its address asks for."""
    most = address.option("connections", CONNECTIONS, int)
    if most < 1:
        raise InvalidStore(f"connections in the store's address must be at least 1, got {most}")
    return Connections(driver, most, deadlines.patience_s, is_fresh)
