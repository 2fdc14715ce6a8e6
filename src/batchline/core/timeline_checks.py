"""What a call of the timeline may say, checked before anything is done: by the timeline, and by a client of it."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

from batchline.core.due_time import Due, check_at, check_due, resolve_after
from batchline.core.future_load import Range
from batchline.core.message import check_id, made_place
from batchline.errors import InvalidCount, InvalidInput, InvalidMessage, shown

__all__ = [
    "LEASED_BYTES",
    "LONGEST_PAGE",
    "MOST_BINS",
    "MOST_BYTES",
    "MOST_CALL_NUMBER",
    "MOST_LEASED",
    "MOST_VERSIONS",
    "check_after",
    "check_buckets",
    "check_call_number",
    "check_many",
    "check_moves",
    "check_number",
    "check_range",
    "check_session",
    "check_speed",
]

T = TypeVar("T")
MOST_LEASED: Final = 10_000
#: Bytes of bodies that one call hands out, unless it is asked for others; and the most that it may be asked for.
LEASED_BYTES: Final = 8 << 20
MOST_BYTES: Final = 1 << 30
MOST_VERSIONS: Final = (1 << 31) - 1
LONGEST_PAGE: Final = 10_000
MOST_BINS: Final = 10_000
#: Numbers of bundles and spots begin with it.
#: Below what every database holds, with room for the numbers that follow it.
MOST_CALL_NUMBER: Final = (1 << 63) - (1 << 20)
#: The largest number that every database holds, less those that newer sessions take after one.
MOST_SESSION: Final = (1 << 63) - (1 << 32)


def check_many(values: Iterable[T], what: str) -> Iterable[T]:
    """Many of something; a text is one."""
    if isinstance(values, str):
        raise InvalidInput(f"expected a list of {what}, got the text {values[:300]!r}")
    return values


def check_moves(
    moments: Mapping[str, Due] | Iterable[str], after: timedelta | None, now_us: int | None
) -> dict[str, int]:
    """Return the new due times of messages by id: each has its own, or all of the ids have one span."""
    if isinstance(moments, Mapping):
        if after is not None:
            raise InvalidInput("move got a due time for each id and after for all, expected one of them: leave one out")
        return {check_id(id): check_due("the moment of a message", due, now_us) for id, due in moments.items()}
    if after is None:
        raise InvalidInput("move got ids without a due time: give each id its moment or span, or give after for all")
    due_ms = resolve_after("the moment of a message", None, after, now_us)
    ids = [check_id(id) for id in check_many(moments, "ids")]
    moved = dict.fromkeys(ids, due_ms)
    if len(moved) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise InvalidMessage(f"the id {twice!r} is given twice in one call, expected each once: leave one out")
    return moved


def check_range(from_: datetime | int, to: datetime | int) -> Range:
    """A range of moments."""
    return Range(check_at("the beginning of a range", from_), check_at("the end of a range", to))


def check_buckets(buckets: object, most: int) -> range:
    """A range of a topic's buckets."""
    if not isinstance(buckets, range) or buckets.step != 1 or not 0 <= buckets.start <= buckets.stop <= most:
        raise InvalidInput(f"buckets must be a range within {most} buckets, got {shown(buckets)}")
    return buckets


def check_number(name: str, number: object, most: int) -> None:
    """A whole number up to the most."""
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise InvalidCount(f"{name} must be a whole number from 1 to {most:,}, got {shown(number)}")


def check_session(session: object) -> None:
    """Refuse a value that is not the number of a session; None means no session."""
    if session is not None:
        check_number("session", session, MOST_SESSION)


def check_call_number(number: object, transactions: int) -> None:
    """The number of a call that can be repeated: then it is whole, or has not been."""
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_CALL_NUMBER:
        raise InvalidInput(f"call_number must be a whole number from 1 to {MOST_CALL_NUMBER}, got {shown(number)}")
    if transactions > 1:
        raise InvalidInput("a call with a number has at most 5,000 messages, and 8 MiB of bodies: make several calls")


def check_speed(speed: object) -> None:
    """Messages a second."""
    if not isinstance(speed, int | float) or isinstance(speed, bool) or not 0 <= speed < float("inf"):
        raise InvalidCount(f"messages_per_second must be a number, 0 or above, got {shown(speed)}")


def check_after(cursor: object) -> tuple[int, int]:
    """The place that the `next` of a page names."""
    if cursor is None:
        return (0, -1)
    place = made_place(cursor) if isinstance(cursor, str) else None
    if place is None:
        raise InvalidInput(f"after must be the next of the page before, got {shown(cursor)}")
    return place
