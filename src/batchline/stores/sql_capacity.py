"""The tables of shared capacity in a SQL database, through the named queries of its `capacity.sql`."""

import json
from collections.abc import Sequence

from batchline.stores.capacity_rows import AskingRow, PartitionRow, ResourceRow
from batchline.stores.sql_session import SqlSession

__all__ = ["SqlCapacityRows"]


class SqlCapacityRows:
    """`CapacityRows` on a session; the clock is that of the timeline's tables."""

    def __init__(self, session: SqlSession):
        self._session = session

    # --- resources and partitions ---

    def resources(self) -> list[ResourceRow]:
        """All resources, by name."""
        return [ResourceRow(*row) for row in self._session.rows("resources")]

    def insert_resource(self, name: str, size: str) -> bool:
        """A new resource; false if the name is taken."""
        return self._session.run("insert_resource", name=name, size=size) == 1

    def hold_resource(self, name: str) -> str | None:
        """The size that a resource was provisioned with."""
        found = self._session.rows("hold_resource", name=name)
        return found[0][0] if found else None

    def write_resource(self, name: str, size: str) -> None:
        """Another size."""
        self._session.tell("write_resource", name=name, size=size)

    def insert_partitions(self, resource: str, numbers: Sequence[int]) -> None:
        """New partitions, which nobody holds."""
        self._session.tell_many("insert_partitions", ("number",), [(one,) for one in numbers], resource=resource)

    def partitions(self, resource: str) -> list[PartitionRow]:
        """All partitions, in order."""
        return [PartitionRow(*row) for row in self._session.rows("partitions", resource=resource)]

    def hold_partitions(self, resource: str, instance: str, numbers: Sequence[int]) -> list[PartitionRow]:
        """Those of these partitions that an instance held last."""
        found = self._session.rows("hold_partitions", resource=resource, instance=instance, numbers=list(numbers))
        return [PartitionRow(*row) for row in found]

    def hold_free_partitions(
        self, resource: str, instance: str, numbers: Sequence[int], now_ms: int
    ) -> list[PartitionRow]:
        """Those of these partitions that no other instance holds."""
        found = self._session.rows(
            "hold_free_partitions", resource=resource, instance=instance, numbers=list(numbers), now_ms=now_ms
        )
        return [PartitionRow(*row) for row in found]

    def write_partitions(self, resource: str, numbers: Sequence[int], holder: str | None, until_ms: int) -> None:
        """Who holds partitions, and until when."""
        self._session.tell(
            "write_partitions", resource=resource, numbers=list(numbers), holder=holder, until_ms=until_ms
        )

    # --- what instances ask for ---

    def write_asking(self, resource: str, row: AskingRow) -> None:
        """What an instance says."""
        self._session.tell("write_asking", resource=resource, **row._asdict() | {"held": json.dumps(row.held)})

    def delete_asking(self, resource: str, instance: str) -> None:
        """Forget what an instance has said."""
        self._session.tell("delete_asking", resource=resource, instance=instance)

    def askings(self, resource: str, since_ms: int) -> list[AskingRow]:
        """What instances have said since a moment."""
        found = self._session.rows("askings", resource=resource, since_ms=since_ms)
        return [AskingRow(instance, wanted, tuple(json.loads(held)), heard) for instance, wanted, held, heard in found]

    def forget_askings(self, resource: str, before_ms: int) -> None:
        """Forget what was said before a moment."""
        self._session.tell("forget_askings", resource=resource, before_ms=before_ms)
