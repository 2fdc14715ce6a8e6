"""Moments and spans: `datetime` and `timedelta` at the edges, whole microseconds since the epoch (UTC) inside."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from batchline.errors import InvalidRules

__all__ = [
    "AFTER_ALL_US",
    "BEFORE_ALL_US",
    "EARLIEST_RECEIVE_US",
    "EARLIEST_US",
    "LATEST_RECEIVE_US",
    "LATEST_US",
    "LONGEST_SPAN_US",
    "check_span",
    "moment_of",
    "span_of",
    "span_text",
    "span_us",
    "us_of",
]

#: Before and after every moment that 64 bits can hold.
BEFORE_ALL_US: Final = -(2**63)
AFTER_ALL_US: Final = 2**63 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
SPAN: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(us|µs|ms|s|m|h|d)\s*")


def us_of(moment: datetime) -> int:
    """Microseconds since the epoch, finer parts rounded down. A naive time names no moment: a ValueError."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"expected a time with a time zone, got the naive {moment.isoformat()}")
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment_of(us: int) -> datetime:
    """The moment, in UTC, that lies so many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=us)


def span_us(span: timedelta) -> int:
    """The length of a span in microseconds."""
    return span // MICROSECOND


def span_of(text: str) -> timedelta:
    """The span that a text such as `500ms`, `1.5s`, `2m`, `1h` or `1d` names; anything else is a ValueError."""
    match = SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a span such as 500ms, 1.5s, 2m, 1h or 1d, got {text!r}")
    number, unit = match.groups()
    return timedelta(microseconds=float(number) * UNITS_US[unit.replace("µ", "u")])


def span_text(span: timedelta) -> str:
    """A span as `span_of` reads it, in the largest unit that holds it whole."""
    us = span_us(span)
    unit = next(unit for unit in reversed(UNITS_US) if us % UNITS_US[unit] == 0 and (us or unit == "s"))
    return f"{us // UNITS_US[unit]}{unit}"


#: The moments that a `datetime` can be.
EARLIEST_US: Final = us_of(datetime.min.replace(tzinfo=UTC))
LATEST_US: Final = us_of(datetime.max.replace(tzinfo=UTC))
# A window starts at most a delay before a receive time and ends at most a window after it: with receive times and spans
# in these bounds every time the rule computes is a valid datetime, and fits 64 bits in the compiled form.
EARLIEST_RECEIVE_US = us_of(datetime(1000, 1, 1, tzinfo=UTC))
LATEST_RECEIVE_US = us_of(datetime(9000, 1, 1, tzinfo=UTC))
LONGEST_SPAN_US = span_us(timedelta(days=36_500))


def check_span(name: str, span: object, least_us: int) -> None:
    """A rule's span is one, at least so long, and at most a century; else InvalidRules."""
    if not isinstance(span, timedelta):
        raise InvalidRules(f"{name} must be a timedelta, got {span!r} ({type(span).__name__})")
    if not least_us <= span_us(span) <= LONGEST_SPAN_US:
        words = {0: "0 or longer", 1: "longer than 0"}
        least = words.get(least_us) or f"{span_text(timedelta(microseconds=least_us))} or longer"
        raise InvalidRules(f"{name} must be {least} and at most 36,500 days, got {span!r}")
