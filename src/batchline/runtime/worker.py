"""A worker: parcels of a topic into a sink, within the capacity, a lane's parcels one after the other.

lease ──► its turn in the lane ──► dispatcher ──► sink ──► tracker, timeline and lane, in one transaction
"""

import asyncio
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from batchline.core.consignment import Consignment, read_consignment
from batchline.core.fanout import Ending
from batchline.core.later import Later
from batchline.core.message import Lease, LeasedMessage, NewMessage, Outcome
from batchline.core.name import reason_text
from batchline.core.operation import Operation, Watcher, check_count
from batchline.core.pipeline import RETRY
from batchline.core.pricing import price_of
from batchline.core.retry import RetryRules
from batchline.errors import (
    InvalidMessage,
    PartlyDelivered,
    RefusedParcel,
    StoreError,
    Throttled,
    TooExpensive,
)
from batchline.runtime.beat import Beat
from batchline.runtime.callbacks import call_in
from batchline.runtime.clock import elapsed_seconds, wait_for
from batchline.runtime.consumer import Consumer
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.dispatcher import Dispatcher
from batchline.runtime.lanes_in_hand import GivenBack, LanesInHand
from batchline.runtime.limiter import Limiter
from batchline.runtime.publisher import make_topics
from batchline.runtime.services import Services, Wait
from batchline.runtime.timeline import Timeline
from batchline.sinks.sink import Sink
from batchline.stores.delivering import Delivery, dead_letters_of
from batchline.stores.store import Store

__all__ = ["Worker"]

log = logging.getLogger("batchline")
#: Short, for what a killed worker had in hand waits so long; it is extended as long as the worker lives.
LEASE: Final = timedelta(seconds=30)
LOOK_EVERY: Final = timedelta(milliseconds=50)
LOOK_AT_LANES_S: Final = 0.1
#: What begins the reason of a parcel that was given back without having been sent.
NOT_ITS_TURN: Final = "its lane is not there yet"
STRAYS: Final = "strays"


@dataclass(slots=True, eq=False)
class _Sending:
    """A parcel on its way through the dispatcher, and who waits for its answer: None, or why it did not arrive."""

    parcel: Consignment
    answer: "asyncio.Future[BaseException | None]"


