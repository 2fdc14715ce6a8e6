"""Moments and spans: `datetime` and `timedelta` at the edges, whole microseconds since the epoch (UTC) inside."""

from datetime import UTC, datetime, timedelta

__all__ = ["EARLIEST_RECEIVE_US", "LATEST_RECEIVE_US", "LONGEST_SPAN_US", "moment_of", "span_us", "us_of"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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


# A window starts at most a delay before a receive time and ends at most a window after it: with receive times and spans
# in these bounds every time the rule computes is a valid datetime, and fits 64 bits in the compiled form.
EARLIEST_RECEIVE_US = us_of(datetime(1000, 1, 1, tzinfo=UTC))
LATEST_RECEIVE_US = us_of(datetime(9000, 1, 1, tzinfo=UTC))
LONGEST_SPAN_US = span_us(timedelta(days=36_500))
