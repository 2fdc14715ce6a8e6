"""A consumer: messages of a topic, each in the hands of a handler, under a lease that is extended while it works."""

import asyncio
import os
import random
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from batchline.core.later import Later
from batchline.core.message import Lease, LeasedMessage, Outcome
from batchline.core.moment import check_span
from batchline.core.name import check_name, reason_text
from batchline.core.retry import RetryRules
from batchline.core.topic import span_ms
from batchline.core.trouble import SERVING
from batchline.errors import (
    BatchlineError,
    ConsumerReplaced,
    InvalidCount,
    InvalidInput,
    shown,
)
from batchline.runtime.callbacks import call_in, failure_of, reason_of
from batchline.runtime.clock import wait_for
from batchline.runtime.intake import Intake, Pushing
from batchline.runtime.polling import Finish, Polling
from batchline.runtime.services import Services, Wait
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.runtime.timeline import Timeline

__all__ = ["Consumer"]

Answer = Later | None
Handler = Callable[[LeasedMessage], Answer | Awaitable[Answer]]
#: How often an idle consumer looks for messages that were due as they were created.
LOOK_EVERY: Final = timedelta(milliseconds=15)
BEAT_EVERY: Final = timedelta(seconds=5)
MOST_AT_ONCE: Final = 10_000
#: Why what was not finished in time is given back.
STOPPED: Final = "the consumer was stopped"


@dataclass(slots=True)
class Running:
    """A message in the hands of the handler."""

    message: LeasedMessage
    lease: Lease
    task: asyncio.Task[Answer]


