"""What a request says: its body, its query, and the form that they fill."""

import asyncio
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from batchline.errors import TooLarge, TooSlow, WrongContent, WrongMedia, did_you_mean
from batchline.service.operation import NoForm, Operation
from batchline.wire.form import Form

__all__ = ["BODY_S", "LARGEST_BODY", "check_kind", "read_body", "read_form"]

LARGEST_BODY: Final = 16 << 20
#: How long a body may take to arrive.
BODY_S: Final = 30.0
JSON: Final = "application/json"
UNKNOWN: Final = "unknown field `"


async def read_form(request: Request, operation: Operation) -> Form:
    """The form of a request, as its operation wants it."""
    if operation.has_body:
        check_kind(request, JSON)
        return body_form(await read_body(request), operation.form)
    if operation.form is not NoForm:
        return query_form(request.scope["query_string"], operation.form)
    return NoForm()


def body_form(body: bytes, form: type[Form]) -> Form:
    """The form that a body fills."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _wrong(error, form) from error


def query_form(query: bytes, form: type[Form]) -> Form:
    """The form that a query fills."""
    fields = {one.encode_name: one for one in msgspec.structs.fields(form)}
    values: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise WrongContent(f"expected a query in UTF-8 with at most 100 fields: {error}") from error
    for name, value in pairs:
        if name in fields and fields[name].type == list[str]:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise WrongContent(f"expected {name} once in the query, got it twice")
        else:
            values[name] = value
    try:
        return msgspec.convert(values, form, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong(error, form) from error


def _wrong(error: Exception, form: type[Form]) -> WrongContent:
    detail = str(error)
    _, unknown, word = detail.partition(UNKNOWN)
    known = [one.encode_name for one in msgspec.structs.fields(form)]
    return WrongContent(f"{detail}{did_you_mean(word.partition('`')[0], known) if unknown else ''}")


def check_kind(request: Request, *kinds: str) -> str:
    """The content type of a request, if it is one of these."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise WrongMedia(f"expected {' or '.join(kinds)}, got {kind[:100] or 'no content type'}")
    return kind


async def read_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """The body of a request, if it is not too large and does not take too long."""
    length = request.headers.get("content-length", "")
    _check_length(int(length[:20]) if length.isdecimal() else 0, largest)
    try:
        async with asyncio.timeout(BODY_S):
            return await _whole(request, largest)
    except TimeoutError as error:
        raise TooSlow(f"expected the whole request within {BODY_S:g} s") from error


async def _whole(request: Request, largest: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        _check_length(len(body), largest)
    return bytes(body)


def _check_length(length: int, largest: int) -> None:
    if length > largest:
        raise TooLarge(f"expected at most {largest:,} bytes, got {length:,}: send several requests")
