"""What a client asks for, and what comes of it: an operation is steps that ask, and are sent the answers.

The steps do no I/O. So one source serves both clients: the one that waits, and the one that awaits.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, urlencode

__all__ = ["Lost", "Pause", "Reply", "Request", "Steps", "address", "request"]

T = TypeVar("T")
DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to be sent."""

    method: str
    #: The path and the query, encoded.
    target: str
    body: bytes | None = None
    #: The producer group that it is made for.
    group: str | None = None
    #: How long the service may wait before it answers, apart from what it takes.
    wait_s: float = 0.0
    #: How long the client waits for the answer. A repeated request has less time, and is the same request.
    timeout_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service answered."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came: whether the request was done is not known."""

    why: Exception


#: The steps of an operation, up to what it gives.
Steps = Generator[Request | Pause, Reply | Lost | None, T]


def address(*segments: str) -> str:
    """A path of segments, each encoded by itself: a name may have slashes, or be a dot."""
    return "".join(f"/{DOTS.get(segment) or quote(segment, safe='')}" for segment in segments)


def request(method: str, path: str, body: bytes | None = None, group: str | None = None, **query: object) -> Request:
    """A request; of the query, what is None is left out."""
    said = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return Request(method, f"{path}?{urlencode(said)}" if said else path, body, group)
