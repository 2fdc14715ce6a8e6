"""The service: a request in, its operation found, its right checked, its form read, its answer out."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from batchline.core.token import Token
from batchline.errors import BatchlineError, Unauthorized, WrongMethod
from batchline.runtime.clock import elapsed_seconds
from batchline.service.caller import NOBODY, Caller
from batchline.service.observer import Observers, Sighting
from batchline.service.operation import Answer, Call, Operation, Right, Socket, SocketCall
from batchline.service.origin import check_origin
from batchline.service.parts import Parts
from batchline.service.reading import query_form, read_form
from batchline.service.recent_answers import RecentAnswers
from batchline.service.router import Router
from batchline.wire.form import GROUP_HEADER
from batchline.wire.problems import PROBLEM_JSON, RETRY_AFTER_S, ProblemForm, problem_of

__all__ = ["BEARER_PROTOCOL", "App"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: A browser cannot set headers on a socket: there the token is one of the subprotocols that it offers.
BEARER_PROTOCOL: Final = "bearer."
LOG: Final = logging.getLogger("batchline.service")
BROKEN: Final = ProblemForm("/problems/InternalError", "Something went wrong here", 500, "it is in the service's log")
#: The status of a socket that was not refused.
SWITCHED: Final = 101
encode: Final = msgspec.json.Encoder().encode


class App:
    """An ASGI application. As long as there are no tokens, whoever reaches it may do everything."""

    def __init__(
        self,
        parts: Parts,
        operations: Iterable[Operation],
        sockets: Iterable[Socket] = (),
        *,
        any_host: bool = False,
        observers: Observers | None = None,
    ) -> None:
        """Of `parts` the operations are done; `any_host` is for who is reached under another name than localhost."""
        self._parts, self._any_host = parts, any_host
        self._observers = observers or Observers()
        self._router, self._sockets = Router(operations), Router(sockets)
        self._recent = RecentAnswers(elapsed_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await self._live(WebSocket(scope, receive, send))
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        sighting = self._observers.began(request.method)
        try:
            response = await self._refused_or_answered(request, sighting)
            sighting.status = response.status_code
            await response(scope, receive, send)
        except ClientDisconnect:
            return
        finally:
            self._observers.ended(sighting)

    async def _refused_or_answered(self, request: Request, sighting: Sighting) -> Response:
        try:
            return await self._answer(request, sighting)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - what we do not know is logged, and answered as such
            return self._refusal(request, error, sighting)

    async def _answer(self, request: Request, sighting: Sighting) -> Response:
        found = self._router.find(request.method, request.scope["raw_path"])
        caller = await self._caller(request, found.operation, sighting)
        check_right(found.operation.right, found.path, caller)
        question = self._recent.question(request, caller)
        kept = self._recent.find(question)
        if kept is not None:
            return kept
        with self._parts.under_way.working(urgent=found.operation.urgent):
            call = Call(self._parts, caller, found.path, await read_form(request, found.operation), request)
            answer = await self._done(found.operation, call)
            return self._recent.keep(question, _response(answer, found.operation.status))

    async def _done(self, operation: Operation, call: Call[Any]) -> Answer:
        if inspect.iscoroutinefunction(operation.handler):
            return cast("Answer", await operation.handler(call))
        return cast("Answer", await self._parts.in_thread(operation.handler, call))

    async def _live(self, socket: WebSocket) -> None:
        """Live as long as a socket; if it is refused, answer why. Observers are told when it is over."""
        sighting = Sighting("GET", status=SWITCHED)
        try:
            await self._handle(socket, sighting)
        except WebSocketDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - what we do not know is logged, and answered as such
            response = self._refusal(socket, error, sighting)
            if socket.application_state is WebSocketState.CONNECTING:
                sighting.status = response.status_code
                await socket.send_denial_response(response)
        finally:
            self._observers.lived(sighting)

    async def _handle(self, socket: WebSocket, sighting: Sighting) -> None:
        found = self._sockets.find("GET", socket.scope["raw_path"])
        caller = await self._caller(socket, found.operation, sighting)
        check_right(found.operation.right, found.path, caller)
        form = query_form(socket.scope["query_string"], found.operation.form)
        text = None if caller.token is None else token_text(socket)
        with self._parts.under_way.connected():
            await found.operation.handler(SocketCall(self._parts, caller, found.path, form, socket, text))

    async def _caller(self, connection: HTTPConnection, operation: Operation | Socket, sighting: Sighting) -> Caller:
        """Who asks; who is asked for no token is nobody, and the store need not be there for that."""
        sighting.operation = operation.name
        if operation.right == "none":
            check_origin(connection.headers, any_host=True)
            return NOBODY
        caller = await self.caller_of(connection)
        sighting.token = "" if caller.token is None else caller.token.id
        return caller

    async def caller_of(self, connection: HTTPConnection) -> Caller:
        """Who asks; Unauthorized if that cannot be told."""
        asked = self._parts.tokens.remembered_any()
        if asked is None:
            asked = await self._parts.in_thread(self._parts.tokens.any)
        check_origin(connection.headers, any_host=self._any_host or asked)
        said_group = unquote(connection.headers.get(GROUP_HEADER, "")) or None
        caller = Caller(await self._token(connection) if asked else None, said_group)
        caller.check_said_group()
        return caller

    async def _token(self, connection: HTTPConnection) -> Token:
        text, tokens = token_text(connection), self._parts.tokens
        found = tokens.remembered(text)
        return await self._parts.in_thread(tokens.check, text) if found is None else found

    def _refusal(self, request: HTTPConnection, error: Exception, sighting: Sighting) -> Response:
        """What is answered to who is refused, or met a defect of ours."""
        if isinstance(error, BatchlineError):
            sighting.problem = type(error).__name__
            return self._problem(request, error)
        LOG.error("in %s", sighting.operation, exc_info=error)
        sighting.problem = "InternalError"
        return _response(BROKEN, 500, PROBLEM_JSON)

    def _problem(self, request: HTTPConnection, error: BatchlineError) -> Response:
        problem = problem_of(error)
        response = _response(problem, problem.status, PROBLEM_JSON)
        if problem.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if problem.status in (429, 503):
            response.headers["retry-after"] = str(RETRY_AFTER_S)
        if isinstance(error, WrongMethod):
            response.headers["allow"] = ", ".join(self._router.methods(request.scope["raw_path"]))
        return response


def token_text(connection: HTTPConnection) -> str:
    """The text that proves who asks: in a header, or, of a socket, among the subprotocols that it offers."""
    kind, _, text = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():
        return text.strip()
    for offered in connection.scope.get("subprotocols", ()):
        if offered.startswith(BEARER_PROTOCOL):
            return str(offered.removeprefix(BEARER_PROTOCOL))
    raise Unauthorized("expected a token: Authorization: Bearer bl_…")


def check_right(right: Right, path: Mapping[str, str], caller: Caller) -> None:
    """The caller may do this with what the address names, or is refused."""
    if right == "admin":
        caller.check_admin()
    elif right != "none":
        caller.check_right(right)
    if "topic" in path:
        caller.check_topic(path["topic"])


def _response(answer: Answer, status: int, media_type: str = "application/json") -> Response:
    if answer is None:
        return Response(status_code=204)
    if isinstance(answer, Response):
        return answer
    return Response(encode(answer), status, {"cache-control": "no-store"}, media_type)
