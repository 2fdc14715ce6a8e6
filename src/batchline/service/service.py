"""One process of the service: the application on a store, and the background work that every process does."""

import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from batchline.core.connection_limits import ConnectionLimits
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.failure_budget import FailureBudget
from batchline.runtime.beat import Beat
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.byte_budget import ByteBudget
from batchline.runtime.clock import elapsed_seconds, now_us
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
from batchline.service.answer_share import ANSWER_BYTES
from batchline.service.app import App
from batchline.service.connection_gate import ConnectionGate
from batchline.service.documents import documents_of
from batchline.service.group_commit import GroupCommit
from batchline.service.internal_topics import InternalTopics
from batchline.service.look import Look
from batchline.service.metrics import Metrics
from batchline.service.observer import Observer, Observers
from batchline.service.operation import Operation, Socket
from batchline.service.parts import Parts, in_threads
from batchline.service.pump import Pumps
from batchline.service.reading import BODY_BYTES
from batchline.service.roll import Roll
from batchline.service.store_numbers import StoreNumbers, store_numbers
from batchline.service.tally import Tally
from batchline.service.timed_store import TimedStore
from batchline.service.token_guard import TokenGuard
from batchline.service.under_way import MOST_UNDER_WAY, MOST_WAITING, UnderWay
from batchline.service.work_threads import WorkThreads
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
#: A probe may wait for its turn as long as other work succeeds that often.
GOES_ON_S: Final = 5.0


class Service(Supervised):
    """The tracker and the timeline of a store, for everybody who does not import the library. It holds no state that
    matters: any number of them run on one database, and can be killed at will."""

    #: When something was last written, by any thread.
    _wrote_at = float("-inf")

    def __init__(
        self,
        store: Store,
        *,
        estimates: EstimatedTracker | None = None,
        expiry: ExpiryRules | None = None,
        threads: int = THREADS,
        most_under_way: int = MOST_UNDER_WAY,
        most_waiting: int = MOST_WAITING,
        answer_bytes: int = ANSWER_BYTES,
        body_bytes: int = BODY_BYTES,
        any_host: bool = False,
        landing: GroupCommit | None = None,
        operations: Sequence[Operation] = OPERATIONS,
        sockets: Sequence[Socket] = SOCKETS,
        observers: Sequence[Observer] = (),
        tables: Path | None = None,
        limits: ConnectionLimits | None = None,
        failures: FailureBudget | None = None,
        clock: Callable[[], int] = now_us,
    ) -> None:
        """`estimates` and `landing` are for the operations that need them; `observers` are told of every request."""
        self.supervisor = supervisor = Supervisor()
        if landing is not None:
            supervisor.adopt(landing.supervisor)
        self._metrics = metrics = Metrics(supervisor)
        under_way = UnderWay(most_under_way, most_waiting)
        #: What admits connections, where a server is started for the application.
        self.gate = gate = ConnectionGate(limits, metrics.refused_connection)
        metrics.watch(under_way, gate)
        metrics.watch_store(store.lost_connections)
        # One for all parts: while it is off, none of them changes anything.
        self._clock = clock = clock_on(store, clock)
        self._seen, store = store, TimedStore(store, self._store_called)
        timeline = Timeline(store, clock=clock)
        self._threads = WorkThreads(threads, thread_name_prefix="service")
        self._pump_threads = WorkThreads(PUMP_THREADS, thread_name_prefix="pump")
        # Of its own, for metrics: when the database hangs, so do all others.
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="looking")
        tokens, in_thread = Tokens(store, clock), partial(in_threads, self._threads)
        self.parts = Parts(
            store,
            Tracker(store, expiry=expiry, clock=clock),
            timeline,
            self._threads,
            tokens,
            TokenGuard(tokens, in_thread, failures),
            Pumps(timeline, self._pump_threads, supervisor=supervisor),
            under_way,
            ByteBudget(answer_bytes),
            ByteBudget(body_bytes),
            Roll(timeline, tokens, in_thread, supervisor=supervisor),
            metrics,
            self._probe(self._threads, self._probe_store),
            self._probe(self._pump_threads, lambda: None),
            Look(
                self._numbers,
                self._looking,
                supervisor.loop("store_numbers"),
                keep_s=NUMBERS_FOR_S,
                wait_s=LOOK_S,
            ),
            Glance(store, clock),
            InternalTopics(timeline, clock),
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
        self.background = Services(store, beat=Beat(timeline, self.name), supervisor=supervisor)

    def _probe(self, threads: WorkThreads, work: Callable[[], None]) -> Look[None]:
        """Do a little work as all other work is done: it fails when the other does."""

        def goes_on(has_thread: bool) -> bool:
            # With a thread it waits for the store: reading may go on there while nothing can be written.
            succeeded_at = self._wrote_at if has_thread else threads.worked_at
            return elapsed_seconds() - succeeded_at < GOES_ON_S

        loop = self.supervisor.loop("schema_check")
        return Look(work, threads, loop, keep_s=READY_FOR_S, wait_s=LOOK_S, goes_on=goes_on)

    def _store_called(self, call: str, seconds: float, failed: bool) -> None:
        """Note a call of the store, from any thread."""
        self._metrics.store_called(call, seconds, failed)
        if call != "read" and not failed:
            self._wrote_at = elapsed_seconds()

    def _probe_store(self) -> None:
        """Compare the schema, and write a heartbeat: reading alone succeeds on a full disk, too."""
        self._seen.check_schema()
        Beat(self.parts.timeline, self.name).run_once()

    def _numbers(self) -> StoreNumbers:
        return self._seen.snapshot(lambda rows: store_numbers(rows, self._clock()))

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
