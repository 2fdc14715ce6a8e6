"""A worker: parcels of a topic into a sink, within the capacity, a lane's parcels one after the other.

lease ──► its turn in the lane ──► dispatcher ──► sink ──► tracker, timeline and lane, in one transaction
"""

import asyncio
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from batchline.core.consignment import Consignment, read_consignment
from batchline.core.fanout import Ending
from batchline.core.later import Later
from batchline.core.message import Lease, LeasedMessage, Outcome
from batchline.core.name import reason_text
from batchline.core.operation import check_count
from batchline.core.pipeline import RETRY
from batchline.core.pricing import price_of
from batchline.core.retry import RetryRules
from batchline.core.topic import DEAD, Topic
from batchline.core.trouble import SERVING
from batchline.errors import (
    InvalidMessage,
    InvalidRules,
    PartlyDelivered,
    RefusedParcel,
    SinkClosed,
    StoreError,
    TopicRefused,
)
from batchline.runtime.beat import Beat
from batchline.runtime.callbacks import error_text, reason_of
from batchline.runtime.clock import elapsed_seconds, wait_for
from batchline.runtime.consumer import STOPPED, Consumer
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.dispatcher import Dispatcher
from batchline.runtime.lane_proofs import LaneProofs
from batchline.runtime.lanes_in_hand import GivenBack, LanesInHand
from batchline.runtime.limiter import Limiter
from batchline.runtime.publisher import make_topics
from batchline.runtime.sending import Sending
from batchline.runtime.services import Services, Wait
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.runtime.timeline import Timeline
from batchline.sinks.sink import Sink
from batchline.stores.delivering import Delivery
from batchline.stores.letters import Stray
from batchline.stores.store import Store

__all__ = ["Worker"]

log = logging.getLogger("batchline")
#: Short, for what a killed worker had in hand waits so long; it is extended as long as the worker lives.
LEASE: Final = timedelta(seconds=30)
LOOK_EVERY: Final = timedelta(milliseconds=50)
LOOK_AT_LANES_S: Final = 0.1
#: What begins the reason of a parcel that was given back without having been sent.
NOT_ITS_TURN: Final = "its lane is not there yet"
NOT_SENT: Final = (NOT_ITS_TURN, STOPPED)


