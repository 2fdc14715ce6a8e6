"""Stage 4: what a topic is made with."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from batchline.core.moment import check_span, span_us
from batchline.core.name import check_name
from batchline.errors import InvalidRules, shown

__all__ = ["DEAD", "LONGEST_LEASE", "Topic", "dead_letter_topics", "dead_letters_of", "span_ms"]

LONGEST_LEASE: Final = timedelta(hours=12)
MOST_BUCKETS: Final = 1 << 20
MOST_ATTEMPTS: Final = 1 << 30
MILLISECOND_US: Final = 1_000
#: What is added to a topic's name for the parcels that nobody takes.
DEAD: Final = "-dead"


def span_ms(span: timedelta) -> int:
    """The length of a span in milliseconds, rounded up."""
    return -(-span_us(span) // MILLISECOND_US)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its rules."""

    name: str
    #: Into how many buckets its messages fall; consumers share them.
    buckets: int = 1024
    #: How far in the future a message may be.
    max_ahead: timedelta = timedelta(days=365)
    #: How long a lease is unless the consumer says otherwise; and the longest, per step.
    lease: timedelta = timedelta(minutes=5)
    longest_lease: timedelta = LONGEST_LEASE
    #: How many times a message may be leased before it goes to the dead-letter topic; None for any number.
    max_attempts: int | None = None
    #: The topic to which messages go that were leased too often.
    dead_letter: str | None = None
    #: Messages a second that a producer group may create, with up to a second's worth at once; None for any number.
    rate_limit: float | None = None
    #: How long the id of a message that is done stays taken, so that a repeated `create` answers `exists`. Choose it
    #: longer than producers repeat calls.
    keep: timedelta = timedelta(minutes=1)
    #: Whether it is being deleted: it takes no more messages.
    deleted: bool = False
    #: Whether parcels, or their dead letters, are on it: then a token must name it to change anything on it.
    internal: bool = False
    #: How a store calls it.
    number: int = 0

    def __post_init__(self) -> None:
        check_name("the name of a topic", self.name)
        _check_number("buckets", self.buckets, MOST_BUCKETS)
        check_span("max_ahead", self.max_ahead, 0)
        check_span("keep", self.keep, 0)
        for name in ("lease", "longest_lease"):
            span = getattr(self, name)
            check_span(name, span, MILLISECOND_US)
            if span > LONGEST_LEASE:
                raise InvalidRules(f"{name} must be at most 12 hours, got {span!r}")
        if self.lease > self.longest_lease:
            raise InvalidRules(f"lease must be at most longest_lease ({self.longest_lease!r}), got {self.lease!r}")
        self._check_dead_letter()
        _check_rate(self.rate_limit)

    def _check_dead_letter(self) -> None:
        if self.max_attempts is not None:
            _check_number("max_attempts", self.max_attempts, MOST_ATTEMPTS)
        if (self.max_attempts is None) != (self.dead_letter is None):
            raise InvalidRules(
                "max_attempts and dead_letter go together: after so many leases a message goes to that topic; "
                f"got max_attempts {self.max_attempts!r}, dead_letter {self.dead_letter!r}"
            )
        if self.dead_letter is not None and check_name("the dead-letter topic", self.dead_letter) == self.name:
            raise InvalidRules(f"a topic cannot be its own dead-letter topic, got {self.name!r}")

    def is_exhausted(self, attempts: int) -> bool:
        """Whether a message that was leased so many times may not be leased again."""
        return self.max_attempts is not None and attempts >= self.max_attempts

    def latest_ms(self, now_ms: int) -> int:
        """Return the last millisecond at which a message may be due.

        It is `max_ahead` from now. The rest of now's millisecond counts too, since due times are rounded up.
        """
        return now_ms + 1 + span_ms(self.max_ahead)

    def kept_since_ms(self, now_ms: int) -> int:
        """Return the earliest end of a message whose record is still kept.

        A topic that is being deleted keeps none: it takes no calls that would be recognised by them.
        """
        return now_ms + 1 - (0 if self.deleted else span_ms(self.keep))

    def lease_ms(self, duration: timedelta | None) -> int:
        """The length of a lease in milliseconds: the one asked for, if the topic allows it."""
        if duration is None:
            return span_ms(self.lease)
        check_span("the duration of a lease", duration, MILLISECOND_US)
        if duration > self.longest_lease:
            raise InvalidRules(
                f"topic {self.name!r} leases for at most {self.longest_lease!r} at a time, got {duration!r}: "
                "extend the lease while you work"
            )
        return span_ms(duration)


def dead_letters_of(topic: str) -> str:
    """The topic to which parcels of a topic go that nobody takes."""
    return f"{topic}{DEAD}"


def dead_letter_topics(topics: Iterable[Topic]) -> set[str]:
    """Names of topics for dead letters of others: those that these name, and those of parcels, named after theirs."""
    return {name for one in topics for name in (one.dead_letter, dead_letters_of(one.name)) if name is not None}


def _check_number(name: str, number: object, most: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise InvalidRules(f"{name} must be a whole number from 1 to {most:,}, got {shown(number)}")


def _check_rate(rate: object) -> None:
    if rate is None:
        return
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate <= 1e9:
        raise InvalidRules(f"rate_limit must be messages a second, above 0, or None for any number, got {rate!r}")
