"""One process of the service: the application on a store, and the background work that every process does."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from batchline.runtime.beat import Beat
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.glance import Glance
from batchline.runtime.services import Services
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service import callers, capacity, fanouts, leases, messages, overview, pages, reports, topics, windows
from batchline.service.app import MOST_UNDER_WAY, App
from batchline.service.documents import documents_of
from batchline.service.parts import Parts
from batchline.stores.store import Store

if TYPE_CHECKING:
    from batchline.sources.results import Results

__all__ = ["OPERATIONS", "Service"]

#: What is the same in every process.
OPERATIONS: Final = (
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *leases.OPERATIONS,
    *fanouts.OPERATIONS,
    *callers.OPERATIONS,
    *capacity.OPERATIONS,
    *reports.OPERATIONS,
    *windows.OPERATIONS,
    *overview.OPERATIONS,
)
THREADS: Final = 8


class Service:
    """The tracker and the timeline of a store, for everybody who does not import the library. It holds no state that
    matters: any number of them run on one database, and can be killed at will."""

    def __init__(
        self,
        store: Store,
        *,
        estimates: EstimatedTracker | None = None,
        threads: int = THREADS,
        most_under_way: int = MOST_UNDER_WAY,
        any_host: bool = False,
        tables: Path | None = None,
        clock: Callable[[], int] = now_us,
    ) -> None:
        timeline = Timeline(store, clock=clock)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="service")
        tracker, glance = Tracker(store, clock=clock), Glance(store, clock)
        self.parts = Parts(store, tracker, timeline, self._threads, glance, estimates, _results_in(tables))
        operations = (*OPERATIONS, *documents_of(OPERATIONS), *pages.OPERATIONS)
        self.app = App(self.parts, operations, Tokens(store, clock), most_under_way=most_under_way, any_host=any_host)
        #: Its name among the brokers.
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        self.background = Services(store, beat=Beat(timeline, self.name), clock=clock)

    def close(self) -> None:
        """End its threads, when nothing is under way any more."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _results_in(tables: Path | None) -> "Results | None":
    if tables is None:
        return None
    from batchline.sources.results import Results

    return Results(tables)
