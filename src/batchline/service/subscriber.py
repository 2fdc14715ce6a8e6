"""One socket of a consumer: what is due goes out as long as it has room, and what it asks for is done and told."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocketDisconnect

from batchline.core.message import Lease, LeasedMessage, LeasesPage, Outcome
from batchline.core.session import Standing
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.errors import (
    BatchlineError,
    ConsumerReplaced,
    Degraded,
    Forbidden,
    StoreError,
    TopicRefused,
    Unauthorized,
)
from batchline.runtime.consumer_session import ConsumerSession
from batchline.service.answering import LARGE
from batchline.service.hand import Hand, check_prefetch
from batchline.service.leases import checked_leases
from batchline.service.operation import SocketCall
from batchline.service.waiting import Wanted
from batchline.stores.timeline_rows import ConsumerRow
from batchline.wire.form import given_after, given_ms, given_span, ms_of_at
from batchline.wire.messages import leased_messages, outcomes_form
from batchline.wire.problems import problem_of
from batchline.wire.push import (
    Asked,
    Beat,
    Close,
    Done,
    Extend,
    Leave,
    Prefetch,
    Problem,
    Pushed,
    Release,
    Said,
    Subscribed,
    Told,
    read_asked,
)

__all__ = ["Subscriber"]

LOG: Final = logging.getLogger("batchline.service")
encode: Final = msgspec.json.Encoder().encode
#: Bodies that one frame holds, unless one alone is larger.
FRAME_BYTES: Final = 1 << 20
#: How long a close may take.
CLOSE_S: Final = 5.0
LEFT: Final = "the consumer has left"
NOTHING_HELD: Final = LeasesPage((), None)
#: Codes of a client that closes its socket on purpose: its process is done with it.
CLOSED_BY_CLIENT: Final = (1000, 1001)


class Subscriber:
    """A socket, from before it is accepted until it has ended."""

    def __init__(
        self, call: SocketCall[Any], consumer: str, prefetch: int, duration: timedelta | None, session: int | None
    ) -> None:
        self.topic, self.consumer, self.token_id = call.topic, consumer, call.caller.token_id
        self.session = ConsumerSession(
            call.parts.timeline, call.topic, consumer, lease=duration, number=session, process=""
        )
        self.ended = asyncio.Event()
        self._call, self._parts, self._socket = call, call.parts, call.socket
        self._duration = duration
        self._hand = Hand(prefetch)
        self._share = call.share
        self._wanted = Wanted(
            consumer,
            self._hand.room,
            duration,
            session=lambda: self.session.number,
            check=self._check_token,
            max_bytes=FRAME_BYTES,
            share=self._share,
        )
        self._room = asyncio.Event()
        self._stop = asyncio.Event()
        self._closing: tuple[int, BatchlineError | None] | None = None
        self._replaced: ConsumerReplaced | None = None
        self._has_closed = False
        self._lease_ms = 0
        #: What it holds from before and was not pushed yet, the first part of it; None before that is read.
        self._held: LeasesPage | None = None
        #: Whether the consumer knows the number of its session, so that it may come back.
        self._is_known = session is not None
        #: Whether it was told what it holds from before. What is taken over after that is handed over by a task.
        self._is_greeted = False
        self._giving: asyncio.Task[None] | None = None
        self._drift_ms = self._done = 0
        self._seen_ms = call.parts.timeline.now_ms()

    async def enter(self) -> None:
        """Take part in the topic, with what it holds from before; raises what is wrong, before anything is accepted."""
        timeline, in_thread = self._parts.timeline, self._parts.in_thread
        # First of all: an older socket does not make room for one that is refused.
        self._lease_ms = (await in_thread(timeline.topic, self.topic)).lease_ms(self._duration)
        # Before its leases are read: an older socket of the same session gets something until it has ended.
        await self._parts.roll.make_room(self)
        try:
            await in_thread(self.session.enter)
        except ConsumerReplaced as error:
            self._replaced = error
        await self._parts.roll.enter(self)
        await self._share.take(LEASED_BYTES)
        self._held = await in_thread(self.session.held_page)
        self._share.keep(sum(len(message.body) for message in self._held.messages))
        await self._check_token()

    async def live(self) -> None:
        """Push and listen, until one side ends it."""
        tasks: list[asyncio.Task[Any]] = [asyncio.ensure_future(one) for one in (self._talk(), self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        except WebSocketDisconnect:
            pass
        except Exception:  # noqa: BLE001 - it is logged
            self._break()
        finally:
            tasks += [] if self._giving is None else [self._giving]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _talk(self) -> None:
        await self._greet()
        pushing = asyncio.ensure_future(self._push())
        try:
            await self._listen()
        finally:
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)

    async def leave(self) -> None:
        """Let go of everything: leases stay, for it may come again, unless it has said that it goes."""
        try:
            if self._closing == (Close.LEFT, None):
                await self._release_all()
            await self._parts.roll.leave(self, is_over=self._is_over())
        finally:
            self._share.end()
            self.ended.set()
        if self._closing is not None:
            await self._close(*self._closing)

    def _is_over(self) -> bool:
        """Whether the session has ended: the consumer said so, or it has nothing in hand to come back for."""
        if self._has_closed or self._closing == (Close.LEFT, None) or not self._is_known:
            return True
        return self._held == NOTHING_HELD and not len(self._hand)

    # --- what the roll asks ---

    def retire(self, error: ConsumerReplaced) -> None:
        """Push no more: another process is the consumer. The socket ends when what is in hand is finished."""
        self._replaced = error
        self._hand.prefetch = 0
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._replaced is not None and not len(self._hand):
            self.end(Close.REPLACED, self._replaced)

    async def stand(self, standing: Standing) -> None:
        """Act on what its session is among those of its name: retire, or take over what another has left.

        It waits for no client: one that reads nothing would hold up the beats of all sockets.
        """
        is_busy = not self._is_greeted or (self._giving is not None and not self._giving.done())
        if is_busy and not standing.replaced:  # what an ended session has left waits for the next beat
            return
        takes_over = not self._stop.is_set()
        try:
            found = await self._parts.in_thread(lambda: self.session.stand(standing, takes_over=takes_over))
        except ConsumerReplaced as error:
            if len(self._hand):  # the newer one may have taken them over
                held = await self._parts.in_thread(self.session.held)
                self._hand.keep(message.lease for message in held)
            self.retire(error)
        else:
            if found:
                self._hand.take(message.lease for message in found)
                self._giving = asyncio.ensure_future(self._give(found))

    def seen(self, now_ms: int) -> ConsumerRow:
        """How it was since it was seen last."""
        speed = self._done * 1_000 / max(now_ms - self._seen_ms, 1)
        self._seen_ms, self._done = now_ms, 0
        return ConsumerRow(self.consumer, now_ms, self._drift_ms, speed)

    def sweep(self, now_ms: int) -> None:
        """Forget leases that have ended."""
        self._hand.sweep(now_ms)
        self._room.set()
        self._end_if_retired()

    def end(self, code: int, error: BatchlineError | None) -> None:
        """Tell it why, and close it."""
        if self._closing is None:
            self._closing = (code, error)
        self._stop.set()

    # --- out ---

    async def _greet(self) -> None:
        held = self._held or NOTHING_HELD
        await self._send(
            Subscribed(
                lease_ms=self._lease_ms,
                prefetch=self._hand.prefetch,
                clock_ms=self._parts.timeline.now_ms(),
                resumed=len(held.messages),
                session=self.session.number,
            )
        )
        self._is_known, self._held = True, LeasesPage((), held.next)
        await self._hand_over(held.messages)
        self._share.keep(0)
        self._is_greeted = True
        if self._replaced is not None:
            self.retire(self._replaced)

    async def _push(self) -> None:
        try:
            await self._push_held()
            while True:
                while not self._hand.room():
                    self._room.clear()
                    await self._room.wait()
                found = await self._parts.pumps.of(self.topic).lease(self._wanted)
                if not found:  # the process is about to end, and so is the socket
                    return
                await self._hand_over(found)
                self._share.keep(0)
        except TopicRefused as error:
            self.end(Close.TOPIC, error)
        except Unauthorized as error:
            self.end(Close.POLICY, error)
        except ConsumerReplaced as error:
            self.retire(error)
        except WebSocketDisconnect:
            pass
        except Exception:  # noqa: BLE001 - it is logged
            self._break()

    async def _check_token(self) -> None:
        await self._parts.check_token(self.token_id)

    async def _push_held(self) -> None:
        """Push what it holds from before and did not fit in the first part, before anything new."""
        while self._held is not None and self._held.next is not None:
            await self._check_token()
            await self._share.take(LEASED_BYTES, patient=True)
            page = await self._parts.in_thread(self.session.held_page, self._held.next)
            self._held = LeasesPage((), page.next)
            await self._hand_over([one for one in page.messages if not self._hand.has(one.lease)])
            self._share.keep(0)

    def _break(self) -> None:
        LOG.exception("the socket of consumer %r on topic %r", self.consumer, self.topic)
        self.end(Close.BROKEN, None)

    async def _hand_over(self, messages: Sequence[LeasedMessage]) -> None:
        self._hand.take(message.lease for message in messages)
        for some in _frames(messages):
            if sum(len(message.body) for message in some) > LARGE:
                await self._socket.send_text(await self._parts.in_thread(_pushed, some))
            else:
                await self._socket.send_text(_pushed(some))

    async def _give(self, messages: Sequence[LeasedMessage]) -> None:
        try:
            with suppress(WebSocketDisconnect, RuntimeError):  # its socket has just ended: they stay leased to it
                await self._hand_over(messages)
        except Exception:  # noqa: BLE001 - it is logged
            self._break()

    async def _send(self, frame: Said) -> None:
        await self._socket.send_text(encode(frame).decode())

    async def _close(self, code: int, error: BatchlineError | None) -> None:
        with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(CLOSE_S):
                if error is not None:
                    await self._send(Problem(problem=problem_of(error)))
                await self._socket.close(code, "" if error is None else type(error).__name__)

    # --- in ---

    async def _listen(self) -> None:
        while not self._stop.is_set():
            event = await self._socket.receive()
            if event["type"] == "websocket.disconnect":
                self._has_closed = event.get("code") in CLOSED_BY_CLIENT
                return
            data = event.get("text")
            answer = await self._answer(event.get("bytes") or b"" if data is None else data)
            if answer is not None:
                await self._send(answer)
            await asyncio.sleep(0)  # a flood of frames is done one by one, between what others want

    async def _answer(self, data: str | bytes) -> Said | None:
        request: int | None = None
        try:
            frame = read_asked(data)
            request = frame.request
            outcomes = await self._do(frame)
        except BatchlineError as error:
            if isinstance(error, Unauthorized):
                self.end(Close.POLICY, error)
            return Problem(problem=problem_of(error), request=request)
        return None if outcomes is None else Told(outcomes=outcomes_form(outcomes).outcomes, request=request)

    async def _do(self, frame: Asked) -> list[Outcome] | None:
        if isinstance(frame, Extend | Release | Done | Leave):
            await self._check_token()
        if isinstance(frame, Extend | Release | Done):
            return await self._change(frame)
        if isinstance(frame, Prefetch):
            prefetch = check_prefetch(frame.prefetch)
            self._hand.prefetch = 0 if self._replaced else prefetch
        elif isinstance(frame, Beat):
            self._drift_ms = ms_of_at("the clock of a consumer", frame.clock) - self._parts.timeline.now_ms()
        elif isinstance(frame, Leave):
            self.end(Close.LEFT, None)
        self._room.set()
        return None

    async def _change(self, frame: Extend | Release | Done) -> list[Outcome]:
        leases = self._leases(frame.leases)
        outcomes = await self._parts.in_thread(self._changing(frame, leases))
        if isinstance(frame, Extend):
            self._hand.extended(leases, outcomes)
        else:
            self._hand.finished(leases)
            self._done += sum(outcome.outcome == "done" for outcome in outcomes)
        self._room.set()
        self._end_if_retired()
        if isinstance(frame, Release):
            self._parts.pumps.of(self.topic).wake()
        return outcomes

    def _changing(self, frame: Extend | Release | Done, leases: list[Lease]) -> Callable[[], list[Outcome]]:
        timeline = self._parts.timeline
        if isinstance(frame, Done):
            return lambda: timeline.done(leases)
        if isinstance(frame, Extend):
            duration = given_span("duration", frame.duration) or self._duration
            return lambda: timeline.extend(leases, duration)
        at = given_ms("the moment of a release", frame.at)
        after = given_after("the moment of a release", frame.after_ms)
        return lambda: timeline.release(leases, at, after=after, reason=frame.reason)

    def _leases(self, texts: list[str]) -> list[Lease]:
        leases = checked_leases(self._call.caller, self.topic, texts)
        for consumer in {lease.consumer for lease in leases} - {self.consumer}:
            raise Forbidden(f"this socket is for leases of consumer {self.consumer!r}, got one of {consumer!r}")
        return leases

    async def _release_all(self) -> None:
        leases = self._hand.leases()
        with suppress(StoreError, Degraded):
            if leases:
                await self._parts.in_thread(lambda: self._parts.timeline.release(leases, reason=LEFT))
                self._parts.pumps.of(self.topic).wake()


def _pushed(messages: list[LeasedMessage]) -> str:
    return encode(Pushed(messages=leased_messages(messages).messages)).decode()


def _frames(messages: Iterable[LeasedMessage]) -> Iterator[list[LeasedMessage]]:
    """Messages, so many together that a frame is not too large."""
    some: list[LeasedMessage] = []
    size = 0
    for message in messages:
        if some and size + len(message.body) > FRAME_BYTES:
            yield some
            some, size = [], 0
        some.append(message)
        size += len(message.body)
    if some:
        yield some
