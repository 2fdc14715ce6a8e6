"""Capacity over HTTP: what is shared, who holds what, and what is used of it."""

from batchline.wire.form import AnswerForm, Name

__all__ = ["Capacities", "InstanceForm", "ResourceForm"]


class InstanceForm(AnswerForm, omit_defaults=False, kw_only=True):
    """Somebody who uses a capacity, as the store and its last report know it."""

    #: By which name it holds partitions; null if its capacity is its own.
    instance: Name | None = None
    #: The worker that it is, if it reports.
    worker: Name | None = None
    topic: Name | None = None
    #: The numbers of the partitions that it holds, and when the first of their leases ends.
    partitions: list[int]
    until: str | None = None
    #: How many partitions it asks for, and when it last said so.
    asks_for: int | None = None
    heard: str | None = None
    #: How much it may use, could use, and has used a second.
    granted: float | None = None
    wanted: float | None = None
    used: float | None = None
    #: What waits for capacity, whether it is paused now, and how often it was.
    waiting: int | None = None
    paused: bool = False
    pauses: int | None = None


class ResourceForm(AnswerForm, omit_defaults=False, kw_only=True):
    """A capacity: one that instances share, or a worker's own."""

    name: Name
    shared: bool
    #: How much there is a second, in which unit; null where nobody has reported it.
    limit: float | None = None
    cost: str | None = None
    #: Of a shared one that is kept in this store: what was provisioned, in how many partitions.
    size: str | None = None
    partitions: int | None = None
    used: float | None = None
    instances: list[InstanceForm]


class Capacities(AnswerForm, omit_defaults=False):
    """All capacities, the shared ones first, by name."""

    resources: list[ResourceForm]
    now: str
