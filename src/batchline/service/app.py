"""The service: a request in, its operation found, its right checked, its form read, its answer out."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, cast

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from batchline.core.token import Token
from batchline.errors import BatchlineError, Overloaded, Unauthorized, WrongMethod
from batchline.runtime.tokens import Tokens
from batchline.service.caller import NOBODY, Caller
from batchline.service.operation import Answer, Call, Operation
from batchline.service.origin import check_origin
from batchline.service.parts import Parts
from batchline.service.reading import read_form
from batchline.service.router import Found, Router
from batchline.wire.problems import PROBLEM_JSON, RETRY_AFTER_S, ProblemForm, problem_of

__all__ = ["GROUP_HEADER", "MOST_UNDER_WAY", "App"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

GROUP_HEADER: Final = "batchline-producer-group"
#: Requests that are worked on at the same time; those who wait for messages are not counted.
MOST_UNDER_WAY: Final = 256
LOG: Final = logging.getLogger("batchline.service")
BROKEN: Final = ProblemForm("/problems/InternalError", "Something went wrong here", 500, "it is in the service's log")
encode: Final = msgspec.json.Encoder().encode


class App:
    """An ASGI application. As long as there are no tokens, whoever reaches it may do everything."""

    def __init__(
        self,
        parts: Parts,
        operations: Iterable[Operation],
        tokens: Tokens,
        *,
        most_under_way: int = MOST_UNDER_WAY,
        any_host: bool = False,
    ) -> None:
        """Of `parts` the operations are done; `any_host` is for who is reached under another name than localhost."""
        self._parts, self._tokens, self._any_host = parts, tokens, any_host
        self._router = Router(operations)
        self._most, self.under_way = most_under_way, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except BatchlineError as error:
            response = self._problem(request, error)
        except Exception:
            LOG.exception("%s %s", scope["method"], scope["path"])
            response = _response(BROKEN, 500, PROBLEM_JSON)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        found = self._router.find(request.method, request.scope["raw_path"])
        caller = await self._caller(request, found.operation)
        check_right(found, caller)
        if self.under_way >= self._most:
            raise Overloaded(f"{self.under_way:,} requests are under way: try again in {RETRY_AFTER_S} s")
        self.under_way += 1
        try:
            call = Call(self._parts, caller, found.path, await read_form(request, found.operation), request)
            return _response(await self._done(found.operation, call), found.operation.status)
        finally:
            self.under_way -= 1

    async def _done(self, operation: Operation, call: Call[Any]) -> Answer:
        if inspect.iscoroutinefunction(operation.handler):
            return cast("Answer", await operation.handler(call))
        return cast("Answer", await self._parts.in_thread(operation.handler, call))

    async def _caller(self, request: Request, operation: Operation) -> Caller:
        """Who asks; who is asked for no token is nobody, and the store need not be there for that."""
        if operation.right == "none":
            check_origin(request.headers, any_host=True)
            return NOBODY
        return await self.caller_of(request)

    async def caller_of(self, request: Request) -> Caller:
        """Who asks; Unauthorized if that cannot be told."""
        asked = await self._parts.in_thread(self._tokens.any)
        check_origin(request.headers, any_host=self._any_host or asked)
        said_group = request.headers.get(GROUP_HEADER)
        caller = Caller(await self._token(request) if asked else None, said_group)
        caller.check_said_group()
        return caller

    async def _token(self, request: Request) -> Token:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text.strip():
            raise Unauthorized("expected a token: Authorization: Bearer bl_…")
        found = self._tokens.remembered(text.strip())
        return await self._parts.in_thread(self._tokens.check, text.strip()) if found is None else found

    def _problem(self, request: Request, error: BatchlineError) -> Response:
        problem = problem_of(error)
        response = _response(problem, problem.status, PROBLEM_JSON)
        if problem.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if problem.status in (429, 503):
            response.headers["retry-after"] = str(RETRY_AFTER_S)
        if isinstance(error, WrongMethod):
            response.headers["allow"] = ", ".join(self._router.methods(request.scope["raw_path"]))
        return response


def check_right(found: Found, caller: Caller) -> None:
    """The caller may do this with what the address names, or is refused."""
    if found.operation.right == "admin":
        caller.check_admin()
    elif found.operation.right != "none":
        caller.check_right(found.operation.right)
    if "topic" in found.path:
        caller.check_topic(found.path["topic"])


def _response(answer: Answer, status: int, media_type: str = "application/json") -> Response:
    if answer is None:
        return Response(status_code=204)
    if isinstance(answer, Response):
        return answer
    return Response(encode(answer), status, {"cache-control": "no-store"}, media_type)
