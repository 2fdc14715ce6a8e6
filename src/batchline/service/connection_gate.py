"""The connections at one process: admitted or refused as they are accepted, watched, and dropped beyond a limit."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from batchline.core.connection_limits import ConnectionCounts, ConnectionLimits, overflowing
from batchline.runtime.byte_budget import ByteBudget
from batchline.runtime.clock import elapsed_seconds
from batchline.service.read_turns import ReadTurns

__all__ = ["REASONS", "ConnectionGate", "WatchedConnection"]

#: Why connections are refused or dropped, as metrics name it.
REASONS: Final = (
    "total",
    "per_address",
    "files",
    "handshake",
    "head_time",
    "head_size",
    "body_rate",
    "unread",
    "malformed",
    "pipelined",
)


class WatchedConnection(Protocol):
    """A connection that has been admitted."""

    def look(self, now_s: float) -> None:
        """End what takes too long."""

    def unread(self) -> tuple[float, int] | None:
        """Return since when its client has not read everything, and the bytes that are left; None if it has."""

    def drop(self, reason: str) -> None:
        """End it at once."""


class ConnectionGate:
    """Works in the loop's thread. An idle connection makes room for a new one when there are too many."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        count_refused: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self.count_refused, self.clock = count_refused, clock
        self.turns = ReadTurns()
        #: Bytes of large messages on sockets that are being read and worked on.
        self.frames = ByteBudget(self.limits.frame_bytes)
        self._counts = ConnectionCounts(self.limits, self.limits.connections)
        self._watched: set[WatchedConnection] = set()
        #: Those without a request, the longest idle first.
        self._idle: dict[WatchedConnection, None] = {}
        self._next_look_s = 0.0

    @property
    def open(self) -> int:
        """Connections that are open, those in their TLS handshake included."""
        return self._counts.total

    def limit_total(self, most: int) -> None:
        """Admit at most this number, where the process may open too few files for its limit."""
        self._counts.most = min(self.limits.connections, most)

    def admit(self, address: str) -> bool:
        """Count a connection in, if there is room for it."""
        refusal = self._counts.refusal(address)
        if refusal is not None and not (refusal == "total" and self.end_idle()):
            self.count_refused(refusal)
            return False
        self._counts.enter(address)
        return True

    def leave(self, address: str) -> None:
        """Count a connection out."""
        self._counts.leave(address)

    def end_idle(self) -> bool:
        """End the connection that has been idle for the longest time, if there is one."""
        one = next(iter(self._idle), None)
        if one is not None:
            self.wake(one)
            one.drop("total")
        return one is not None

    def watch(self, one: WatchedConnection) -> None:
        """Look at a connection from now on."""
        self._watched.add(one)

    def forget(self, one: WatchedConnection) -> None:
        """Look at a connection no more."""
        self._watched.discard(one)
        self._idle.pop(one, None)

    def rest(self, one: WatchedConnection) -> None:
        """Note that a connection has no request now."""
        self._idle[one] = None

    def wake(self, one: WatchedConnection) -> None:
        """Note that a connection has one."""
        self._idle.pop(one, None)

    def look(self) -> None:
        """Look at all connections, if it is time to."""
        now_s = self.clock()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + self.limits.every_s
        for one in tuple(self._watched):
            one.look(now_s)
        self._bound_unread(self._watched)

    def _bound_unread(self, some: Iterable[WatchedConnection]) -> None:
        unread = {one: found for one in some if (found := one.unread()) is not None}
        for one in overflowing(unread, self.limits.unread_bytes):
            one.drop("unread")
