"""What actors note of their calls to a timeline, message by message. In a module that a new process can load."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from batchline.core.message import Lease

__all__ = ["DEAD", "KEEP_MS", "LINE", "LIVE_FOR_MS", "MAX_ATTEMPTS", "Event", "Record", "SessionEvent"]

LINE: Final = "line"
DEAD: Final = "dead"
MAX_ATTEMPTS: Final = 4
#: How long the line keeps ids of messages that are done.
KEEP_MS: Final = 60
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


@dataclass
class Record:
    """All that actors noted."""

    events: list[Event] = field(default_factory=list)
    sessions: list[SessionEvent] = field(default_factory=list)
    calls: int = 0
    #: When each process was killed, or let go.
    gone: dict[int, float] = field(default_factory=dict)

    def add(self, other: "Record") -> None:
        """Add what others noted."""
        self.events += other.events
        self.sessions += other.sessions
        self.calls += other.calls
        self.gone |= other.gone
