"""What all forms share: moments, spans and bodies as JSON has them."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from batchline.core.due_time import LATEST_MS, LONGEST_AFTER_MS, check_at, ms_of
from batchline.core.moment import span_of, span_text
from batchline.core.name import LONGEST_NAME
from batchline.errors import InvalidMessage, InvalidRules, shown

__all__ = [
    "GROUP_HEADER",
    "MOST_AT_ONCE",
    "AfterMs",
    "AnswerForm",
    "At",
    "Form",
    "Name",
    "Span",
    "body_of",
    "given_after",
    "given_ms",
    "given_span",
    "moment_text",
    "ms_of_at",
    "ms_text",
    "read_span",
    "span_text",
    "text_body",
    "told_moment",
]

#: Of which producer group a request is made, percent-encoded as in an address; a name may have what no header holds.
GROUP_HEADER: Final = "batchline-producer-group"
#: Messages, leases or item ids that one call may name.
MOST_AT_ONCE: Final = 10_000
#: Digits of a moment in milliseconds.
LONGEST_MS: Final = 15
#: Control characters that JSON has as six; and from how many bytes on it matters.
CONTROLS: Final = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
LONG: Final = 1_024
#: A moment: ISO 8601 with its zone, or milliseconds since the epoch.
At = (
    Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    | Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LATEST_MS})]
)
#: A span from now by the service's clock, in milliseconds.
AfterMs = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LONGEST_AFTER_MS})]
#: A span such as 500ms, 30s or 2h.
Span = Annotated[str, Meta(extra_json_schema={"pattern": r"^\d+(\.\d+)?(us|ms|s|m|h|d)$", "examples": ["30s"]})]
#: A name that every store can keep.
Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_NAME})]


class Form(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A request. A field that it does not have is refused; what has its default value is left out."""


class AnswerForm(Form, forbid_unknown_fields=False):
    """An answer. A client does not mind fields that it does not know: the service may be newer than it."""


class WithBody(Protocol):
    """What has a body: text as it is, anything else in base64."""

    body: str | None
    body_base64: str | None


def body_of(form: WithBody) -> bytes:
    """The bytes of a body."""
    if form.body_base64 is None:
        return (form.body or "").encode(errors="surrogatepass")
    if form.body is not None:
        raise InvalidMessage("expected body or body_base64, got both")
    try:
        return base64.b64decode(form.body_base64, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidMessage(f"expected base64 in body_base64, got {form.body_base64[:40]!r}: {error}") from error


def text_body(body: bytes) -> tuple[str | None, str | None]:
    """A body as `body` and `body_base64`: one of them, or none for a body that is empty."""
    if not body:
        return None, None
    try:
        if not _grows(body):
            return body.decode(), None
    except UnicodeDecodeError:
        pass
    return None, base64.b64encode(body).decode()


def _grows(body: bytes) -> bool:
    """Whether the JSON of a body is longer than its base64: a control character takes six bytes in JSON."""
    return len(body) >= LONG and len(body) - len(body.translate(None, CONTROLS)) > len(body) // 16


def ms_of_at(what: str, at: At) -> int:
    """A moment in milliseconds; a query has them as text, and no ISO 8601 with a zone has digits alone."""
    if isinstance(at, int):
        return check_at(what, at)
    if at.isascii() and at.isdecimal() and len(at) <= LONGEST_MS:
        return check_at(what, int(at))
    try:
        return check_at(what, datetime.fromisoformat(at))
    except ValueError as error:
        raise InvalidMessage(f"{what} must be ISO 8601 with a zone, or milliseconds, got {at[:40]!r}") from error


def given_ms(what: str, at: At | None) -> int | None:
    """The same, if a moment is given."""
    return None if at is None else ms_of_at(what, at)


def given_after(what: str, after_ms: AfterMs | None) -> timedelta | None:
    """Return the span of a number of milliseconds, if one is given."""
    if after_ms is None:
        return None
    if not 0 <= after_ms <= LONGEST_AFTER_MS:
        raise InvalidMessage(
            f"{what}: after_ms must be from 0 to {LONGEST_AFTER_MS} milliseconds, got {shown(after_ms)}: "
            "give a past moment as at"
        )
    return timedelta(milliseconds=after_ms)


def moment_text(moment: datetime) -> str:
    """A moment as it is answered, to the microsecond if it has any."""
    return moment.astimezone(UTC).isoformat(timespec="auto").replace("+00:00", "Z")


def ms_text(ms: int) -> str:
    """A moment of so many milliseconds as it is answered."""
    return f"{datetime.fromtimestamp(ms // 1_000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1_000:03d}Z"


def read_span(what: str, text: str) -> timedelta:
    """The span of a text such as `30s`."""
    try:
        return span_of(text)
    except (ValueError, OverflowError) as error:
        raise InvalidRules(f"{what}: expected a span such as 500ms, 30s or 2h, got {text[:40]!r}") from error


def given_span(what: str, text: str | None) -> timedelta | None:
    """The same, if a text is given."""
    return None if text is None else read_span(what, text)


def told_moment(moment: datetime | None) -> str | None:
    """A moment as it is answered, if there is one."""
    return None if moment is None else moment_text(moment)


def at_of(moment: str) -> int:
    """The milliseconds of a moment that was answered."""
    return ms_of(datetime.fromisoformat(moment))
