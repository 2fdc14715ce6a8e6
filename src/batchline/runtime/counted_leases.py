"""Leases that are counted: how often their keeper is called, and for what."""

from collections import Counter
from collections.abc import Sequence

from batchline.core.partitions import Asking
from batchline.leases.lease_manager import LeaseManager, Provisioned

__all__ = ["CountedLeases"]


class CountedLeases(LeaseManager):
    """Another's leases; `calls` tells how often each verb was called, by any who were given the same."""

    def __init__(self, leases: LeaseManager, calls: Counter[str]):
        self.resource = leases.resource
        self.calls = calls
        self._leases = leases

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:
        """Create what is missing, and verify what is there."""
        self.calls["provision"] += 1
        return self._leases.provision(count, size, now_us, replace=replace)

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:
        """Say what an instance wants and holds, and learn what all said."""
        self.calls["ask"] += 1
        return self._leases.ask(asking, lease_ms, now_us)

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        """Lease at most so many of these partitions."""
        self.calls["acquire"] += 1
        return self._leases.acquire(instance, partitions, most, lease_ms, now_us)

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        """Hold these partitions for another lease."""
        self.calls["renew"] += 1
        return self._leases.renew(instance, partitions, lease_ms, now_us)

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:
        """Give partitions back."""
        self.calls["release"] += 1
        self._leases.release(instance, partitions, now_us)

    def holders(self, now_us: int) -> dict[int, str]:
        """Who holds which partition now."""
        self.calls["holders"] += 1
        return self._leases.holders(now_us)

    def close(self) -> None:
        """Close the other."""
        self._leases.close()
