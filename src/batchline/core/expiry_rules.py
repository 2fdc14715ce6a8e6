"""When a fanout without activity is given up, checked when it is built."""

from dataclasses import dataclass
from datetime import timedelta

from batchline.core.moment import check_span, span_us

__all__ = ["ExpiryRules"]


@dataclass(frozen=True, slots=True)
class ExpiryRules:
    """How long a fanout lives on without activity; see `docs/explanation/tracker.md`."""

    #: Without activity for so long while it is not sealed, it expires.
    unsealed: timedelta = timedelta(days=7)
    #: Without activity for so long after the seal, complete or not, it expires.
    sealed: timedelta = timedelta(days=30)
    #: For so long afterwards a late ack is answered `expired`; then its id is free again.
    tombstone: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        for name in ("unsealed", "sealed", "tombstone"):
            check_span(name, getattr(self, name), least_us=1)

    @property
    def unsealed_us(self) -> int:
        """The first span in microseconds."""
        return span_us(self.unsealed)

    @property
    def sealed_us(self) -> int:
        """The second span in microseconds."""
        return span_us(self.sealed)

    @property
    def tombstone_us(self) -> int:
        """The third span in microseconds."""
        return span_us(self.tombstone)
