"""What actors note of their calls to a timeline, message by message. In a module that a new process can load."""

from typing import Final, NamedTuple

from batchline.core.message import Lease

__all__ = ["DEAD", "LINE", "LIVE_FOR_MS", "MAX_ATTEMPTS", "Event", "SessionEvent"]

LINE: Final = "line"
DEAD: Final = "dead"
MAX_ATTEMPTS: Final = 4
#: How long after its last heartbeat a session counts as alive.
LIVE_FOR_MS: Final = 300


class Event(NamedTuple):
    """What one call did to one message."""

    actor: str
    verb: str
    #: By a clock that all processes share and that never runs back.
    begun: float
    ended: float
    #: The moment of the call.
    now_ms: int
    topic: str
    id: str
    outcome: str
    #: Where the message was to stand, or, of a lease, where it stood; of a prune, before when it removes what ended.
    at_ms: int = 0
    #: The lease that the call had, and the one it was given.
    token: Lease | None = None
    lease: Lease | None = None
    attempts: int = 0
    body: bytes = b""
    #: The producer group that asks; of a lease, the consumer's session.
    group: str = ""
    session: int | None = None
    #: The bundle that a create makes, and which of its messages this one is.
    bundle: int = 0
    place: int = 0
    #: The version that a read shows.
    version: int = 0
    #: The process that called.
    process: int = 0

    def __str__(self) -> str:
        shown = {name: value for name, value in self._asdict().items() if value != self._field_defaults.get(name)}
        return " ".join(
            f"{name}={tuple(value) if isinstance(value, Lease) else value}" for name, value in shown.items()
        )

    @property
    def consumer(self) -> str:
        """The consumer that was given a lease."""
        return self.lease.consumer if self.lease is not None else ""

    def precedes(self, other: "Event") -> bool:
        """Whether it happened before another, whatever happened meanwhile."""
        return self.ended < other.begun


class SessionEvent(NamedTuple):
    """A session of a consumer was seen, or was ended, by itself or by another."""

    verb: str
    session: int
    begun: float
    ended: float
    seen_ms: int
    process: int
