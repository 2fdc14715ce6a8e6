"""A dispatcher: operations in, batches of them out to their watchers, at the rate that the limiter allows."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal, Self

from batchline.core.dispatch import Dispatch, Handout
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.moment import check_span, span_text
from batchline.core.operation import WAITING, Operation, OperationPlace, Watcher, check_operations
from batchline.core.retry import RetryRules
from batchline.core.trouble import SERVING
from batchline.errors import (
    BufferFull,
    DeadlinePassed,
    DispatcherStopped,
    ImproperOrder,
    InvalidRules,
    Throttled,
    shown,
)
from batchline.runtime.callbacks import Callbacks, error_text
from batchline.runtime.clock import elapsed_seconds, now_us, wait_for, wake_after
from batchline.runtime.events import Events
from batchline.runtime.limiter import Limiter
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.runtime.threadsafe import Threadsafe

__all__ = ["Dispatcher", "Remains"]

log = logging.getLogger("batchline")
DRAIN: Final = timedelta(seconds=30)
#: The batch whose callback runs: it may enqueue its own operations again.
own_batch: ContextVar[OperationPlace | None] = ContextVar("own_batch", default=None)


@dataclass(frozen=True, slots=True)
class Remains:
    """What a dispatcher had left when it was stopped: nothing of it is lost, all of it is yours again."""

    #: Operations that were not handed out.
    unsent: list[Operation] = field(default_factory=list)
    #: Operations whose callbacks had not ended; whether they were done only their receiver knows.
    unfinished: list[Operation] = field(default_factory=list)


class Dispatcher(Supervised):
    """Hands operations to their watchers in batches, within the capacity of a limiter. One for each receiver.

    A step that fails, for a limiter of your own say, is logged and repeated after a pause; `troubles()` shows it.
    """

    def __init__(
        self,
        limiter: Limiter | None = None,
        *,
        buffer: int = DispatchRules.buffer,
        flush_interval: timedelta = DispatchRules.flush_interval,
        capacity_interval: timedelta = DispatchRules.capacity_interval,
        audit_interval: timedelta = DispatchRules.audit_interval,
        max_operation_time: timedelta = DispatchRules.max_operation_time,
        pause_time: timedelta = DispatchRules.pause_time,
        error_on_full_buffer: bool = False,
        emit_batch: bool = False,
        max_concurrent_batches: int | None = None,
        backoff: RetryRules | None = None,
        calm: timedelta = DispatchRules.calm,
        clock: Callable[[], float] = elapsed_seconds,
        wall: Callable[[], int] = now_us,
        chance: Callable[[], float] = random.random,
    ):
        """A dispatcher; what the options mean stands with `DispatchRules`. Without a limiter nothing is held back."""
        _check_limiter(limiter)
        self.rules = DispatchRules(
            buffer=buffer,
            flush_interval=flush_interval,
            capacity_interval=capacity_interval,
            audit_interval=audit_interval,
            max_operation_time=max_operation_time,
            pause_time=pause_time,
            error_on_full_buffer=error_on_full_buffer,
            emit_batch=emit_batch,
            max_concurrent_batches=max_concurrent_batches,
            backoff=backoff,
            calm=calm,
        )
        self.limiter = limiter
        self.events = Events()
        #: What it had left when it was stopped.
        self.remains = Remains()
        #: The same verbs for other threads than the loop's.
        self.threadsafe = Threadsafe(self)
        self._phase: Literal["new", "started", "stopping", "stopped"] = "new"
        self._dispatch = Dispatch(self.rules)
        self._callbacks = Callbacks("dispatcher", self._note_idle, self._is_over, max_concurrent_batches)
        #: Batches whose callbacks have raised, and that on_error has in hand.
        self._failing: dict[int, Handout] = {}
        self._clock, self._wall, self._chance = clock, wall, chance
        self.supervisor = Supervisor(chance=chance)
        if limiter is not None:
            self.supervisor.adopt(limiter.supervisor)
        #: Failing steps are repeated in a flush interval at first: producers wait for it.
        self._steps = self.supervisor.loop("dispatch", back_off=replace(SERVING, first=self.rules.flush_interval))
        self._loop: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._owns_limiter = False
        self._flush_asked = self._paused = False
        self._wake, self._space = asyncio.Event(), asyncio.Event()
        self._idle, self._ended = asyncio.Event(), asyncio.Event()
        self._idle.set()
        #: Producers that wait for room do so one behind the other; and how many operations wait with them.
        self._queue, self._queued = asyncio.Lock(), 0

    # --- its life ---

    async def start(self) -> None:
        """Begin to hand out; a limiter that nobody has started is provisioned and started, too."""
        if self._phase != "new":
            raise ImproperOrder(f"the order is start, stop; got start when it was {self._phase}")
        if self.limiter is not None:
            await self._start_limiter(self.limiter)
            self.limiter.begin_ramp()
        self._phase = "started"
        self._dispatch.begin(self._capacity, self._clock())
        self.threadsafe.loop = asyncio.get_running_loop()
        self._loop = self._steps.start(self._run)

    async def _start_limiter(self, limiter: Limiter) -> None:
        limiter.use(self)
        if limiter.phase == "new":
            await limiter.provision()
        if limiter.phase != "started":
            await limiter.start()
            self._owns_limiter = True

    async def stop(self, drain: timedelta = DRAIN) -> Remains:
        """Take nothing more, go on handing out for at most so long, and hand back what is left then.

        Who waits for room gets DispatcherStopped. Callbacks that have not ended are cancelled, if they are async.
        """
        check_span("drain", drain, 0)
        if self._phase == "new":
            raise ImproperOrder("the order is start, stop; got stop when it was new")
        if self._phase == "started":
            self._phase = "stopping"
            self._space.set()
            try:
                if self._is_running:
                    await wait_for(self._idle, drain.total_seconds())
            finally:
                # Who is told to hurry hurries; who is told again does not leave it half-stopped.
                self._ending = asyncio.ensure_future(self._end())
                await asyncio.shield(self._ending)
        await self._ended.wait()
        return self.remains

    async def _end(self) -> None:
        self._phase = "stopped"
        self._wake.set()
        try:
            await self._end_calls()
        finally:
            self.remains = self._collect_remains()
            self._idle.set()
            try:
                if self.limiter is not None:
                    await self._let_go(self.limiter)
            finally:
                self._ended.set()
                self.events.emit("shutdown")

    async def _end_calls(self) -> None:
        if self._loop is not None:
            # Waited for, not awaited: a program that cancels all its tasks has cancelled this one, too.
            await asyncio.wait([self._loop])
        await self._callbacks.cancel()

    def _collect_remains(self) -> Remains:
        """Take all that is left; an operation that its own callback has enqueued again is unsent, and only that."""
        unsent = self._dispatch.buffer.take_all()
        under_way = self._dispatch.handouts | self._failing
        unfinished: dict[int, Operation] = {}
        for handout in under_way.values():
            handout.place.ended = True
            unfinished |= {id(one): one for one in handout.operations if one.place is not WAITING}
        remains = Remains(unsent, list(unfinished.values()))
        self._dispatch.release(unsent + remains.unfinished)
        return remains

    async def _let_go(self, limiter: Limiter) -> None:
        limiter.request(0)
        if self._owns_limiter and limiter.phase == "started":
            await limiter.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._phase == "stopped":
            return  # whoever stopped it has what remained
        remains = await self.stop(DRAIN if kind is None else timedelta(0))
        if remains.unsent or remains.unfinished:
            log.warning(
                "stopped with %d operations unsent and %d unfinished: see `remains`", *map(len, _parts(remains))
            )

    # --- what comes in ---

    async def enqueue(self, operation: Operation) -> None:
        """Put an operation into the buffer, as soon as there is room."""
        await self.enqueue_many((operation,))

    async def enqueue_many(self, operations: Iterable[Operation]) -> None:
        """Put operations into the buffer, as soon as there is room; if one is refused, none of them is enqueued."""
        wanted = self._checked(operations)
        if self.rules.error_on_full_buffer:
            self._put_now(wanted)
            return
        own = self._dispatch.claim(wanted, own_batch.get())
        if self._queued + len(wanted) <= self._dispatch.room:
            self._put(wanted)  # there is room for the producers that wait, too
        else:
            await self._put_by_and_by(wanted, own)

    def enqueue_nowait(self, operation: Operation) -> None:
        """Put an operation into the buffer, or raise BufferFull."""
        self._put_now(self._checked((operation,)))

    def _checked(self, operations: Iterable[Operation]) -> list[Operation]:
        wanted = check_operations(operations)
        self._check_open(wanted)
        self._dispatch.check(wanted, None if self.limiter is None else self.limiter.max_capacity)
        return wanted

    def _check_open(self, operations: list[Operation], done: int = 0) -> None:
        if self._phase in ("stopping", "stopped"):
            left = operations[done:]
            raise DispatcherStopped(f"the dispatcher is {self._phase}: {len(left):,} operations not enqueued", left)

    def _put_now(self, operations: list[Operation]) -> None:
        if len(operations) > self._dispatch.room:
            raise BufferFull(
                f"the buffer of {self.rules.buffer:,} has room for {self._dispatch.room:,}, got {len(operations):,}"
            )
        self._dispatch.claim(operations, own_batch.get())
        self._put(operations)

    async def _put_by_and_by(self, operations: list[Operation], own: list[Operation]) -> None:
        left = len(operations)
        self._queued += left
        try:
            while left:
                # A piece at a time: who comes with little does not wait for all of who came with much.
                async with self._queue:
                    done = len(operations) - left
                    piece = operations[done : done + await self._until_room(operations, done)]
                    self._put(piece)
                self._queued -= len(piece)
                left -= len(piece)
        finally:
            self._queued -= left
            self._hand_back(operations[len(operations) - left :], own)

    def _hand_back(self, operations: list[Operation], own: list[Operation]) -> None:
        """Mark operations that could not be enqueued as the caller's again, or as in flight if it is their callback."""
        self._dispatch.release(operations)
        left = set(map(id, operations))
        self._dispatch.return_to(own_batch.get(), (operation for operation in own if id(operation) in left))

    async def _until_room(self, operations: list[Operation], done: int) -> int:
        self._check_open(operations, done)
        while not self._dispatch.room:
            # If the last flush left nothing behind, there may be capacity for a part of this: why wait for the next.
            if not self._dispatch.held_back:
                self.flush()
            self._space.clear()
            await self._space.wait()
            self._check_open(operations, done)
        return self._dispatch.room

    def _put(self, operations: list[Operation]) -> None:
        if not self._dispatch.buffer.count:
            self._wake.set()
        self._dispatch.put(operations)
        self._note_idle()

    # --- what people may ask for ---

    def flush(self) -> None:
        """Flush as soon as possible, once, however often it is asked for; does not wait for it."""
        self._flush_asked = True
        self._wake.set()

    def pause(self) -> bool:
        """Stop handing out for the pause time; tells whether it did, which it does not if it is paused already."""
        if self._phase not in ("started", "stopping"):
            return False
        return self._tell_pause(self._dispatch.pausing.pause(self._clock()))

    async def drain(self) -> None:
        """Wait until nothing is buffered and no callback is under way."""
        if self._phase == "new":
            raise ImproperOrder("drain waits for operations to be handed out: start the dispatcher first")
        await self._idle.wait()

    def expect(self, cost: Any) -> None:
        """So much waits elsewhere until what is here has gone: while it is held back, the limiter is asked for both."""
        self._dispatch.expected = cost

    @property
    def target(self) -> Any:
        """What all operations cost that are buffered or in flight."""
        return self._dispatch.target

    @property
    def buffered(self) -> int:
        """How many operations wait."""
        return self._dispatch.buffer.count

    @property
    def inflight(self) -> int:
        """How many batches are with their callbacks."""
        return len(self._dispatch.handouts)

    @property
    def used(self) -> Any:
        """What all operations cost that were handed out since the start, those again that come again."""
        return self._dispatch.used

    @property
    def is_paused(self) -> bool:
        """Whether nothing is handed out, for the receiver throttles or somebody has asked for it."""
        return self._paused

    # --- the loop ---

    @property
    def _capacity(self) -> Any:
        return None if self.limiter is None else self.limiter.capacity

    async def _run(self) -> None:
        while self._phase != "stopped":
            await wake_after(self._wake, await self._steps.turn(self._turn))
            self._wake.clear()

    async def _turn(self) -> float:
        now_s = self._clock()
        if self._steps.trouble is not None:
            self._flush_asked = True  # a step that does nothing is not clean
        self._step(now_s)
        return self._dispatch.wake_s(now_s) - self._clock()

    def _step(self, now_s: float) -> None:
        """All that is due now."""
        dispatch = self._dispatch
        for handout in dispatch.give_up(now_s):
            _warn_late(handout)
        if dispatch.pausing.paused(now_s):
            return
        if self._paused:
            self._paused = False
            dispatch.resume(self._capacity, now_s)
            self.events.emit("resume")
        if self.limiter is not None and dispatch.requests.due(now_s):
            self._request(self.limiter, now_s)
        if dispatch.flushes.due(now_s) or self._flush_asked:
            self._flush(now_s)
        if dispatch.audits.due(now_s):
            self._audit(now_s)

    def _request(self, limiter: Limiter, now_s: float) -> None:
        usable = self._dispatch.request(limiter.capacity, now_s)
        limiter.request(usable)
        if usable:
            self.events.emit("request", usable)

    def _flush(self, now_s: float) -> None:
        self._flush_asked = False
        if not self._dispatch.buffer.count:
            return
        self.events.emit("flush-start")
        flushed = self._dispatch.flush(self._capacity, now_s, self._wall())
        for handout in flushed.handouts:
            if self.rules.emit_batch:
                self.events.emit("batch", len(handout.operations), metadata=list(handout.operations))
            self._callbacks.begin(self._call(handout))
        for operation in flushed.expired:
            self._die(operation.watcher, [operation], DeadlinePassed(f"the deadline of {operation!r} has passed"))
        if self._dispatch.room:
            self._space.set()
        self._note_idle()
        self.events.emit("flush-done", sum(len(handout.operations) for handout in flushed.handouts))

    def _audit(self, now_s: float) -> None:
        found = self._dispatch.audit(now_s)
        said = "a target was left although nothing was; it was put right" if found == "fail" else None
        self.events.emit(f"audit-{found}", message=said)

    # --- callbacks ---

    async def _call(self, handout: Handout) -> None:
        own_batch.set(handout.place)
        try:
            await self._callbacks.call(handout.watcher.callback, list(handout.operations))
        except Throttled as error:
            self._throttled(handout, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes to on_error
            if self._phase == "stopped":
                return  # it is among the remains
            self._free(handout)
            await self._failed(handout, error)
        else:
            self._free(handout)

    @property
    def _is_running(self) -> bool:
        """Whether its loop hands out: it was started, has not ended, and nothing has cancelled it."""
        return self._loop is not None and not self._loop.done() and not self._loop.cancelling()

    def _is_over(self) -> bool:
        """Whether callbacks are cancelled because the dispatcher ends: by `stop`, or with its event loop."""
        return self._phase == "stopped" or not self._is_running

    def _free(self, handout: Handout) -> None:
        """Free the slot of a batch, and settle it; a debt is asked for without waiting for the next operation."""
        self._dispatch.end(handout, self._clock())
        if self._dispatch.owes_unasked:
            self._wake.set()

    def _throttled(self, handout: Handout, error: Throttled) -> None:
        pausing = self._dispatch.pausing
        asked_s = None if error.retry_after is None else error.retry_after.total_seconds()
        now_s = self._clock()
        # Before the limiter is called, which may be the user's own and raise.
        self._dispatch.put_back(handout)
        self._free(handout)
        news = pausing.is_news(now_s, handout.handed_out_s)
        self._tell_pause(pausing.throttle(now_s, handout.handed_out_s, asked_s, self._chance()))
        # Batches that were under way together are throttled for one reason: capacity falls once.
        if self.limiter is not None and news:
            self.limiter.throttled()

    async def _failed(self, handout: Handout, error: Exception) -> None:
        watcher = handout.watcher
        if watcher.on_error is not None and await self._took(watcher.on_error, handout, error):
            return
        most = watcher.max_attempts
        # The callback, on_error or another producer may have enqueued some of them again.
        free = [operation for operation in handout.operations if operation.place is None]
        again = [operation for operation in free if most is None or operation.attempts < most]
        dead = [operation for operation in free if most is not None and operation.attempts >= most]
        self._dispatch.claim(again)
        self._put(again)
        if dead:
            self._die(watcher, dead, error)

    async def _took(self, on_error: Callable[..., Any], handout: Handout, error: Exception) -> bool:
        """Whether `on_error` has decided what becomes of the operations; it has not if it raised."""
        self._failing[id(handout)] = handout
        try:
            await self._callbacks.call(on_error, list(handout.operations), error)
        except Exception:
            if self._phase == "stopped":
                return True  # as above
            log.exception("%r: on_error raised, so its operations come again while attempts are left", handout.watcher)
            took = False
        else:
            took = True
        del self._failing[id(handout)]
        return took

    def _die(self, watcher: Watcher, operations: list[Operation], error: Exception) -> None:
        self.events.emit("dead", len(operations), error_text(error), list(operations))
        if watcher.on_dead is None:
            log.error("%d operations of %r are dead: %s", len(operations), watcher, error_text(error))
        else:
            self._callbacks.begin(self._bury(watcher.on_dead, operations, error))

    async def _bury(self, on_dead: Callable[..., Any], operations: list[Operation], error: Exception) -> None:
        try:
            await self._callbacks.call(on_dead, operations, error)
        except (Exception, asyncio.CancelledError) as raised:
            log.exception("on_dead raised: %d operations are dead: %s", len(operations), error_text(error))
            if not isinstance(raised, Exception):
                raise

    def _tell_pause(self, seconds: float | None) -> bool:
        if seconds is None:
            return False
        self._paused = True
        self.events.emit("pause", round(seconds * 1_000))
        self._wake.set()
        return True

    def _note_idle(self) -> None:
        if self._dispatch.buffer.count or self._callbacks:
            self._idle.clear()
        else:
            self._idle.set()


def _check_limiter(limiter: object) -> None:
    if not isinstance(limiter, Limiter | None):
        raise InvalidRules(f"limiter must be a ProvisionedResource or a SharedResource, got {shown(limiter)}")


def _parts(remains: Remains) -> tuple[list[Operation], list[Operation]]:
    return remains.unsent, remains.unfinished


def _warn_late(handout: Handout) -> None:
    longest = timedelta(seconds=handout.late_s - handout.handed_out_s)
    log.warning(
        "%r has %d operations for longer than %s: their cost is given back, their slot when the callback ends",
        handout.watcher,
        len(handout.operations),
        span_text(longest),
    )
