"""Stage 4: due times. A caller names a moment (`at`), or a span from now by the broker's clock (`after`).

    at      a time with a zone, or milliseconds since the epoch; a time is rounded up to a whole millisecond
    after   a span; now + after is rounded up to a whole millisecond, so that nothing is delivered early

A client does not know the broker's clock. There a span stays a span, as a number below 0, until the broker resolves it.
"""

from datetime import datetime, timedelta
from typing import Final

from batchline.core.moment import LATEST_US, LONGEST_SPAN_US, moment_of, span_us, us_of
from batchline.errors import InvalidMessage, shown

__all__ = [
    "AT_ONCE",
    "LATEST_MS",
    "LONGEST_AFTER_MS",
    "Due",
    "after_ms_of",
    "check_at",
    "check_due",
    "check_either",
    "moment_ms",
    "ms_of",
    "resolve_after",
]

#: When a message is due: a moment, or a span from now by the broker's clock.
Due = datetime | int | timedelta
#: Milliseconds that every database, and a `datetime`, can hold.
LATEST_MS: Final = LATEST_US // 1_000
LONGEST_AFTER_MS: Final = LONGEST_SPAN_US // 1_000
#: A span of 0 that the broker resolves: due as soon as it arrives there. Longer spans are below it.
AT_ONCE: Final = -1


def ms_of(moment: datetime) -> int:
    """The first whole millisecond that is not before a moment: nothing is delivered early."""
    return -(-us_of(moment) // 1_000)


def moment_ms(ms: int) -> datetime:
    """Return the moment that is this many milliseconds after the epoch."""
    return moment_of(ms * 1_000)


def check_at(what: str, at: object, *, up: bool = True) -> int:
    """Return a moment in milliseconds, from a time with a zone, rounded up or down, or from a number of them."""
    if isinstance(at, datetime):
        try:
            ms = ms_of(at) if up else us_of(at) // 1_000
        except (ValueError, OverflowError) as error:
            raise InvalidMessage(f"{what}: {error}") from error
        return min(max(ms, 0), LATEST_MS)
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= LATEST_MS:
        raise InvalidMessage(
            f"{what} must be a time with a time zone, or milliseconds since 1970 from 0 to {LATEST_MS}, got {shown(at)}"
        )
    return at


def resolve_after(what: str, at: object, after: object, now_us: int | None) -> int:
    """Return the moment of a span from now in milliseconds; without `now_us`, the span as a number below 0.

    `at` is refused beside it.
    """
    if at is not None:
        raise InvalidMessage(f"{what} is given by at and by after, expected one of them: leave one out")
    if not isinstance(after, timedelta):
        raise InvalidMessage(f"{what}: after must be a timedelta, got {shown(after)}: give a moment as at")
    after_us = span_us(after)
    if not 0 <= after_us <= LONGEST_SPAN_US:
        raise InvalidMessage(
            f"{what}: after must be 0 or longer and at most 36,500 days, got {after!r}: give a past moment as at"
        )
    if now_us is None:
        return AT_ONCE - -(-after_us // 1_000)
    # A span of 0 is due in the millisecond that has begun: it cannot be early.
    return min(-(-(now_us + after_us) // 1_000), LATEST_MS) if after_us else now_us // 1_000


def check_due(what: str, due: object, now_us: int | None) -> int:
    """Return a moment, or the moment of a span from now, in milliseconds; see `resolve_after`."""
    return resolve_after(what, None, due, now_us) if isinstance(due, timedelta) else check_at(what, due)


def check_either(what: str, at: object, after: object, now_us: int | None) -> int | None:
    """Return the due time that `at` or `after` names in milliseconds, or None if neither is given."""
    if after is not None:
        return resolve_after(what, at, after, now_us)
    return None if at is None else check_at(what, at)


def after_ms_of(due_ms: int) -> int | None:
    """Return the milliseconds of a span that the broker is to resolve; None for a moment."""
    return AT_ONCE - due_ms if due_ms <= AT_ONCE else None
