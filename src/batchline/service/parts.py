"""What the operations work on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from batchline.errors import Unauthorized
from batchline.runtime.byte_budget import ByteBudget
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.glance import Glance
from batchline.runtime.supervisor import Supervisor
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import ENDED, Tokens
from batchline.runtime.tracker import Tracker
from batchline.service.group_commit import GroupCommit
from batchline.service.internal_topics import InternalTopics
from batchline.service.look import Look
from batchline.service.metrics import Metrics
from batchline.service.pump import Pumps
from batchline.service.roll import Roll
from batchline.service.store_numbers import StoreNumbers
from batchline.service.token_guard import TokenGuard
from batchline.service.under_way import UnderWay
from batchline.stores.store import Store

if TYPE_CHECKING:
    from batchline.sources.results import Results

__all__ = ["Parts", "in_threads"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The stages behind the service, and the threads in which they are called."""

    store: Store
    tracker: Tracker
    timeline: Timeline
    threads: ThreadPoolExecutor
    tokens: Tokens
    guard: TokenGuard
    pumps: Pumps
    under_way: UnderWay
    #: Bytes of bodies in answers that are made and sent, and of large requests.
    answers: ByteBudget
    bodies: ByteBudget
    roll: Roll
    metrics: Metrics
    #: Whether the service's threads get something written, in a schema that it knows.
    store_probe: Look[None]
    #: Whether the threads that lease messages are free to.
    pump_probe: Look[None]
    #: What the metrics tell of the store.
    numbers: Look[StoreNumbers]
    glance: Glance
    #: Which topics are internal.
    internal: InternalTopics
    #: The background loops of this process, and which of them fail.
    supervisor: Supervisor
    estimates: EstimatedTracker | None = None
    #: Where measurements land.
    landing: GroupCommit | None = None
    #: What a pipeline has written, if there is something to show of it.
    tables: "Results | None" = None

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits for the store, while the loop goes on."""
        return await in_threads(self.threads, work, *arguments)

    async def check_token(self, id: str | None) -> None:
        """Raise Unauthorized if a token that was valid is so no longer; it reads the store every 5 s at most."""
        ended = self.tokens.has_ended(id)
        if ended is None:
            ended = bool(await self.in_thread(self.tokens.ended, [id]))
        if ended:
            raise Unauthorized(ENDED)


async def in_threads(threads: Executor, work: Callable[..., T], *arguments: Any) -> T:
    """Call something that waits, while the loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
