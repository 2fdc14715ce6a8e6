"""What shared capacity asks of a store: resources, their partitions, and what instances ask for."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from batchline.stores.clock_rows import ClockRows

__all__ = ["AskingRow", "CapacityRows", "PartitionRow", "ResourceRow"]


class ResourceRow(NamedTuple):
    """A resource, and the size that it was provisioned with."""

    name: str
    size: str


class PartitionRow(NamedTuple):
    """A partition: who held it last, if it was not given back, and until when."""

    number: int
    holder: str | None
    until_ms: int

    def is_held(self, now_ms: int) -> bool:
        """Whether somebody holds it."""
        return self.holder is not None and self.until_ms > now_ms


class AskingRow(NamedTuple):
    """What an instance has said, and when."""

    instance: str
    wanted: int
    held: tuple[int, ...]
    heard_ms: int


class CapacityRows(ClockRows, Protocol):
    """The tables of shared capacity, within one transaction.

    What is "held" is locked, in the order of numbers, until the transaction ends.
    """

    def resources(self) -> list[ResourceRow]:
        """All resources, by name."""

    def insert_resource(self, name: str, size: str) -> bool:
        """A new resource; false if the name is taken."""

    def hold_resource(self, name: str) -> str | None:
        """The size that a resource was provisioned with; None if there is none of that name."""

    def write_resource(self, name: str, size: str) -> None:
        """Another size."""

    def insert_partitions(self, resource: str, numbers: Sequence[int]) -> None:
        """New partitions, which nobody holds; those that are there stay as they are."""

    def partitions(self, resource: str) -> list[PartitionRow]:
        """All partitions, in order."""

    def hold_partitions(self, resource: str, instance: str, numbers: Sequence[int]) -> list[PartitionRow]:
        """Those of these partitions that an instance held last, though its lease may be over."""

    def hold_free_partitions(
        self, resource: str, instance: str, numbers: Sequence[int], now_ms: int
    ) -> list[PartitionRow]:
        """Those of these partitions that no other instance holds."""

    def write_partitions(self, resource: str, numbers: Sequence[int], holder: str | None, until_ms: int) -> None:
        """Who holds partitions, and until when."""

    def write_asking(self, resource: str, row: AskingRow) -> None:
        """What an instance says; forgets what it said before."""

    def delete_asking(self, resource: str, instance: str) -> None:
        """Forget what an instance has said, if it has."""

    def askings(self, resource: str, since_ms: int) -> list[AskingRow]:
        """What instances have said since a moment, by their names."""

    def forget_askings(self, resource: str, before_ms: int) -> None:
        """Forget what was said before a moment."""
