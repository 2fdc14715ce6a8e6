"""When to try again: later each time, and not all at the same moment."""

from dataclasses import dataclass
from datetime import timedelta

from batchline.core.moment import check_span
from batchline.core.topic import span_ms
from batchline.errors import InvalidRules

__all__ = ["RetryRules"]


@dataclass(frozen=True, slots=True)
class RetryRules:
    """Exponential back-off: after the first failure `first`, then `factor` times as long each time, up to `longest`."""

    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    longest: timedelta = timedelta(hours=1)
    #: The part of the pause that chance decides, so that what failed together does not come back together.
    jitter: float = 0.1

    def __post_init__(self) -> None:
        check_span("first", self.first, 1_000)
        check_span("longest", self.longest, 1_000)
        _check_number("factor", self.factor, 1, 100)
        _check_number("jitter", self.jitter, 0, 1)

    def pause_ms(self, attempts: int, chance: float) -> int:
        """How long to wait after so many attempts; `chance` is a random number from 0 to 1."""
        longest = span_ms(self.longest)
        try:
            whole = min(span_ms(self.first) * self.factor ** (attempts - 1), longest)
        except OverflowError:
            whole = longest
        return max(1, round(whole * (1 - self.jitter * chance)))


def _check_number(name: str, number: object, least: int, most: int) -> None:
    if not isinstance(number, int | float) or isinstance(number, bool) or not least <= number <= most:
        raise InvalidRules(f"{name} must be a number from {least} to {most}, got {number!r}")
