"""One process of the service: the application on a store, and the background work that every process does."""

import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from batchline.runtime.beat import Beat
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.services import Services
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service import (
    carlyle_estimated,
    carlyle_exact,
    estimates,
    fanouts,
    health,
    leases,
    measurements,
    messages,
    topics,
)
from batchline.service.app import MOST_UNDER_WAY, App
from batchline.service.documents import documents_of
from batchline.service.group_commit import GroupCommit
from batchline.service.look import Look
from batchline.service.metrics import Metrics
from batchline.service.observer import Observer, Observers
from batchline.service.operation import Operation
from batchline.service.parts import Parts
from batchline.service.store_numbers import StoreNumbers, store_numbers
from batchline.service.timed_store import TimedStore
from batchline.stores.store import Store

__all__ = ["OPERATIONS", "Service"]

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
)
THREADS: Final = 8
#: Within which the question whether it is ready is answered, and a scrape, whatever the database does.
LOOK_S: Final = 2.0
#: How long what was seen of the store is believed, for readiness and for metrics.
READY_FOR_S: Final = 1.0
NUMBERS_FOR_S: Final = 5.0


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
        landing: GroupCommit | None = None,
        operations: Sequence[Operation] = OPERATIONS,
        observers: Sequence[Observer] = (),
        clock: Callable[[], int] = now_us,
    ) -> None:
        """`estimates` and `landing` are for the operations that need them; `observers` are told of every request."""
        metrics, self._clock = Metrics(), clock
        timed = TimedStore(store, metrics.store_called)
        timeline = Timeline(timed, clock=clock)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="service")
        # Of their own: when the database hangs, so do all others.
        self._looking = ThreadPoolExecutor(2, thread_name_prefix="looking")
        self.parts = Parts(
            timed,
            Tracker(timed, clock=clock),
            timeline,
            self._threads,
            metrics,
            Look(store.check_schema, self._looking, keep_s=READY_FOR_S, wait_s=LOOK_S),
            Look(partial(self._numbers, store), self._looking, keep_s=NUMBERS_FOR_S, wait_s=LOOK_S),
            estimates,
            landing,
        )
        #: All that can be asked for.
        self.operations = (*operations, *documents_of(operations))
        self.app = App(
            self.parts,
            self.operations,
            Tokens(timed, clock),
            most_under_way=most_under_way,
            any_host=any_host,
            observers=Observers((metrics, *observers)),
        )
        #: Its name among the brokers.
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        self.background = Services(timed, beat=Beat(timeline, self.name), clock=clock)

    def _numbers(self, store: Store) -> StoreNumbers:
        return store.read(lambda rows: store_numbers(rows, self._clock()))

    def close(self) -> None:
        """End its threads, when nothing is under way any more."""
        self._looking.shutdown(wait=True, cancel_futures=True)
        self._threads.shutdown(wait=True, cancel_futures=True)
