"""Forks: a child inherits SQLite, and every lock, as they are at that moment, so a fork waits until both are at rest.

    call ──► inside ──► done        a fork waits until no call is inside, and holds new ones back meanwhile;
    fork ──► rest ──► close ──► child, parent        then it closes every SQLite connection: both open their own

SQLite allows no less. Its mutexes are the process's: one that another thread holds is never free in the child. It keeps
its file locks in tables of the process: the child would believe to hold the parent's locks, which the system did not
hand down, and the parent's last close would delete the write-ahead log under it.
"""

import os
import threading
from typing import Any, Final, Protocol
from weakref import WeakSet

from batchline.errors import ForkedStore

__all__ = ["FORKS", "ForkGate", "check_not_forked", "fork_safe_lock", "leak"]

#: How long a fork waits for the calls that are inside a store.
FORK_WAIT_S: Final = 10.0


class IdlePool(Protocol):
    """A pool of connections that can be closed while no call uses them."""

    def close_idle(self) -> None:
        """Close the connections that no call uses."""

    def leak_idle(self) -> bool:
        """Keep them open for ever. Return whether there were any."""


class OfThread(threading.local):
    """What the gate knows of each thread: its calls inside, and whether the fork it makes found everything at rest."""

    depth = 0
    rests = False


class ForkGate:
    """Lets many calls inside, or one fork. A context manager for calls; a thread that is inside may enter again."""

    def __init__(self, wait_s: float = FORK_WAIT_S) -> None:
        self._wait_s = wait_s
        self._pools: WeakSet[Any] = WeakSet()
        self._mine = OfThread()
        self._is_refusing = False
        self._begin(0)

    def _begin(self, inside: int) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._inside, self._forks = inside, 0

    def add(self, pool: IdlePool) -> None:
        """Close the idle connections of a pool before each fork, for as long as the pool lives."""
        with self._lock:
            self._pools.add(pool)

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            self.notice_fork()
        if self._is_refusing:
            raise _forked_within()
        mine = self._mine
        if not mine.depth:
            with self._lock:
                while self._forks:
                    self._changed.wait()
                self._inside += 1
        mine.depth += 1

    def __exit__(self, *_: object) -> None:
        mine = self._mine
        mine.depth -= 1
        if not mine.depth:
            with self._lock:
                self._inside -= 1
                if self._forks:
                    self._changed.notify_all()

    def notice_fork(self) -> None:
        """Begin a child whose fork went past Python."""
        if self._pid != os.getpid():
            self.begin_child()

    # --- around a fork, in the thread that forks ---

    def prepare(self) -> None:
        """Wait until no call is inside, hold new ones back, and close what is open."""
        with self._lock:
            self._forks += 1
            # A fork within a call would wait for itself.
            self._mine.rests = not self._mine.depth and self._changed.wait_for(lambda: not self._inside, self._wait_s)
            for pool in tuple(self._pools) if self._mine.rests else ():
                pool.close_idle()

    def end_fork(self) -> None:
        """Let calls in again."""
        self._mine.rests = False
        with self._lock:
            self._forks -= 1
            self._changed.notify_all()

    def begin_child(self) -> None:
        """Begin without the parent's calls. If they were not at rest, refuse every call from now on."""
        rests, self._mine.rests = self._mine.rests, False
        inside = self._inside
        self._begin(min(1, self._mine.depth))
        if not rests:
            # A fork without `prepare` does no harm if nothing was open.
            inherited = [pool.leak_idle() for pool in tuple(self._pools)]
            self._is_refusing |= inside > 0 or any(inherited)


def check_not_forked(pid: int) -> None:
    """Raise ForkedStore in a child that was forked since this was the process."""
    if os.getpid() != pid:
        raise _forked_within()


def _forked_within() -> ForkedStore:
    return ForkedStore(
        f"process {os.getpid()} was forked while a call of its parent was inside a store, expected a fork "
        "between calls: end them first, or start the process anew (multiprocessing: spawn or forkserver)"
    )


def leak(thing: Any) -> None:
    """Keep an object for ever: closing an inherited connection when the child ends could wait for a lost mutex."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


#: The gate of this process's stores.
FORKS: Final = ForkGate()
LOCKS: Final[WeakSet[Any]] = WeakSet()


def fork_safe_lock() -> threading.Lock:
    """Return a lock that is free in a forked child, even if another thread of the parent holds it."""
    lock = threading.Lock()
    LOCKS.add(lock)
    return lock


def _begin_child() -> None:
    for lock in LOCKS:
        lock._at_fork_reinit()  # noqa: SLF001 - as the standard library does; there is no public way
    FORKS.begin_child()


os.register_at_fork(before=FORKS.prepare, after_in_parent=FORKS.end_fork, after_in_child=_begin_child)
