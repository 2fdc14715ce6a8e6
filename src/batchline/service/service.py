"""One process of the service: the application on a store, and the background work that every process does."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Final

from batchline.core.expiry_rules import ExpiryRules
from batchline.runtime.beat import Beat
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.glance import Glance
from batchline.runtime.services import Services
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service import callers, fanouts, leases, messages, overview, pages, push, topics
from batchline.service.app import App
from batchline.service.documents import documents_of
from batchline.service.parts import Parts, in_threads
from batchline.service.pump import Pumps
from batchline.service.roll import Roll
from batchline.service.under_way import MOST_UNDER_WAY, MOST_WAITING, UnderWay
from batchline.stores.store import Store

__all__ = ["OPERATIONS", "SOCKETS", "Service"]

#: What is the same in every process.
OPERATIONS: Final = (
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *leases.OPERATIONS,
    *fanouts.OPERATIONS,
    *callers.OPERATIONS,
    *overview.OPERATIONS,
)
SOCKETS: Final = push.SOCKETS
THREADS: Final = 8
#: How long what is finished can still be told from what never was: longer than a client tries again.
KEPT: Final = timedelta(minutes=1)
#: Those in which messages are leased for all who wait: others do not stand in their way.
PUMP_THREADS: Final = 4


class Service:
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
        clock: Callable[[], int] = now_us,
    ) -> None:
        timeline = Timeline(store, clock=clock)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="service")
        self._pump_threads = ThreadPoolExecutor(PUMP_THREADS, thread_name_prefix="pump")
        tokens, in_thread = Tokens(store, clock), partial(in_threads, self._threads)
        self.parts = Parts(
            store,
            Tracker(store, expiry=expiry, clock=clock),
            timeline,
            self._threads,
            tokens,
            Pumps(timeline, self._pump_threads),
            UnderWay(most_under_way, most_waiting),
            Roll(timeline, tokens, in_thread),
            Glance(store, clock),
            estimates,
        )
        operations = (*OPERATIONS, *documents_of(OPERATIONS, SOCKETS), *pages.OPERATIONS)
        self.app = App(self.parts, operations, SOCKETS, any_host=any_host)
        #: Its name among the brokers.
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        self.background = Services(store, keep=KEPT, beat=Beat(timeline, self.name), clock=clock)

    def dismiss(self) -> None:
        """Let those go who wait for messages: it is about to end; to be called in the loop's thread."""
        self.parts.pumps.dismiss()

    def close(self) -> None:
        """End its threads, when nothing is under way any more."""
        for threads in (self._threads, self._pump_threads):
            threads.shutdown(wait=True, cancel_futures=True)
