"""What the packer answers: parcels, and the measurements that fit in none."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from batchline.core.measurement import Measurement
from batchline.core.moment import moment_of

__all__ = ["Packed", "Parcel", "group_id", "piece_id"]


@dataclass(frozen=True, slots=True)
class Parcel:
    """What goes to the receiver in one request."""

    #: The name of the first group it holds: the same data gives the same id on every replay.
    id: str
    #: 1, 2, 3, … in the order in which parcels are to be sent.
    number: int
    #: The subjects it holds, each once, in order of their names.
    subjects: tuple[str, ...]
    #: Its measurements, group after group in order of time and subject.
    measurements: tuple[Measurement, ...]

    @property
    def items(self) -> int:
        """How many measurements it holds."""
        return len(self.measurements)

    @property
    def bytes(self) -> int:
        """Their sizes together; one without a size counts 0."""
        return sum(measurement.size or 0 for measurement in self.measurements)

    @property
    def first_time(self) -> datetime:
        """The earliest event time in it."""
        return moment_of(min(measurement.event_us for measurement in self.measurements))

    @property
    def last_time(self) -> datetime:
        """The latest event time in it."""
        return moment_of(max(measurement.event_us for measurement in self.measurements))


class Packed(list[Parcel]):
    """The parcels in the order in which they are to be sent, and what was rejected."""

    def __init__(self, parcels: Iterable[Parcel] = (), rejected: Iterable[Measurement] = ()) -> None:
        super().__init__(parcels)
        #: The measurements that are `oversize`: larger than max_bytes alone. In pack order.
        self.rejected = list(rejected)


def group_id(subject: str, time_us: int) -> str:
    """The name of what a subject measured at one moment."""
    return f"{subject}@{time_us}"


def piece_id(group: str, piece: int) -> str:
    """The name of a piece of a group that had to be cut; the first piece, and a whole group, bear the group's own.

    Not `.1`, which is how stage 1 names the second batch of a start.
    """
    return f"{group}-{piece}" if piece else group
