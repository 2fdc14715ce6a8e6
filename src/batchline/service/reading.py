"""What a request says: its body, its query, and the form that they fill."""

from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from batchline.errors import Overloaded, TooLarge, WrongContent, WrongMedia, did_you_mean
from batchline.service.answer_share import AnswerShare
from batchline.service.operation import NoForm, Operation
from batchline.service.under_way import UnderWay
from batchline.wire.form import Form
from batchline.wire.problems import RETRY_AFTER_S

__all__ = ["BODY_BYTES", "LARGEST_BODY", "check_kind", "read_body", "read_form"]

LARGEST_BODY: Final = 16 << 20
#: Bytes of all bodies together that are being read and worked on; small ones are not counted, and always read.
BODY_BYTES: Final = 256 << 20
SMALL: Final = 64 << 10
JSON: Final = "application/json"
UNKNOWN: Final = "unknown field `"


async def read_form(request: Request, operation: Operation, under_way: UnderWay, share: AnswerShare) -> Form:
    """The form of a request, as its operation wants it."""
    if operation.has_body:
        check_kind(request, JSON)
        return body_form(await read_body(request, under_way, share), operation.form)
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


async def read_body(request: Request, under_way: UnderWay, share: AnswerShare, largest: int = LARGEST_BODY) -> bytes:
    """Read the body of a request, if it is not too large. The server drops connections that send it too slowly.

    Raises Overloaded while large bodies of others take all bytes that there are for them.
    """
    length = request.headers.get("content-length", "")
    _check_length(int(length[:20]) if length.isdecimal() else 0, largest)
    body = bytearray()
    with under_way.receiving():
        async for piece in request.stream():
            body += piece
            _check_length(len(body), largest)
            # As it comes, so that one that is announced and never sent takes nothing.
            if len(body) > SMALL and not share.try_take(len(body)):
                raise Overloaded(f"large requests take all memory there is for them: try again in {RETRY_AFTER_S} s")
    return bytes(body)


def _check_length(length: int, largest: int) -> None:
    if length > largest:
        raise TooLarge(f"expected at most {largest:,} bytes, got {length:,}: send several requests")
