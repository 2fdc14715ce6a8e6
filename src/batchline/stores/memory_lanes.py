"""The table of lanes in the memory of this process."""

from collections.abc import Sequence

from batchline.stores.lane_rows import LaneRow
from batchline.stores.memory_tables import MemoryTables

__all__ = ["MemoryLaneRows"]


class MemoryLaneRows:
    """`LaneRows` on dictionaries; who is in a transaction holds everything."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    def insert_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> None:
        """New lanes, of which nothing is published."""
        for lane in lanes:
            if (topic, publication, lane) not in self._tables.lanes:
                self._tables.lanes[topic, publication, lane] = LaneRow(lane)

    def hold_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> list[LaneRow]:
        """Those of these lanes that are there."""
        return [row for row in self.lanes(topic, publication) if row.lane in lanes]

    def lanes(self, topic: int, publication: str) -> list[LaneRow]:
        """All lanes of a publication."""
        return sorted(row for key, row in self._tables.lanes.items() if key[:2] == (topic, publication))

    def write_lanes(self, topic: int, publication: str, rows: Sequence[LaneRow]) -> None:
        """Write lanes."""
        for row in rows:
            self._tables.lanes[topic, publication, row.lane] = LaneRow(*row)

    def delete_lanes(self, topic: int) -> None:
        """Forget all lanes of a topic."""
        for key in [key for key in self._tables.lanes if key[0] == topic]:
            del self._tables.lanes[key]