class Worker(Supervised):
    """Delivers the parcels of a topic. Any number of workers, in any number of processes, work on one topic.

    `troubles()` names the loops that fail: its own, its dispatcher's and those in the background.
    """

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
        close: Callable[[], object] | None = None,
        timeline: Timeline | None = None,
        clock: Callable[[], float] = elapsed_seconds,
        wait: Wait = wait_for,
        chance: Callable[[], float] = random.random,
        supervisor: Supervisor | None = None,
    ):
        """A worker with a name that should stay the same when it is started again: it takes over what it had leased.

        `cost` is what a parcel takes of the limiter's capacity: 1 for each "parcel", "measurement" or "byte", or the
        sum of a field of its measurements, "field:ru". It holds at most `in_hand` parcels, and sends at most
        `concurrency` batches of them at once. A parcel that fails comes again, later each time, for ever or until it
        was sent `give_up_after` times. `close` is called at its end, after the sink is closed.
        """
        check_count("give_up_after", give_up_after)
        self._timeline = timeline or Timeline(store)
        make_topics(self._timeline, topic)
        _check_topic(self._timeline.topic(topic))
        self.topic = topic
        price = price_of(cost)
        self._retry, self._give_up_after = retry, give_up_after
        self._clock, self._wait, self._chance = clock, wait, chance
        name = worker or f"{socket.gethostname()}-{os.getpid()}"
        self.deliveries = Deliveries(store, self._timeline, topic)
        self.supervisor = supervisor or Supervisor()
        self._looks = self.supervisor.loop("lanes", topic, back_off=SERVING, away_s=lambda: LOOK_AT_LANES_S)
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
        self.supervisor.adopt(self.consumer.supervisor)
        self.dispatcher = Dispatcher(
            limiter,
            buffer=max(in_hand, 1_000),
            flush_interval=flush_interval,
            max_concurrent_batches=concurrency,
            clock=clock,
            chance=chance,
        )
        self.supervisor.adopt(self.dispatcher.supervisor)
        #: Parcels, and measurements, by what became of them: delivered, repeated, refused, failed; and strays.
        self.parcels: Counter[str] = Counter()
        self.measurements: Counter[str] = Counter()
        #: Told of each parcel that has arrived, in the loop's thread.
        self.on_delivered: Callable[[Consignment], object] | None = None
        self._sending = Sending(sink, self.dispatcher, price, concurrency)
        self._lanes = LanesInHand(clock, in_hand)
        self._proofs = LaneProofs(self.deliveries.proofs)
        self._close = close
        self._closed: SinkClosed | None = None
        #: By message, what is to be told of it when it is done.
        self._verdicts: dict[str, Delivery] = {}
        #: By message, why it is a stray.
        self._strays: dict[str, str] = {}

    @property
    def endings(self) -> Sequence[Ending]:
        """The fanouts that ended by what this worker has settled; each is told by one worker, once."""
        return self.deliveries.endings

    @property
    def throttled(self) -> int:
        """How often the sink has said that it has too much to do."""
        return self._sending.throttled

    @property
    def lanes(self) -> int:
        """Of how many lanes it has parcels in hand."""
        return self._lanes.count

    def stop(self) -> None:
        """Take no more parcels, and end when those in hand are done; to be called in the loop's thread."""
        self.consumer.stop()

    async def run(self, *, signals: bool = False) -> None:
        """Deliver until `stop` is called; with `signals`, until SIGTERM or SIGINT comes as well.

        Raises SinkClosed if the sink takes nothing any more, once everything was given back.
        """
        await self.dispatcher.start()
        looking = self._looks.start(self._look)
        try:
            await self.consumer.run(signals=signals)
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            # What it still has was given back to the timeline: it is not the dispatcher's any more.
            await self.dispatcher.stop(timedelta(0))
            await self._sending.close()
            if self._close is not None:
                self._close()
        if self._closed is not None:
            raise self._closed

    # --- a parcel ---

    async def _handle(self, message: LeasedMessage) -> Later | None:
        parcel = await self._accepted(message)
        if parcel is None:
            return None
        try:
            with self._sending.waiting(parcel):
                place = await self._lanes.turn(parcel)
            if place == "arrived":
                self._verdicts[message.id] = Delivery(message, parcel)
                self.parcels["repeated"] += 1
                return None
            return await self._sent(message, parcel, await self._sending.send(parcel))
        except GivenBack as back:
            return Later(timedelta(seconds=max(back.until_s - self._clock(), 0)), NOT_ITS_TURN)
        finally:
            self._lanes.dropped(parcel)

    async def _accepted(self, message: LeasedMessage) -> Consignment | None:
        """Return the parcel that publishing put into a message; None if there is none, for the message is a stray.

        Its measurements are expanded only when it is sent.
        """
        try:
            parcel = read_consignment(message.body)
            stray = await self._proofs.reason(message, parcel)
        except InvalidMessage as error:
            stray = f"no parcel: {error}"
        if not stray:
            return parcel
        log.warning("message %s goes to the dead letters: %s", message.id, stray)
        self.parcels["strays"] += 1
        self._strays[message.id] = stray
        return None

    async def _sent(self, message: LeasedMessage, parcel: Consignment, error: object) -> Later | None:
        if isinstance(error, PartlyDelivered):
            await self._in_part(message, parcel, error)
            return None
        if error is not None and not isinstance(error, RefusedParcel):
            reason = reason_of(error)
            if isinstance(error, SinkClosed):
                self._closed = error
                self.stop()
            if not await self._is_hopeless(message):
                self.parcels["failed"] += 1
                return Later(timedelta(seconds=self._lanes.failed(parcel, self._pause_s)), reason)
            error = RefusedParcel(f"{self._given_up()}: {reason}")
        dead = None if error is None else parcel.altered(reason=reason_text(error_text(error)))
        self._arrive(message, Delivery(message, parcel, dead))
        return None

    async def _in_part(self, message: LeasedMessage, parcel: Consignment, error: PartlyDelivered) -> None:
        refused, again = dict(error.refused), dict(error.again)
        if again and await self._is_hopeless(message):
            refused, again = {place: f"{self._given_up()}: {why}" for place, why in again.items()} | refused, {}
        reason = reason_text(next(iter(refused.values()), parcel.reason))
        # Parts have ids of their own: by the parcel's, a receiver would take them for what it has answered before.
        part = replace(parcel.only(refused), id=f"{parcel.id}{DEAD}", reason=reason)
        dead = part if part.count else None
        rest_id = _next_id(parcel.id, _rests_before(message.id))
        rest = replace(parcel.only(again.keys() - refused.keys()), id=rest_id, reason=reason)
        if not rest.count:
            self._arrive(message, Delivery(message, parcel, dead))
            return
        # A span: the moment is that of the transaction, by a clock that is right then.
        after_ms = round(self._lanes.failed(parcel, self._pause_s) * 1_000)
        self.parcels["failed"] += 1
        self._count(parcel.count - rest.count, part.count)
        next_id = _next_id(message.id, _rests_before(message.id))
        self._verdicts[message.id] = Delivery(message, parcel, dead, rest=rest, rest_after_ms=after_ms, rest_id=next_id)

    def _arrive(self, message: LeasedMessage, delivery: Delivery) -> None:
        parcel, dead = delivery.parcel, delivery.dead
        refused = dead.count if dead is not None else 0
        self.parcels["delivered" if dead is None else "refused"] += 1
        self._count(parcel.count, refused)
        self._verdicts[message.id] = delivery
        self._lanes.arrived(parcel)
        if self.on_delivered is not None and refused < parcel.count:
            try:
                self.on_delivered(parcel)
            except Exception:
                log.exception("on_delivered raised; the parcel has arrived all the same")

    def _count(self, sent: int, refused: int) -> None:
        self.measurements["refused"] += refused
        self.measurements["delivered"] += sent - refused

    async def _is_hopeless(self, message: LeasedMessage) -> bool:
        """Whether a parcel was sent as often as it may be, this time included; not if the store does not say."""
        if self._give_up_after is None:
            return False
        owner = message.producer_group
        try:
            seen = await asyncio.to_thread(self._timeline.read, self.topic, message.id, producer_group=owner)
        except (StoreError, TopicRefused):
            return False
        tried = sum(one.ending == "released" and not one.reason.startswith(NOT_SENT) for one in seen.history)
        return _rests_before(message.id) + tried + 1 >= self._give_up_after

    def _given_up(self) -> str:
        return f"given up after {self._give_up_after} attempts"

    def _pause_s(self, failures: int) -> float:
        return self._retry.pause_ms(failures, self._chance()) / 1_000

    # --- what the store is told, and asked ---

    def _settle(self, finished: Sequence[tuple[LeasedMessage, Lease]]) -> Sequence[Outcome]:
        """In a thread: tell the store what became of parcels, by the leases that they have by now."""
        strays = [
            Stray(lease, message.body, message.attempts, self._strays[message.id])
            for message, lease in finished
            if message.id in self._strays
        ]
        deliveries = [
            replace(self._verdicts[message.id], lease=lease)
            for message, lease in finished
            if message.id in self._verdicts
        ]
        told = [*(self.deliveries.settle(deliveries) if deliveries else ())]
        told += self.deliveries.bury(strays) if strays else ()
        for message, _ in finished:
            self._verdicts.pop(message.id, None)
            self._strays.pop(message.id, None)
        outcomes = {one.id: one for one in told}
        return [outcomes.get(message.id) or Outcome(message.id, "lost") for message, _ in finished]

    async def _look(self) -> None:
        """While somebody waits for a parcel that is not in hand, look how far its lane has come."""
        never = asyncio.Event()
        while True:
            await self._lanes.looking.wait()
            await self._wait(never, await self._looks.turn(self._look_once))

    async def _look_once(self) -> float:
        sought = self._lanes.sought()
        self._lanes.seen(await asyncio.to_thread(self.deliveries.reached, sought) if sought else {})
        return LOOK_AT_LANES_S


def _check_topic(topic: Topic) -> None:
    if topic.max_attempts is not None:
        raise InvalidRules(
            f"topic {topic.name!r} gives messages up after {topic.max_attempts} leases, and a lane would wait for them "
            "for ever: a topic of parcels has no max_attempts, give the worker give_up_after"
        )


def _rests_before(id: str) -> int:
    """How often something was left of a parcel before, by the id of its message."""
    _, mark, number = id.rpartition("~")
    return int(number) if mark and number.isdecimal() else 0


def _next_id(id: str, before: int) -> str:
    """The id for what is left of a parcel, of which something was left so often before."""
    return f"{id.removesuffix(f'~{before}') if before else id}~{before + 1}"
