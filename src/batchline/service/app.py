"""The service: a request in, its operation found, its right checked, its form read, its answer out."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, cast
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from batchline.errors import BatchlineError, StoreError, StoreUnavailable, WrongMethod
from batchline.runtime.clock import elapsed_seconds
from batchline.service.answering import respond
from batchline.service.caller import NOBODY, Caller
from batchline.service.observer import Observers, Sighting
from batchline.service.operation import Answer, Call, Operation, Right, Shares, Socket, SocketCall
from batchline.service.origin import check_origin
from batchline.service.parts import Parts
from batchline.service.reading import query_form, read_form
from batchline.service.recent_answers import RecentAnswers
from batchline.service.router import Router
from batchline.service.token_guard import client_address
from batchline.wire.form import GROUP_HEADER
from batchline.wire.problems import PROBLEM_JSON, RETRY_AFTER_S, ProblemForm, problem_of, retry_after_s

__all__ = ["App"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOG: Final = logging.getLogger("batchline.service")
BROKEN: Final = ProblemForm("/problems/InternalError", "Something went wrong here", 500, "it is in the service's log")
UNCHECKED: Final = f"the store does not answer, and without it no token can be checked: try again in {RETRY_AFTER_S} s"
#: The status of a socket that was not refused.
SWITCHED: Final = 101
#: What changes something on a topic, or takes messages from it.
CHANGES: Final = ("produce", "consume")


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
        sighting, shares = self._observers.began(request.method), Shares.of(self._parts)
        try:
            response = await self._refused_or_answered(request, sighting, shares)
            sighting.status = response.status_code
            await response(scope, receive, send)
        except (ClientDisconnect, TimeoutError):  # it is gone, or does not read: the server closes the connection
            return
        finally:
            shares.end()
            self._observers.ended(sighting)

    async def _refused_or_answered(self, request: Request, sighting: Sighting, shares: Shares) -> Response:
        try:
            return await self._answer(request, sighting, shares)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - what we do not know is logged, and answered as such
            return self._refusal(request, error, sighting)

    async def _answer(self, request: Request, sighting: Sighting, shares: Shares) -> Response:
        found = self._router.find(request.method, request.scope["raw_path"])
        caller = await self._caller(request, found.operation, sighting)
        await self._check_right(found.operation.right, found.path, caller)
        question = self._recent.question(request, caller)
        kept = self._recent.find(question)
        if kept is not None:
            return kept
        shares.belong(_key_of(caller, request))
        with self._parts.under_way.working(urgent=found.operation.urgent):
            form = await read_form(request, found.operation, self._parts.under_way, shares.body)
            if caller is not NOBODY:  # a body may have come slowly
                await self._parts.check_token(caller.token_id)
            call = Call(self._parts, caller, found.path, form, request, *shares)
            response = await self._done(found.operation, call)
            return self._recent.keep(question, response)

    async def _done(self, operation: Operation, call: Call[Any]) -> Response:
        if inspect.iscoroutinefunction(operation.handler):
            return respond(cast("Answer", await operation.handler(call)), operation.status)
        if operation.most_bytes:
            await call.share.take(operation.most_bytes)
        # Encoded there, too: a large answer would keep all others waiting.
        response = await self._parts.in_thread(_handled, operation, call)
        if operation.most_bytes:
            call.share.keep(len(response.body))
        return response

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
        await self._check_right(found.operation.right, found.path, caller)
        form = query_form(socket.scope["query_string"], found.operation.form)
        shares = Shares.of(self._parts)
        shares.belong(_key_of(caller, socket))
        with self._parts.under_way.connected():
            await found.operation.handler(SocketCall(self._parts, caller, found.path, form, socket, shares.share))

    async def _check_right(self, right: Right, path: Mapping[str, str], caller: Caller) -> None:
        """The caller may do this with what the address names, or is refused; also if its topic is internal."""
        check_right(right, path, caller)
        topic, internal = path.get("topic"), self._parts.internal
        if topic is None or right not in CHANGES:
            return
        known = internal.remembered(caller, topic)
        if known is None:
            await self._parts.in_thread(internal.check, caller, topic)
        else:
            internal.check(caller, topic, known)

    async def _caller(self, connection: HTTPConnection, operation: Operation | Socket, sighting: Sighting) -> Caller:
        """Who asks; who is asked for no token is nobody, and the store need not be there for that."""
        sighting.operation = operation.name
        if operation.right == "none":
            check_origin(connection.headers, any_host=True)
            return NOBODY
        try:
            caller = await self.caller_of(connection)
        except StoreError as error:
            # Of whoever has not proved a right to ask, the store's error would name its host and user.
            raise StoreUnavailable(UNCHECKED) from error
        sighting.token = "" if caller.token is None else caller.token.id
        return caller

    async def caller_of(self, connection: HTTPConnection) -> Caller:
        """Who asks; Unauthorized if that cannot be told."""
        asked = self._parts.tokens.remembered_any()
        if asked is None:
            asked = await self._parts.in_thread(self._parts.tokens.any)
        check_origin(connection.headers, any_host=self._any_host or asked)
        said_group = unquote(connection.headers.get(GROUP_HEADER, "")) or None
        caller = Caller(await self._parts.guard.check(connection) if asked else None, said_group)
        caller.check_said_group()
        return caller

    def _refusal(self, request: HTTPConnection, error: Exception, sighting: Sighting) -> Response:
        """What is answered to who is refused, or met a defect of ours."""
        if isinstance(error, BatchlineError):
            sighting.problem = type(error).__name__
            return self._problem(request, error)
        LOG.error("in %s", sighting.operation, exc_info=error)
        sighting.problem = "InternalError"
        return respond(BROKEN, 500, PROBLEM_JSON)

    def _problem(self, request: HTTPConnection, error: BatchlineError) -> Response:
        problem = problem_of(error)
        response = respond(problem, problem.status, PROBLEM_JSON)
        if problem.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if problem.status in (429, 503):
            response.headers["retry-after"] = str(retry_after_s(error))
        if isinstance(error, WrongMethod):
            response.headers["allow"] = ", ".join(self._router.methods(request.scope["raw_path"]))
        return response


def check_right(right: Right, path: Mapping[str, str], caller: Caller) -> None:
    """The caller may do this with what the address names, or is refused."""
    if right == "admin":
        caller.check_admin()
    elif right != "none":
        caller.check_right(right)
    if "topic" in path:
        caller.check_topic(path["topic"])


def _key_of(caller: Caller, connection: HTTPConnection) -> str:
    """Return what a caller's bytes are counted by: its token, or, where there are none, its address."""
    return caller.token_id or client_address(connection)


def _handled(operation: Operation, call: Call[Any]) -> Response:
    return respond(cast("Answer", operation.handler(call)), operation.status)
