"""What the operations work on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.glance import Glance
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.store import Store

if TYPE_CHECKING:
    from batchline.sources.results import Results

__all__ = ["Parts"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The stages behind the service, and the threads in which they are called."""

    store: Store
    tracker: Tracker
    timeline: Timeline
    threads: ThreadPoolExecutor
    glance: Glance
    estimates: EstimatedTracker | None = None
    #: What a pipeline has written, if there is something to show of it.
    tables: "Results | None" = None

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits for the store, while the loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)