class Worker:
    """Delivers the parcels of a topic. Any number of workers, in any number of processes, work on one topic."""

    def __init__(
        self,
        store: Store,
        topic: str,
        sink: Sink,
        *,
        limiter: Limiter | None = None,
        cost: str = "parcel",
        worker: str | None = None,
        in_hand: int = 256,
        concurrency: int = 16,
        lease: timedelta = LEASE,
        retry: RetryRules = RETRY,
        give_up_after: int | None = None,
        drain: timedelta = timedelta(seconds=30),
        flush_interval: timedelta = timedelta(milliseconds=20),
        timeline: Timeline | None = None,
        clock: Callable[[], float] = elapsed_seconds,
        wait: Wait = wait_for,
        chance: Callable[[], float] = random.random,
    ):
        """A worker with a name that should stay the same when it is started again: it gets its own leases back.

        `cost` is what a parcel takes of the limiter's capacity: 1 for each "parcel", "measurement" or "byte", or the
        sum of a field of its measurements, "field:ru". It holds at most `in_hand` parcels, and sends at most
        `concurrency` batches of them at once. A parcel that fails comes again, later each time, for ever or until it
        was sent `give_up_after` times.
        """
        check_count("give_up_after", give_up_after)
        self._timeline = timeline or Timeline(store)
        make_topics(self._timeline, topic)
        self._topic, self._sink = topic, sink
        self._price = price_of(cost)
        self._retry, self._give_up_after = retry, give_up_after
        self._clock, self._wait, self._chance = clock, wait, chance
        name = worker or f"{socket.gethostname()}-{os.getpid()}"
        self.deliveries = Deliveries(store, self._timeline, topic)
        self.consumer = Consumer(
            self._timeline,
            topic,
            self._handle,
            consumer=name,
            concurrency=in_hand,
            lease=lease,
            retry=retry,
            drain=drain,
            look_every=LOOK_EVERY,
            services=Services(store, beat=Beat(self._timeline, name), wait=wait),
            finish=self._settle,
            wait=wait,
            chance=chance,
        )
        self.dispatcher = Dispatcher(
            limiter,
            buffer=max(in_hand, 1_000),
            flush_interval=flush_interval,
            max_concurrent_batches=concurrency,
            clock=clock,
            chance=chance,
        )
        #: Parcels, and measurements, by what became of them: delivered, repeated, refused, failed.
        self.parcels: Counter[str] = Counter()
        self.measurements: Counter[str] = Counter()
        #: Told of each parcel that has arrived, in the loop's thread.
        self.on_delivered: Callable[[Consignment], object] | None = None
        self._watcher = Watcher(self._deliver, name="sink", max_batch_size=sink.most)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="sink")
        self._lanes = LanesInHand(clock)
        #: By message, what is to be told of it when it is done.
        self._verdicts: dict[str, Delivery] = {}

    @property
    def endings(self) -> Sequence[Ending]:
        """The fanouts that ended by what this worker has settled; each is told by one worker, once."""
        return self.deliveries.endings

    def stop(self) -> None:
        """Take no more parcels, and end when those in hand are done; to be called in the loop's thread."""
        self.consumer.stop()

    async def run(self, *, signals: bool = False) -> None:
        """Deliver until `stop` is called; with `signals`, until SIGTERM or SIGINT comes as well."""
        await self.dispatcher.start()
        looking = asyncio.ensure_future(self._look())
        try:
            await self.consumer.run(signals=signals)
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            # What it still has was given back to the timeline: it is not the dispatcher's any more.
            await self.dispatcher.stop(timedelta(0))
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._sink.close()

    # --- a parcel ---

    async def _handle(self, message: LeasedMessage) -> Later | None:
        try:
            parcel = read_consignment(message.body)
        except InvalidMessage as error:
            log.warning("message %s is no parcel, so it goes to the dead letters: %s", message.id, error)
            return None
        try:
            if await self._lanes.turn(parcel) == "arrived":
                self._verdicts[message.id] = Delivery(message, parcel)
                self.parcels["repeated"] += 1
                return None
            return await self._sent(message, parcel, await self._send(parcel))
        except GivenBack as back:
            return Later(timedelta(seconds=max(back.until_s - self._clock(), 0)), NOT_ITS_TURN)
        finally:
            self._lanes.dropped(parcel)

    async def _send(self, parcel: Consignment) -> BaseException | None:
        """Through the dispatcher into the sink; the answer is None, or why the parcel did not arrive."""
        sending = _Sending(parcel, asyncio.get_running_loop().create_future())
        batchable = self._sink.most > 1
        try:
            await self.dispatcher.enqueue(Operation(self._watcher, self._price(parcel), sending, batchable=batchable))
        except TooExpensive as error:
            return RefusedParcel(str(error))
        # At once, if there is capacity: the next of its lane waits for it.
        self.dispatcher.flush()
        return await sending.answer

    async def _deliver(self, operations: list[Operation]) -> None:
        """What the dispatcher calls. Those whose lease was lost meanwhile are not sent: somebody else has them."""
        sendings: dict[str, _Sending] = {
            operation.payload.parcel.id: operation.payload
            for operation in operations
            if not operation.payload.answer.done()
        }
        if not sendings:
            return
        answers: Mapping[str, BaseException] = {}
        try:
            found = await call_in(self._threads, self._sink.send, [one.parcel for one in sendings.values()])
            answers = found or {}
        except (Throttled, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a sink raises, the parcel comes again
            answers = dict.fromkeys(sendings, error)
        for id, sending in sendings.items():
            if not sending.answer.done():
                sending.answer.set_result(answers.get(id))

    async def _sent(self, message: LeasedMessage, parcel: Consignment, error: BaseException | None) -> Later | None:
        if isinstance(error, PartlyDelivered):
            self._in_part(message, parcel, error)
            return None
        if error is not None and not isinstance(error, RefusedParcel):
            reason = reason_text(f"{type(error).__name__}: {error}")
            if not await self._is_hopeless(message):
                self.parcels["failed"] += 1
                return Later(timedelta(seconds=self._lanes.failed(parcel, self._pause_s)), reason)
            error = RefusedParcel(f"given up after {self._give_up_after} attempts: {reason}")
        dead = None if error is None else replace(parcel, reason=reason_text(error))
        self._arrive(message, Delivery(message, parcel, dead))
        return None

    def _in_part(self, message: LeasedMessage, parcel: Consignment, error: PartlyDelivered) -> None:
        reason = reason_text(next(iter(error.refused.values()), parcel.reason))
        dead = replace(parcel.only(error.refused), reason=reason) if error.refused else None
        if not error.again:
            self._arrive(message, Delivery(message, parcel, dead))
            return
        rest = replace(parcel.only(error.again), reason=reason)
        at_ms = self._timeline.now_ms() + round(self._lanes.failed(parcel, self._pause_s) * 1_000)
        self.parcels["failed"] += 1
        self.measurements["delivered"] += parcel.count - len(error.again) - len(error.refused)
        self.measurements["refused"] += len(error.refused)
        self._verdicts[message.id] = Delivery(message, parcel, dead, rest, at_ms, _next_id(message.id))

    def _arrive(self, message: LeasedMessage, delivery: Delivery) -> None:
        parcel, dead = delivery.parcel, delivery.dead
        refused = dead.count if dead is not None else 0
        self.parcels["refused" if refused else "delivered"] += 1
        self.measurements["refused"] += refused
        self.measurements["delivered"] += parcel.count - refused
        self._verdicts[message.id] = delivery
        self._lanes.arrived(parcel)
        if self.on_delivered is not None and refused < parcel.count:
            self.on_delivered(parcel)

    async def _is_hopeless(self, message: LeasedMessage) -> bool:
        if self._give_up_after is None:
            return False
        seen = await asyncio.to_thread(self._timeline.read, self._topic, message.id, lease=message.lease)
        tried = sum(not one.reason.startswith(NOT_ITS_TURN) and one.ending == "released" for one in seen.history)
        return tried + 1 >= self._give_up_after

    def _pause_s(self, failures: int) -> float:
        return self._retry.pause_ms(failures, self._chance()) / 1_000

    # --- what the store is told, and asked ---

    def _settle(self, finished: Sequence[tuple[LeasedMessage, Lease]]) -> Sequence[Outcome]:
        """In a thread: tell the store what became of parcels, by the leases that they have by now."""
        strays = [(message, lease) for message, lease in finished if message.id not in self._verdicts]
        if strays:
            self._bury(strays)
        deliveries = [
            replace(self._verdicts[message.id], lease=lease)
            for message, lease in finished
            if message.id in self._verdicts
        ]
        outcomes = {one.id: one for one in self.deliveries.settle(deliveries)} if deliveries else {}
        for message, _ in finished:
            self._verdicts.pop(message.id, None)
        return [outcomes.get(message.id, Outcome(message.id, "done")) for message, _ in finished]

    def _bury(self, strays: Sequence[tuple[LeasedMessage, Lease]]) -> None:
        """Messages that are no parcels: to the dead letters as they are."""
        dead = [NewMessage(message.body, id=message.id) for message, _ in strays]
        self._timeline.create(dead_letters_of(self._topic), dead, producer_group=STRAYS)
        self._timeline.done([lease for _, lease in strays])

    async def _look(self) -> None:
        """While somebody waits for a parcel that is not in hand, look how far its lane has come."""
        never = asyncio.Event()
        while True:
            await self._lanes.looking.wait()
            with suppress(StoreError):
                self._lanes.seen(await asyncio.to_thread(self.deliveries.reached, self._lanes.sought()))
            await self._wait(never, LOOK_AT_LANES_S)


def _next_id(id: str) -> str:
    """The id of the message for what is left of a parcel."""
    begin, mark, number = id.rpartition("~")
    return f"{begin}~{int(number) + 1}" if mark and number.isdecimal() else f"{id}~1"
