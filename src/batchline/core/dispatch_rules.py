"""The options of a dispatcher, checked once when it is built."""

from dataclasses import dataclass
from datetime import timedelta

from batchline.core.moment import check_span
from batchline.core.operation import check_count
from batchline.core.retry import RetryRules
from batchline.errors import InvalidRules, shown

__all__ = ["DispatchRules"]


@dataclass(frozen=True)
class DispatchRules:
    """How much is kept, how often things are done, how long to wait."""

    #: How many operations may wait.
    buffer: int = 10_000
    #: How often operations are sent.
    flush_interval: timedelta = timedelta(milliseconds=100)
    #: How often the limiter is asked for capacity.
    capacity_interval: timedelta = timedelta(milliseconds=100)
    #: How often the books are looked over.
    audit_interval: timedelta = timedelta(seconds=10)
    #: After so long a batch gives its cost back, whether its callback has ended or not.
    max_operation_time: timedelta = timedelta(minutes=1)
    #: For how long `pause` stops everything.
    pause_time: timedelta = timedelta(milliseconds=500)
    #: Whether a full buffer is an error, and not something to wait for.
    error_on_full_buffer: bool = False
    #: Whether each batch is told to listeners, with its operations.
    emit_batch: bool = False
    #: How many batches may be with their callbacks at once; None for any number.
    max_concurrent_batches: int | None = None
    #: How long to pause when the receiver is throttling; None begins with the pause time, and doubles up to 30 seconds.
    backoff: RetryRules | None = None
    #: After so long without throttling the pauses begin from the first again.
    calm: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        for name in ("flush", "capacity", "audit"):
            check_span(f"{name}_interval", getattr(self, f"{name}_interval"), 1)
        check_span("max_operation_time", self.max_operation_time, 1)
        check_span("pause_time", self.pause_time, 1_000)
        check_span("calm", self.calm, 0)
        if self.buffer is None:
            raise InvalidRules("buffer must be a whole number from 1 on, got None")
        check_count("buffer", self.buffer)
        check_count("max_concurrent_batches", self.max_concurrent_batches)
        for name in ("error_on_full_buffer", "emit_batch"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidRules(f"{name} must be true or false, got {shown(getattr(self, name))}")
        if not isinstance(self.backoff, RetryRules | None):
            raise InvalidRules(f"backoff must be RetryRules, got {shown(self.backoff)}")

    @property
    def pauses(self) -> RetryRules:
        """How long to pause the first time the receiver throttles, the second, and so on."""
        if self.backoff is not None:
            return self.backoff
        longest = max(timedelta(seconds=30), self.pause_time)
        return RetryRules(first=self.pause_time, longest=longest, jitter=0.5)
