"""The tables of shared capacity in the memory of this process: rows in dictionaries."""

from collections.abc import Sequence

from batchline.stores.capacity_rows import AskingRow, PartitionRow, ResourceRow
from batchline.stores.memory_tables import MemoryTables

__all__ = ["MemoryCapacityRows"]


class MemoryCapacityRows:
    """`CapacityRows` on dictionaries; who is in a transaction holds everything."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    # --- resources and partitions ---

    def resources(self) -> list[ResourceRow]:
        """All resources, by name."""
        return sorted(ResourceRow(name, size) for name, size in self._tables.resources.items())

    def insert_resource(self, name: str, size: str) -> bool:
        """A new resource; false if the name is taken."""
        if name in self._tables.resources:
            return False
        self._tables.resources[name] = size
        return True

    def hold_resource(self, name: str) -> str | None:
        """The size that a resource was provisioned with."""
        size: str | None = self._tables.resources.get(name)
        return size

    def write_resource(self, name: str, size: str) -> None:
        """Another size."""
        self._tables.resources[name] = size

    def insert_partitions(self, resource: str, numbers: Sequence[int]) -> None:
        """New partitions, which nobody holds."""
        for number in numbers:
            if (resource, number) not in self._tables.partitions:
                self._tables.partitions[resource, number] = PartitionRow(number, None, 0)

    def partitions(self, resource: str) -> list[PartitionRow]:
        """All partitions, in order."""
        return sorted(row for (one, _), row in self._tables.partitions.items() if one == resource)

    def hold_partitions(self, resource: str, instance: str, numbers: Sequence[int]) -> list[PartitionRow]:
        """Those of these partitions that an instance held last."""
        return [row for row in self._known(resource, numbers) if row.holder == instance]

    def hold_free_partitions(
        self, resource: str, instance: str, numbers: Sequence[int], now_ms: int
    ) -> list[PartitionRow]:
        """Those of these partitions that no other instance holds."""
        known = self._known(resource, numbers)
        return [row for row in known if row.holder == instance or not row.is_held(now_ms)]

    def write_partitions(self, resource: str, numbers: Sequence[int], holder: str | None, until_ms: int) -> None:
        """Who holds partitions, and until when."""
        for number in numbers:
            self._tables.partitions[resource, number] = PartitionRow(number, holder, until_ms)

    def _known(self, resource: str, numbers: Sequence[int]) -> list[PartitionRow]:
        kept = self._tables.partitions
        return [kept[resource, number] for number in numbers if (resource, number) in kept]

    # --- what instances ask for ---

    def write_asking(self, resource: str, row: AskingRow) -> None:
        """What an instance says."""
        self._tables.askings[resource, row.instance] = row

    def delete_asking(self, resource: str, instance: str) -> None:
        """Forget what an instance has said."""
        if (resource, instance) in self._tables.askings:
            del self._tables.askings[resource, instance]

    def askings(self, resource: str, since_ms: int) -> list[AskingRow]:
        """What instances have said since a moment."""
        mine = (row for (one, _), row in self._tables.askings.items() if one == resource)
        return sorted(row for row in mine if row.heard_ms >= since_ms)

    def forget_askings(self, resource: str, before_ms: int) -> None:
        """Forget what was said before a moment."""
        for row in self.askings(resource, 0):
            if row.heard_ms < before_ms:
                self.delete_asking(resource, row.instance)