class Consumer(Supervised):
    """Hands messages of a topic to a handler, at most `concurrency` at once.

    The handler is a function or a coroutine function of the message. If it returns, the message is done; if it raises,
    the message is given back for later, the longer the more often it failed; if it returns `Later(…)`, for then.

    A turn that fails unexpectedly is logged and repeated after at most 5 s, while `troubles()` names the loop; a
    refusal, such as a topic that was deleted, ends `run`.
    """

    def __init__(
        self,
        timeline: Timeline | Pushing,
        topic: str,
        handler: Handler,
        *,
        consumer: str | None = None,
        concurrency: int = 10,
        lease: timedelta | None = None,
        retry: RetryRules | None = None,
        drain: timedelta = timedelta(seconds=30),
        look_every: timedelta = LOOK_EVERY,
        services: Services | None = None,
        finish: Finish | None = None,
        wait: Wait = wait_for,
        chance: Callable[[], float] = random.random,
        supervisor: Supervisor | None = None,
    ):
        """A consumer with an id that should stay the same when it is started again: it takes its leases over.

        `drain` is how long handlers may go on after `stop`; what they have not finished then is given back. When there
        is nothing to do it looks as often as `look_every` for messages that are due as they are created; those that it
        knows of it takes at their moment. `finish` is called in place of the timeline's `done`. In place of a timeline
        it takes a client: then the service pushes messages to it, and nobody looks.
        """
        _check_concurrency(concurrency)
        check_span("drain", drain, 0)
        check_span("look_every", look_every, 1_000)
        self.consumer = check_name("the consumer", consumer or f"{socket.gethostname()}-{os.getpid()}")
        #: How many messages ended in which way: done, released, lost.
        self.outcomes: Counter[str] = Counter()
        self._handler, self._concurrency = handler, concurrency
        self._intake: Intake
        if isinstance(timeline, Timeline):
            self._intake = Polling(
                timeline, topic, self.consumer, lease=lease, look_every=look_every, services=services, finish=finish
            )
        else:
            _check_pushing(timeline, finish)
            self._intake = timeline.subscription(topic, self.consumer, prefetch=concurrency, duration=lease)
        self._retry = retry or RetryRules()
        self._drain_ms = span_ms(drain)
        self._services = services
        self.supervisor = supervisor or Supervisor()
        if services is not None:
            self.supervisor.adopt(services.supervisor)
        # A refusal is not repeated: a topic that is gone does not come back.
        self._loop = self.supervisor.loop(
            "consume", topic, back_off=SERVING, away_s=self._intake.pause_s, ends=(BatchlineError,)
        )
        self._wait, self._chance = wait, chance
        self._running: list[Running] = []
        self._wake = asyncio.Event()
        self._intake.on_arrival(self._wake.set)
        self._stopping = False
        self._replaced: ConsumerReplaced | None = None
        self._beat_at_ms = self._beaten_ms = 0
        self._done_since_beat = 0
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"{topic}-handler")

    def stop(self) -> None:
        """Take no more messages, and end when those in hand are done; to be called in the loop's thread."""
        self._stopping = True
        self._wake.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called, or a signal came."""
        return self._stopping

    @property
    def in_hand(self) -> int:
        """How many messages the handler has."""
        return len(self._running)

    async def run(self, *, signals: bool = False) -> None:
        """Consume until `stop` is called; with `signals`, until SIGTERM or SIGINT comes as well.

        Raises ConsumerReplaced, once the messages in hand are done, if another process was started as this consumer.
        """
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self._end_soon)
        services = asyncio.ensure_future(self._services.run()) if self._services else None
        try:
            await self._consume()
        finally:
            self._intake.abort()
            self._threads.shutdown(wait=False, cancel_futures=True)
            if self._services and services:
                self._services.stop()
                await services
        if self._replaced is not None:
            raise self._replaced

    def _end_soon(self) -> None:
        """Stop at a signal; a store that does not answer must not hold up the end for as long as its patience."""
        self.stop()
        self._intake.hurry()

    async def _consume(self) -> None:
        while (rest_s := await self._patiently(self._resume)) and not self._stopping:
            await self._rest(rest_s)
        while not self._stopping:
            await self._rest(await self._patiently(self.turn))
        await self._patiently(self._take_no_more)
        stop_at_ms = self._intake.now_ms() + self._drain_ms
        while self._running and self._intake.now_ms() < stop_at_ms:
            left_s = (stop_at_ms - self._intake.now_ms()) / 1_000
            await self._rest(min(await self._patiently(self.turn), left_s))
        await self._leave()

    async def turn(self) -> float:
        """One turn: extend, finish, be seen, take new messages. Returns how many seconds it may rest."""
        # Leases first: they are held although finishing fails.
        await self._extend()
        await self._finish()
        await self._beat()
        taken = 0 if self._stopping else await self._take()
        if taken or (self._stopping and not self._running):
            return 0.0
        if self._stopping or len(self._running) >= self._concurrency:
            return self._until_upkeep()
        return min(await self._intake.until_due(), self._until_upkeep())

    # --- the steps of a turn ---

    async def _finish(self) -> None:
        ended = [one for one in self._running if one.task.done()]
        if not ended:
            return
        back: dict[tuple[timedelta, str], list[Running]] = {}
        done: list[Running] = []
        for one in ended:
            later = self._later(one)
            if later is None:
                done.append(one)
            else:
                back.setdefault(later, []).append(one)
        if done:
            finished = [(one.message, one.lease) for one in done]
            self._told(done, await self._intake.done(finished))
        for (after, reason), some in back.items():
            leases = [one.lease for one in some]
            self._told(some, await self._intake.release(leases, after, reason))

    def _told(self, some: Sequence[Running], outcomes: Sequence[Outcome]) -> None:
        """The store knows of these: should it not answer for others, the next turn tells it of those alone."""
        self._note(outcomes)
        gone = set(map(id, some))
        self._running = [one for one in self._running if id(one) not in gone]

    def _later(self, one: Running) -> tuple[timedelta, str] | None:
        """Return the span until a message is due again, and why; None if it is done."""
        error: BaseException | None = asyncio.CancelledError() if one.task.cancelled() else one.task.exception()
        if error is not None:
            pause_ms = self._retry.pause_ms(one.message.attempts, self._chance())
            return timedelta(milliseconds=pause_ms), reason_of(error)
        answer = one.task.result()
        return None if answer is None else (answer.after, reason_text(answer.reason))

    async def _extend(self) -> None:
        soon_ms = self._intake.now_ms() + self._intake.lease_ms // 2
        ending = [one for one in self._running if one.lease.until_ms <= soon_ms and not one.task.done()]
        if not ending:
            return
        outcomes = await self._intake.extend([one.lease for one in ending])
        for one, outcome in zip(ending, outcomes, strict=True):
            if outcome.lease is not None:
                one.lease = outcome.lease
            else:
                # Somebody else may have the message by now: whatever the handler still does is done for nothing.
                one.task.cancel()
                self._running.remove(one)
                self.outcomes["lost"] += 1

    async def _beat(self) -> None:
        now_ms = self._intake.now_ms()
        # A clock that was set back makes it due, too.
        if self._beaten_ms <= now_ms < self._beat_at_ms:
            return
        span_s = max(now_ms - self._beaten_ms, 1) / 1_000
        speed = self._done_since_beat / span_s if 0 < self._beaten_ms <= now_ms else 0.0
        try:
            self._start(await self._intake.beat(speed))
        except ConsumerReplaced as error:
            self._make_room(error)
        self._beaten(now_ms)

    def _make_room(self, error: ConsumerReplaced) -> None:
        """Take no more messages: another process is the consumer. `run` raises the error when this one has drained."""
        if not self._stopping:
            self._replaced = error
            self.stop()

    def _beaten(self, now_ms: int) -> None:
        self._beaten_ms, self._done_since_beat = now_ms, 0
        self._beat_at_ms = now_ms + span_ms(BEAT_EVERY)

    async def _take(self) -> int:
        free = self._concurrency - len(self._running)
        if free <= 0:  # it may have had more in hand before it was started again
            return 0
        try:
            found = await self._intake.take(free)
        except ConsumerReplaced as error:
            self._make_room(error)
            return 0
        self._start(found)
        return len(found)

    async def _resume(self) -> float:
        """Go on with what it had leased before it was started again."""
        self._start(await self._intake.resume())
        self._beaten(self._intake.now_ms())
        return 0.0

    def _start(self, messages: Iterable[LeasedMessage]) -> None:
        for message in messages:
            task = asyncio.ensure_future(self._handle(message))
            task.add_done_callback(lambda _: self._wake.set())
            self._running.append(Running(message, message.lease, task))

    async def _handle(self, message: LeasedMessage) -> Answer:
        try:
            answer = await call_in(self._threads, self._handler, message)
        except (Exception, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            # Raised in a task as it is, SystemExit would end the loop, and all handlers with it.
            raise failure_of(error) from error
        if answer is not None and not isinstance(answer, Later):
            raise TypeError(f"a handler returns None or Later(…), got {shown(answer)}")
        return answer

    async def _leave(self) -> None:
        """Give back what was not finished in time, and leave the topic."""
        for one in self._running:
            one.task.cancel()
        await self._patiently(self._give_back)
        self._running = []

    async def _take_no_more(self) -> float:
        await self._intake.enough()
        return 0.0

    async def _give_back(self) -> float:
        leases = [one.lease for one in self._running]
        if leases:
            self._note(await self._intake.release(leases, None, STOPPED))
        await self._intake.leave()
        return 0.0

    # --- rests ---

    def _until_upkeep(self) -> float:
        """How long until leases are to be extended, or it is to be seen."""
        ends = (one.lease.until_ms - self._intake.lease_ms // 2 for one in self._running)
        return max(min([self._beat_at_ms, *ends]) - self._intake.now_ms(), 1) / 1_000

    async def _rest(self, seconds: float) -> None:
        await self._wait(self._wake, seconds)
        self._wake.clear()

    async def _patiently(self, step: Callable[[], Awaitable[float]]) -> float:
        """Do a step that says how long it may rest; after a failure, return the pause before it is repeated."""
        return await self._loop.turn(step)

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes.update(outcome.outcome for outcome in outcomes)
        self._done_since_beat += sum(outcome.outcome == "done" for outcome in outcomes)


def _check_pushing(client: object, finish: object) -> None:
    if not isinstance(client, Pushing):
        raise InvalidInput(f"a consumer takes a Timeline or a Client, got {shown(client)}")
    if finish is not None:
        raise InvalidInput("finish is for a consumer on a Timeline: over the network messages are done as usual")


def _check_concurrency(concurrency: object) -> None:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or not 1 <= concurrency <= MOST_AT_ONCE:
        raise InvalidCount(f"concurrency must be a whole number from 1 to {MOST_AT_ONCE:,}, got {shown(concurrency)}")
