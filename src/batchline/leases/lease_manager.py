"""What a lease manager is: leases on the partitions of one shared capacity, and a place to say what one wants."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from batchline.core.partitions import Asking

__all__ = ["LeaseManager", "Provisioned"]


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What `provision` found and made."""

    #: Where the partitions are, as people may see it.
    where: str
    #: Whether that place was made now.
    created: bool
    created_partitions: list[int] = field(default_factory=list)
    verified_partitions: list[int] = field(default_factory=list)


class LeaseManager(ABC):
    """Leases on partitions 0, 1, 2, … of one resource. Threads may share it.

    A lease is a right until it runs out by the clock of whoever keeps it, which no instance reads: where the keeper has
    no clock of its own (memory), `now_us` is it. Every verb can be repeated when its answer was lost. A keeper that
    does not answer is StoreUnavailable.
    """

    #: What is shared: instances that name the same share it.
    resource: str

    @abstractmethod
    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:
        """Create what is missing of so many partitions, and verify what is there.

        `size` says what they are worth: ResourceMismatch if they were provisioned with another, unless `replace`.
        Partitions beyond `count` are left alone.
        """

    @abstractmethod
    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:
        """Say what an instance wants and holds, and learn what all others said within a lease, this one included.

        An instance that wants and holds nothing is forgotten at once; one that is not heard of, after a lease.
        """

    @abstractmethod
    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        """Lease at most so many of these partitions, tried in this order; tells which.

        Those that others hold are passed over; one that this instance holds already counts, and is renewed.
        """

    @abstractmethod
    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        """Hold these partitions for another lease from now; tells which it still held. The others are lost."""

    @abstractmethod
    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:
        """Give partitions back; those that it does not hold are left alone."""

    @abstractmethod
    def holders(self, now_us: int) -> dict[int, str]:
        """Who holds which partition now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever this manager opened itself; leases stay until they run out."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
