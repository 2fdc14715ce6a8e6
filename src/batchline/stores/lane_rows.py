"""What publishing and delivery ask of a store: how far the lanes of a publication have come."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["LaneRow", "LaneRows"]


class LaneRow(NamedTuple):
    """A lane: its parcels up to which number are on the timeline, and up to which have arrived."""

    lane: int
    published: int = 0
    delivered: int = 0


class LaneRows(Protocol):
    """The table of lanes, within one transaction. What is "held" is locked, in order, until the transaction ends."""

    def insert_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> None:
        """New lanes, of which nothing is published; those that are there stay as they are."""

    def hold_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> list[LaneRow]:
        """Those of these lanes that are there."""

    def lanes(self, topic: int, publication: str) -> list[LaneRow]:
        """All lanes of a publication."""

    def write_lanes(self, topic: int, publication: str, rows: Sequence[LaneRow]) -> None:
        """How far lanes that are held have come."""

    def delete_lanes(self, topic: int) -> None:
        """Forget all lanes of a topic."""
