"""What the batcher answers: a verdict per message, and closed batches."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

from batchline.core.measurement import Measurement
from batchline.core.moment import moment_of

__all__ = ["Batch", "CloseReason", "Verdict", "batch_id"]


class Verdict(Enum):
    """What became of a message; the value is the word used in every table, file and metric."""

    BATCHED = "batched"
    LATE = "late"
    FUTURE = "future"
    DUPLICATE = "duplicate"
    OVERSIZE = "oversize"

    @property
    def accepted(self) -> bool:
        """Whether the message is in a batch."""
        return self is Verdict.BATCHED

    @property
    def reason(self) -> str | None:
        """Why the message was rejected; None when it was not."""
        return None if self is Verdict.BATCHED else self.value


class CloseReason(StrEnum):
    """Why a batch closed."""

    TIMEOUT = "timeout"
    FULL = "full"
    FLUSH = "flush"


@dataclass(frozen=True, slots=True)
class Batch:
    """A closed batch: what a key generated within one window."""

    key: str
    #: The window `[start_us, end_us)`, in microseconds since the epoch.
    start_us: int
    end_us: int
    #: The moment from which no message of the window is accepted any more.
    timeout_us: int
    #: The clock at which it closed; at a flush, the clock of its key.
    closed_at_us: int
    close_reason: CloseReason
    #: 0, or 1, 2, … for the batches that follow one closed at the same start.
    ordinal: int
    #: Its messages in order of event time, then type.
    messages: tuple[Measurement, ...]

    @property
    def id(self) -> str:
        """`key@start`, unique within the key: the same data gives the same id on every replay."""
        return batch_id(self.key, self.start_us, self.ordinal)

    @property
    def start(self) -> datetime:
        """The first moment of the window."""
        return moment_of(self.start_us)

    @property
    def end(self) -> datetime:
        """The first moment after the window."""
        return moment_of(self.end_us)

    @property
    def timeout(self) -> datetime:
        """The moment from which no message of the window is accepted any more."""
        return moment_of(self.timeout_us)

    @property
    def closed_at(self) -> datetime:
        """The clock at which it closed."""
        return moment_of(self.closed_at_us)


def batch_id(key: str, start_us: int, ordinal: int) -> str:
    """The name of a batch, derived from the data alone."""
    return f"{key}@{start_us}.{ordinal}" if ordinal else f"{key}@{start_us}"
