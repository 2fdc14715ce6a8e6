"""Groups: the measurements that belong together and travel in one parcel."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from batchline.core.batch import Batch
from batchline.core.measurement import Measurement
from batchline.core.pack_rules import PackRules
from batchline.core.parcel import group_id
from batchline.errors import InvalidInput, InvalidMeasurement

__all__ = ["Group", "groups_of", "subject_of"]


@dataclass(eq=False)
class Group:
    """What one subject measured at one moment, or one batch of stage 1."""

    subject: str
    #: Its first event time; measurements that turn out oversize count here too.
    time_us: int
    id: str
    #: Those that fit into a parcel, in order of event time, type, key, receive time and size.
    members: list[Measurement] = field(default_factory=list)

    @cached_property
    def items(self) -> int:
        """How many measurements it holds."""
        return len(self.members)

    @cached_property
    def bytes(self) -> int:
        """Their sizes together."""
        return sum(member.size or 0 for member in self.members)


def subject_of(measurement: Measurement, split: str | None) -> str:
    """Whom a measurement is about; all whose type has no part before the separator are one subject, the empty one."""
    if split is None:
        return measurement.key
    subject, separator, _ = measurement.type.partition(split)
    return subject if separator else ""


def groups_of(things: Iterable[Any], rules: PackRules) -> tuple[list[Group], list[Measurement]]:
    """The groups in pack order, by time, subject and id, and the measurements that no parcel can hold."""
    groups = _of_batches(things) if rules.together == "batch" else _of_measurements(things, rules.split)
    ordered = sorted(groups, key=lambda group: (group.time_us, group.subject, group.id))
    rejected: list[Measurement] = []
    for group in ordered:
        group.members.sort(key=_place)
        if rules.max_bytes is not None:
            rejected += _reject(group, rules.max_bytes)
    return [group for group in ordered if group.members], rejected


def _of_measurements(measurements: Iterable[Any], split: str | None) -> Iterable[Group]:
    groups: dict[tuple[str, int], Group] = {}
    for measurement in measurements:
        if isinstance(measurement, Batch):
            raise InvalidMeasurement(f"expected a Measurement, got the Batch {measurement.id}; see together='batch'")
        if not isinstance(measurement, Measurement):
            raise InvalidMeasurement(f"expected a Measurement, got {measurement!r}")
        subject, time_us = subject_of(measurement, split), measurement.event_us
        group = groups.get((subject, time_us))
        if group is None:
            group = groups[subject, time_us] = Group(subject, time_us, group_id(subject, time_us))
        group.members.append(measurement)
    return groups.values()


def _of_batches(batches: Iterable[Any]) -> Iterable[Group]:
    """A group per batch; batches with the same key and id are one."""
    groups: dict[tuple[str, str], Group] = {}
    for batch in batches:
        if not isinstance(batch, Batch):
            raise InvalidInput(f"together='batch' packs Batch objects of stage 1, got {batch!r}")
        if batch.messages:
            time_us = min(message.event_us for message in batch.messages)
            group = groups.setdefault((batch.key, batch.id), Group(batch.key, time_us, batch.id))
            group.time_us = min(group.time_us, time_us)
            group.members += batch.messages
    return groups.values()


def _place(measurement: Measurement) -> tuple[int, str, str, int, int]:
    """Where a measurement stands in its group; those that tie in all of this stay as they came."""
    return (
        measurement.event_us,
        measurement.type,
        measurement.key,
        measurement.receive_us,
        measurement.size or 0,
    )


def _reject(group: Group, max_bytes: int) -> list[Measurement]:
    """Take out of the group what is larger than a parcel."""
    rejected: list[Measurement] = []
    kept: list[Measurement] = []
    for member in group.members:
        if member.size is None:
            raise InvalidMeasurement(f"max_bytes is set, so every measurement needs a size; {member!r} has none")
        (rejected if member.size > max_bytes else kept).append(member)
    group.members = kept
    return rejected
