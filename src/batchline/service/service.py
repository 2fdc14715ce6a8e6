"""One process of the service: the application on a store, and the background work that every process does."""

import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from batchline.core.expiry_rules import ExpiryRules
from batchline.core.trouble import LoopName
from batchline.runtime.beat import Beat
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.glance import Glance
from batchline.runtime.services import Services
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service import (
    callers,
    capacity,
    carlyle_estimated,
    carlyle_exact,
    estimates,
    fanouts,
    health,
    leases,
    measurements,
    messages,
    overview,
    pages,
    push,
    reports,
    topics,
    windows,
)
from batchline.service.app import App
from batchline.service.documents import documents_of
from batchline.service.group_commit import GroupCommit
from batchline.service.look import Look
from batchline.service.metrics import Metrics
from batchline.service.observer import Observer, Observers
from batchline.service.operation import Operation, Socket
from batchline.service.parts import Parts, in_threads
from batchline.service.pump import Pumps
from batchline.service.roll import Roll
from batchline.service.store_numbers import StoreNumbers, store_numbers
from batchline.service.tally import Tally
from batchline.service.timed_store import TimedStore
from batchline.service.under_way import MOST_UNDER_WAY, MOST_WAITING, UnderWay
from batchline.stores.store import Store

if TYPE_CHECKING:
    from batchline.sources.results import Results

__all__ = ["OPERATIONS", "SOCKETS", "Service"]

T = TypeVar("T")
#: What is the same in every process.
OPERATIONS: Final = (
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *leases.OPERATIONS,
    *fanouts.OPERATIONS,
    *estimates.OPERATIONS,
    *carlyle_exact.OPERATIONS,
    *carlyle_estimated.OPERATIONS,
    *measurements.OPERATIONS,
    *health.OPERATIONS,
    *callers.OPERATIONS,
    *capacity.OPERATIONS,
    *reports.OPERATIONS,
    *windows.OPERATIONS,
    *overview.OPERATIONS,
)
SOCKETS: Final = push.SOCKETS
THREADS: Final = 8
#: Those in which messages are leased for all who wait: others do not stand in their way.
PUMP_THREADS: Final = 4
#: Within which the question whether it is ready is answered, and a scrape, whatever the database does.
LOOK_S: Final = 2.0
#: How long what was seen of the store is believed, for readiness and for metrics.
READY_FOR_S: Final = 1.0
NUMBERS_FOR_S: Final = 5.0


class Service(Supervised):
    """The tracker and the timeline of a store, for everybody who does not import the library. It holds no state that
    matters: any number of them run on one database, and can be killed at will."""

    def __init__(
        self,
        store: Store,
        *,
        estimates: EstimatedTracker | None = None,
        expiry: ExpiryRules | None = None,
        threads: int = THREADS,
        most_under_way: int = MOST_UNDER_WAY,
        most_waiting: int = MOST_WAITING,
        any_host: bool = False,
        landing: GroupCommit | None = None,
        operations: Sequence[Operation] = OPERATIONS,
        sockets: Sequence[Socket] = SOCKETS,
        observers: Sequence[Observer] = (),
        tables: Path | None = None,
        clock: Callable[[], int] = now_us,
    ) -> None:
        """`estimates` and `landing` are for the operations that need them; `observers` are told of every request."""
        self.supervisor = supervisor = Supervisor()
        if landing is not None:
            supervisor.adopt(landing.supervisor)
        metrics, under_way = Metrics(supervisor), UnderWay(most_under_way, most_waiting)
        metrics.watch(under_way)
        self._seen, store, self._clock = store, TimedStore(store, metrics.store_called), clock
        timeline = Timeline(store, clock=clock)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="service")
        self._pump_threads = ThreadPoolExecutor(PUMP_THREADS, thread_name_prefix="pump")
        # Of their own: when the database hangs, so do all others.
        self._looking = ThreadPoolExecutor(2, thread_name_prefix="looking")
        tokens, in_thread = Tokens(store, clock), partial(in_threads, self._threads)
        self.parts = Parts(
            store,
            Tracker(store, expiry=expiry, clock=clock),
            timeline,
            self._threads,
            tokens,
            Pumps(timeline, self._pump_threads, supervisor=supervisor),
            under_way,
            Roll(timeline, tokens, in_thread, supervisor=supervisor),
            metrics,
            self._look("schema_check", self._seen.check_schema, READY_FOR_S),
            self._look("store_numbers", self._numbers, NUMBERS_FOR_S),
            Glance(store, clock),
            supervisor,
            estimates,
            landing,
            _results_in(tables),
        )
        #: All that can be asked for.
        shown = pages.OPERATIONS if operations is OPERATIONS else ()
        self.operations = (*operations, *documents_of(operations, sockets), *shown)
        #: What it says of itself.
        self.tally = Tally(under_way)
        told = Observers((metrics, self.tally, *observers))
        self.app = App(self.parts, self.operations, sockets, any_host=any_host, observers=told)
        #: Its name among the brokers.
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        self.background = Services(store, beat=Beat(timeline, self.name), clock=clock, supervisor=supervisor)

    def _look(self, name: LoopName, read: Callable[[], T], keep_s: float) -> Look[T]:
        return Look(read, self._looking, self.supervisor.loop(name), keep_s=keep_s, wait_s=LOOK_S)

    def _numbers(self) -> StoreNumbers:
        return self._seen.read(lambda rows: store_numbers(rows, self._clock()))

    def dismiss(self) -> None:
        """Let those go who wait for messages: it is about to end; to be called in the loop's thread."""
        self.parts.pumps.dismiss()

    def close(self) -> None:
        """End its threads, when nothing is under way any more."""
        for threads in (self._looking, self._threads, self._pump_threads):
            threads.shutdown(wait=True, cancel_futures=True)


def _results_in(tables: Path | None) -> "Results | None":
    if tables is None:
        return None
    from batchline.sources.results import Results

    return Results(tables)
