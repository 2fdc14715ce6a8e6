"""What is wrong with a request, as `application/problem+json` (RFC 9457)."""

from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

__all__ = ["Problem", "answer_problem"]


class Problem(HTTPException):
    """A request that is refused; `detail` says what was expected and what came."""

    def __init__(self, status: HTTPStatus, detail: str, **headers: str) -> None:
        super().__init__(status, detail, {name.replace("_", "-"): value for name, value in headers.items()})


async def answer_problem(_request: Request, error: Exception) -> JSONResponse:
    """The answer to a request that is refused, by us or by the router."""
    status, detail, headers = HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong here", None
    if isinstance(error, HTTPException):
        status, detail, headers = HTTPStatus(error.status_code), error.detail, error.headers
    body: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    return JSONResponse(body, status, headers, media_type="application/problem+json")
