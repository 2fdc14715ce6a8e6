"""What the service does, as data: routing, rights, the OpenAPI document and the reference come from it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from batchline.errors import BatchlineError
from batchline.service.answer_share import AnswerShare
from batchline.service.caller import Caller
from batchline.service.parts import Parts
from batchline.wire.form import Form

__all__ = ["Answer", "Call", "NoForm", "Operation", "Right", "Shares", "Socket", "SocketCall"]

F = TypeVar("F", bound=Form, covariant=True)
#: A form; or, of what is no JSON, the response itself; nothing for 204.
Answer = Form | Response | None
#: What a token must be for: nothing (no token is asked for), reading, producing, consuming, finishing items, all.
Right = Literal["none", "read", "produce", "consume", "finish", "admin"]


class NoForm(Form):
    """A request that says nothing more than its address."""


class Shares(NamedTuple):
    """What a request has of the bytes that all of them may have together: for its answer, and its body."""

    share: AnswerShare
    body: AnswerShare

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Nothing yet."""
        return cls(AnswerShare(parts.answers), AnswerShare(parts.bodies))

    def belong(self, caller: str) -> None:
        """Count them among those of a caller."""
        for one in self:
            one.belong(caller)

    def end(self) -> None:
        """Have nothing any more."""
        for one in self:
            one.end()


@dataclass(frozen=True, slots=True)
class Call(Generic[F]):
    """A request that is in order: who asks, for what."""

    parts: Parts
    caller: Caller
    path: Mapping[str, str]
    form: F
    request: Request
    #: What its answer has of the bytes that all answers may have.
    share: AnswerShare
    #: And what its body has, for handlers that read it themselves.
    body_share: AnswerShare

    @property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]

    @property
    def fanout(self) -> str:
        """The fanout in the path."""
        return self.path["fanout"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked for."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    #: Segments in braces are names: `/v1/topics/{topic}`.
    path: str
    right: Right
    #: Does it, in a thread; or, a coroutine function, in the loop.
    handler: Callable[[Call[Any]], Answer] | Callable[[Call[Any]], Awaitable[Answer]]
    #: What the body has; of GET and DELETE, and with `in_query`, what the query has.
    form: type[Form] = NoForm
    #: What is answered; without it, nothing (204).
    answer: type[Form] | None = None
    status: int = 200
    #: How it may be refused, apart from what is the same for all.
    refusals: tuple[type[BatchlineError], ...] = ()
    #: The content type of what is answered.
    media: str = "application/json"
    #: Content types of a body that the handler reads by itself.
    reads: tuple[str, ...] = ()
    #: Bytes of bodies that its answer has at most, taken before it is done; 0 if it has none, or takes them itself.
    most_bytes: int = 0
    #: Whether it is done even when there is too much to do.
    urgent: bool = False
    #: Whether its form is in the query, whatever its method.
    in_query: bool = False
    #: Other addresses that lead here, without names in them.
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name: that of the function which does it."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def has_body(self) -> bool:
        """Whether its form is in the body."""
        return self.method in ("POST", "PUT", "PATCH") and self.form is not NoForm and not self.in_query


@dataclass(frozen=True, slots=True)
class SocketCall(Generic[F]):
    """A socket that is in order, and not accepted yet: who asks, for what."""

    parts: Parts
    caller: Caller
    path: Mapping[str, str]
    form: F
    socket: WebSocket
    #: What its messages have of the bytes that all answers may have.
    share: AnswerShare

    @property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]


@dataclass(frozen=True, slots=True)
class Socket:
    """A WebSocket that can be asked for; its form is in the query."""

    path: str
    right: Right
    #: Accepts it and lives as long as it; what it raises before that is answered as a problem.
    handler: Callable[[SocketCall[Any]], Awaitable[None]]
    form: type[Form]
    aliases: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """How every socket begins."""
        return "GET"

    @property
    def name(self) -> str:
        """Its name: that of the function which does it."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]
