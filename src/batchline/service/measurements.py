"""`POST /v1/measurements`: for whoever has neither files nor a broker. Answered when what came is durable.

    a JSON array, or JSON lines ─► each a measurement, or malformed with a reason ─► landed together ─► 202

A measurement has key, type, event_time and value; what else it has goes along. An event time is asked for, so that a
request that is repeated because its answer was lost brings duplicates, which the batcher removes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from batchline.errors import InvalidMeasurement, LandingUnavailable, MissingExtra
from batchline.runtime.clock import now_us
from batchline.service.group_commit import GroupCommit
from batchline.sources.landing import Landing
from batchline.sources.mapped_json import MeasurementMapping
from batchline.sources.measured import Malformed, Measured
from batchline.sources.payload import json_from

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from batchline.service.problems import Problem, answer_problem
except ModuleNotFoundError as error:
    raise MissingExtra("the service needs starlette: pip install 'batchline[service]'") from error

__all__ = ["LARGEST_BODY", "measurements_app", "measurements_route"]

PATH: Final = "/v1/measurements"
LARGEST_BODY: Final = 8 * 2**20
#: In which a client that was told that there is no room tries again.
RETRY_AFTER_S: Final = 5
ARRAY, LINES = "application/json", "application/x-ndjson"
MAPPING: Final = MeasurementMapping(key="key", type="type", value="value", event_time="event_time")


def measurements_app(landing: Landing | GroupCommit) -> Starlette:
    """An application that lands what is posted to it; it has no tokens, so let only those reach it who may."""
    refused: tuple[Any, ...] = (HTTPException, ClientDisconnect, 500)
    return Starlette(routes=[measurements_route(landing)], exception_handlers=dict.fromkeys(refused, answer_problem))


def measurements_route(landing: Landing | GroupCommit) -> Route:
    """The route alone, for an application that has others."""
    group = GroupCommit(landing, now_us) if isinstance(landing, Landing) else landing
    return Route(PATH, _Post(group).answer, methods=["POST"])


class _Post:
    def __init__(self, group: GroupCommit) -> None:
        self._group = group

    async def answer(self, request: Request) -> JSONResponse:
        """202 with what was accepted and what was rejected, or a Problem."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (ARRAY, LINES):
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {ARRAY} or {LINES}, got {kind or 'no content type'}"
            )
        body = await _body(request)
        lines = _array(body) if kind == ARRAY else _lines(body)
        try:
            arrival = await self._group.land(partial(_parts, lines))
        except LandingUnavailable as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), Retry_After=str(RETRY_AFTER_S)) from error
        return JSONResponse(_answer([number for number, _ in lines], arrival.parts), HTTPStatus.ACCEPTED)


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    _check_length(int(length) if length.isdecimal() else 0)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        _check_length(len(body))
    return bytes(body)


def _check_length(length: int) -> None:
    if length > LARGEST_BODY:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LARGEST_BODY:,} bytes: send several requests"
        )


def _array(body: bytes) -> list[tuple[int, Any]]:
    """The items of a JSON array with their places, counted from 1; an object is an array of one."""
    try:
        found = json_from(body)
    except InvalidMeasurement as error:
        raise Problem(HTTPStatus.BAD_REQUEST, str(error)) from error
    return list(enumerate(found if isinstance(found, list) else [found], 1))


def _lines(body: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; if none of them is JSON, the request is not."""
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if lines and not any(_is_json(line) for _, line in lines):
        raise Problem(HTTPStatus.BAD_REQUEST, f"expected JSON lines, and none of the {len(lines):,} lines is JSON")
    return lines


def _is_json(line: bytes) -> bool:
    try:
        json_from(line)
    except InvalidMeasurement:
        return False
    return True


def _parts(lines: Sequence[tuple[int, Any]], receive_us: int) -> list[Measured | Malformed]:
    return [_part(line, receive_us) for _, line in lines]


def _part(line: Any, receive_us: int) -> Measured | Malformed:
    try:
        return MAPPING.measured("", json_from(line) if isinstance(line, bytes) else line, receive_us)
    except InvalidMeasurement as error:
        return Malformed(f"POST {PATH}", str(error), _text(line))


def _text(line: Any) -> str:
    if isinstance(line, bytes):
        return line.decode("utf-8", "backslashreplace")
    try:
        return json.dumps(line, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return repr(line)


def _answer(numbers: Sequence[int], parts: Sequence[Measured | Malformed]) -> Mapping[str, Any]:
    rejected = list(_rejected(numbers, parts))
    return {"accepted": len(parts) - len(rejected), "rejected": rejected}


def _rejected(numbers: Sequence[int], parts: Sequence[Measured | Malformed]) -> Iterator[dict[str, Any]]:
    for number, part in zip(numbers, parts, strict=True):
        if isinstance(part, Malformed):
            yield {"line": number, "reason": part.reason}
