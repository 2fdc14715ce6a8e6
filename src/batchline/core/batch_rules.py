"""The rules a batcher follows, checked when they are built."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from batchline.core.moment import check_span, span_us
from batchline.errors import InvalidRules, check_choice

__all__ = ["ANCHORS", "SPLITS", "BatchRules"]

ANCHORS: Final = ("arrival", "lookback", "event", "aligned")
SPLITS: Final = ("later", "midpoint")
LARGEST_BATCH_BYTES: Final = 2**62


@dataclass(frozen=True, slots=True)
class BatchRules:
    """How messages become batches; see `docs/explanation/batcher.md`."""

    #: Longest stretch of event time that one batch covers.
    window: timedelta = timedelta(milliseconds=500)
    #: How long after its event time a message may be received and still be accepted.
    max_delay: timedelta = timedelta(milliseconds=400)
    #: How far ahead of the clock an event time may lie.
    leap_limit: timedelta = timedelta(milliseconds=400)
    #: Largest batch in bytes; None for no limit.
    max_bytes: int | None = None
    #: Where a new window starts: "arrival", "lookback", "event" or "aligned".
    anchor: str = "arrival"
    #: Where two messages of one type part: "later" or, with the anchor "event", "midpoint".
    split: str = "later"

    def __post_init__(self) -> None:
        check_span("window", self.window, least_us=1)
        check_span("max_delay", self.max_delay, least_us=0)
        check_span("leap_limit", self.leap_limit, least_us=0)
        _check_max_bytes(self.max_bytes)
        check_choice("anchor", self.anchor, ANCHORS, InvalidRules)
        check_choice("split", self.split, SPLITS, InvalidRules)
        if self.split == "midpoint" and self.anchor != "event":
            raise InvalidRules(f"split 'midpoint' needs the anchor 'event', got the anchor {self.anchor!r}")

    @property
    def window_us(self) -> int:
        """The window in microseconds."""
        return span_us(self.window)

    @property
    def max_delay_us(self) -> int:
        """The max delay in microseconds."""
        return span_us(self.max_delay)

    @property
    def leap_limit_us(self) -> int:
        """The leap limit in microseconds."""
        return span_us(self.leap_limit)

    def as_data(self) -> dict[str, Any]:
        """The rules as plain data, for snapshots and files: spans in microseconds."""
        return {
            "window_us": self.window_us,
            "max_delay_us": self.max_delay_us,
            "leap_limit_us": self.leap_limit_us,
            "max_bytes": self.max_bytes,
            "anchor": self.anchor,
            "split": self.split,
        }


def _check_max_bytes(max_bytes: object) -> None:
    if max_bytes is None:
        return
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool):
        raise InvalidRules(f"max_bytes must be a whole number or None, got {max_bytes!r} ({type(max_bytes).__name__})")
    if not 1 <= max_bytes <= LARGEST_BATCH_BYTES:
        raise InvalidRules(f"max_bytes must lie between 1 and 2**62, got {max_bytes}")
