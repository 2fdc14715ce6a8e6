"""A store in the memory of this process: for tests, and for who needs nothing to last."""

import threading
from collections.abc import Callable
from typing import TypeVar

from batchline.errors import InvalidStore
from batchline.stores.address import Address
from batchline.stores.forks import FORKS
from batchline.stores.memory_capacity import MemoryCapacityRows
from batchline.stores.memory_lanes import MemoryLaneRows
from batchline.stores.memory_reports import MemoryReportRows
from batchline.stores.memory_tables import MemoryTables
from batchline.stores.memory_timeline import MemoryTimelineRows
from batchline.stores.memory_tokens import MemoryTokenRows
from batchline.stores.memory_tracker import MemoryTrackerRows
from batchline.stores.migrations import SchemaVersion
from batchline.stores.rows import Rows
from batchline.stores.store import Store

__all__ = ["MemoryStore"]

T = TypeVar("T")


class MemoryRows(
    MemoryTrackerRows, MemoryTimelineRows, MemoryCapacityRows, MemoryLaneRows, MemoryTokenRows, MemoryReportRows
):
    """The tables of all stages and of the service."""


class MemoryStore(Store):
    """`memory://`: gone with the process."""

    room = "memory"

    def __init__(self, address: Address):
        address.check_options(())
        if address.host or address.path:
            raise InvalidStore(f"expected memory:// alone, got {address.shown}")
        self.url = "memory://"
        self._tables = MemoryTables()
        self._one_at_a_time = threading.Lock()

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Do the work while nobody else does any."""
        with FORKS, self._one_at_a_time:
            try:
                answer = work(MemoryRows(self._tables))
            except BaseException:
                self._tables.undo()
                raise
            self._tables.done.clear()
            return answer

    def read(self, work: Callable[[Rows], T]) -> T:
        """As `transact`."""
        return self.transact(work)

    def schema(self) -> SchemaVersion:
        """There is no schema."""
        return SchemaVersion(0, 0)

    def migrate_alone(self) -> list[str]:
        """There is nothing to migrate."""
        return []

    def close(self) -> None:
        """Nothing is open; what is kept goes with the object."""
