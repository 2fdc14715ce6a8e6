"""Leases in a store of ours: in its tables, by its clock."""

from collections.abc import Sequence

from batchline.core.name import check_name
from batchline.core.partitions import Asking
from batchline.leases.checks import acquired_from, check_asking, check_lease, check_provision, distinct_partitions
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.stores.sharing import (
    acquire_partitions,
    ask_for_partitions,
    partition_holders,
    provision_resource,
    release_partitions,
    renew_partitions,
)
from batchline.stores.store import Store

__all__ = ["StoreLeases"]


class StoreLeases(LeaseManager):
    """Leases in any store. Each verb is one transaction, of a few statements for however many partitions.

    The clock is the database's, and for `memory://` the caller's. A store that is not there is tried again for as long
    as its own patience lasts.
    """

    def __init__(self, store: Store, resource: str, *, close_store: bool = False):
        self.resource = check_name("resource", resource)
        self._store = store
        self._close_store = close_store

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:
        """Create what is missing, and verify what is there; created is whether the resource is new in this store."""
        check_provision(count, size)
        made = self._store.transact(
            lambda rows: provision_resource(rows, self.resource, count, size, _ms(now_us), replace=replace)
        )
        return Provisioned(self._store.url, made.resource, made.created, made.verified)

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:
        """Say what an instance wants and holds, and learn what all said within a lease."""
        check_asking(asking)
        check_lease(lease_ms)
        return self._store.transact(
            lambda rows: ask_for_partitions(rows, self.resource, asking, lease_ms, _ms(now_us)),
        )

    def acquire(self, instance: str, partitions: Sequence[int], most: int, lease_ms: int, now_us: int) -> list[int]:
        """Lease at most so many of these partitions, tried in this order."""
        numbers = acquired_from(instance, partitions, most)
        check_lease(lease_ms)
        if not numbers:
            return []
        return self._store.transact(
            lambda rows: acquire_partitions(rows, self.resource, instance, numbers, most, lease_ms, _ms(now_us))
        )

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:
        """Hold these partitions for another lease from now; tells which it still held."""
        numbers = distinct_partitions(instance, partitions)
        check_lease(lease_ms)
        if not numbers:
            return []
        return self._store.transact(
            lambda rows: renew_partitions(rows, self.resource, instance, numbers, lease_ms, _ms(now_us))
        )

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:  # noqa: ARG002 - at any time
        """Give partitions back."""
        numbers = distinct_partitions(instance, partitions)
        if numbers:
            self._store.transact(lambda rows: release_partitions(rows, self.resource, instance, numbers))

    def holders(self, now_us: int) -> dict[int, str]:
        """Who holds which partition now."""
        return self._store.read(lambda rows: partition_holders(rows, self.resource, _ms(now_us)))

    def close(self) -> None:
        """Close the store, if it was opened for this manager."""
        if self._close_store:
            self._store.close()


def _ms(now_us: int) -> int:
    return now_us // 1_000
