"""What a receiver's answer means for a parcel: a function of its status, its headers and its body."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from batchline.core.moment import moment_of
from batchline.errors import PartlyDelivered, RefusedParcel, Throttled, Undelivered

__all__ = ["Reply", "check_reply", "pause_of"]

#: Statuses below 500 that are worth another attempt.
AGAIN: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY)
#: Those that are about the address or the token, and not about the parcel: once that is put right, it is taken.
OURS: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
)
THROTTLED: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
#: Most characters of an answer that an error repeats.
LONGEST: Final = 300
SECOND: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; the names of its headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: What is not to be repeated: receivers quote the token that they refuse.
    secrets: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = self.shown(self.body[: 4 * LONGEST].decode(errors="replace"))
        return f"{self.status}{f': {said}' if said else ''}"

    def shown(self, text: str) -> str:
        """A text of the receiver's as an error repeats it: on one line, its beginning, and without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())[:LONGEST]


def check_reply(reply: Reply, count: int, now_us: int | None = None) -> None:
    """Return if a parcel of so many measurements has arrived; otherwise raise why it has not."""
    status = reply.status
    if status == HTTPStatus.MULTI_STATUS:
        _check_each(_verdicts(reply, count))
    elif _is_fine(status):
        return
    elif status in THROTTLED:
        raise Throttled(f"the receiver answered {reply}", retry_after=pause_of(reply.headers, now_us))
    elif _comes_again(status) or status in OURS or status < HTTPStatus.BAD_REQUEST:
        raise Undelivered(f"the receiver answered {reply}")
    else:
        raise RefusedParcel(f"the receiver answered {reply}")


def pause_of(headers: Mapping[str, str], now_us: int | None = None) -> timedelta | None:
    """How long Retry-After asks to wait, a day at most: seconds, or until a date by the receiver's clock or ours."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        # Of twenty digits already the first few are more than a day; Python would not read thousands.
        return timedelta(seconds=min(int(text[:20]), LONGEST_PAUSE // SECOND))
    until, now = _date(text), _date(headers.get("date", "")) or (None if now_us is None else moment_of(now_us))
    if until is None or now is None:
        return None
    return min(max(until - now, timedelta()), LONGEST_PAUSE)


def _date(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        found = parsedate_to_datetime(text)
        return found if found.tzinfo else None
    return None


def _is_fine(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _comes_again(status: int) -> bool:
    return status in AGAIN or status in THROTTLED or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _check_each(verdicts: Mapping[int, tuple[int, str]]) -> None:
    wrong = {place: one for place, one in verdicts.items() if not _is_fine(one[0])}
    again = {place: why for place, (status, why) in wrong.items() if _comes_again(status)}
    refused = {place: why for place, (_, why) in wrong.items() if place not in again}
    if wrong:
        raise PartlyDelivered(refused=refused, again=again)


def _verdicts(reply: Reply, count: int) -> dict[int, tuple[int, str]]:
    """By the place of a measurement, its status and why."""
    try:
        answers = json.loads(reply.body)
        found = _by_place(answers["results"] if isinstance(answers, dict) else answers, count)
        return {place: (status, reply.shown(why)) for place, (status, why) in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Undelivered(
            f"expected an answer for each measurement, [{{index, status, error}}, …], the receiver answered {reply}"
        ) from error


def _by_place(answers: list[Any], count: int) -> dict[int, tuple[int, str]]:
    """What is not named is fine, if the others are named by their index."""
    found = dict(_verdict(place, one, count) for place, one in enumerate(answers))
    if len(found) != len(answers) or (len(found) != count and not all("index" in one for one in answers)):
        raise ValueError(f"{len(answers)} answers to {count} measurements")
    return found


def _verdict(place: int, one: Mapping[str, Any], count: int) -> tuple[int, tuple[int, str]]:
    index, status = one.get("index", place), one["status"]
    if type(index) is not int or type(status) is not int or not 0 <= index < count:
        raise ValueError(f"no answer to one of {count} measurements: {one!r}"[:LONGEST])
    said = one.get("error")
    return index, (status, f"{status}: {said}" if said else str(status))
