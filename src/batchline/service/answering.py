"""Answers as responses: encoded, and sent no faster than the client reads."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from batchline.service.operation import Answer

__all__ = ["LARGE", "respond"]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Bytes from which on an answer is encoded in a thread, and sent in pieces of this size.
LARGE: Final = 64 << 10
#: How long sending an answer may take, and how much longer by its bytes, so that it holds memory for a bounded time.
SEND_S: Final = 60.0
BYTES_PER_S: Final = 64 << 10
encode: Final = msgspec.json.Encoder().encode


class PiecewiseResponse(Response):
    """A body that is sent piece by piece: the server waits in between until the client has read."""

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send it; raises TimeoutError if the client reads it too slowly."""
        async with asyncio.timeout(SEND_S + len(self.body) / BYTES_PER_S):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for begin in range(0, len(self.body), LARGE):
                piece, more = self.body[begin : begin + LARGE], begin + LARGE < len(self.body)
                await send({"type": "http.response.body", "body": piece, "more_body": more})


def respond(answer: Answer, status: int, media_type: str = "application/json") -> Response:
    """Return the response that an answer is; to be called in a thread if it may be large."""
    if answer is None:
        return Response(status_code=204)
    if isinstance(answer, Response):
        return answer
    body = encode(answer)
    kind = PiecewiseResponse if len(body) > LARGE else Response
    return kind(body, status, {"cache-control": "no-store"}, media_type)
