"""The table of lanes in a SQL database."""

from collections.abc import Sequence

from batchline.stores.lane_rows import LaneRow
from batchline.stores.sql_session import SqlSession

__all__ = ["SqlLaneRows"]


class SqlLaneRows:
    """`LaneRows` on a session."""

    def __init__(self, session: SqlSession):
        self._session = session

    def insert_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> None:
        """New lanes, of which nothing is published."""
        rows = [(lane,) for lane in lanes]
        self._session.tell_many("insert_lanes", ("lane",), rows, topic=topic, publication=publication)

    def hold_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> list[LaneRow]:
        """Those of these lanes that are there."""
        found = self._session.rows("hold_lanes", topic=topic, publication=publication, lanes=sorted(lanes))
        return [LaneRow(*row) for row in found]

    def lanes(self, topic: int, publication: str) -> list[LaneRow]:
        """All lanes of a publication."""
        return [LaneRow(*row) for row in self._session.rows("lanes", topic=topic, publication=publication)]

    def write_lanes(self, topic: int, publication: str, rows: Sequence[LaneRow]) -> None:
        """Write lanes."""
        self._session.change_many("write_lanes", LaneRow._fields, rows, topic=topic, publication=publication)

    def delete_lanes(self, topic: int) -> None:
        """Forget all lanes of a topic."""
        self._session.tell("delete_lanes", topic=topic)
