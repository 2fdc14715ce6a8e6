"""Leases messages for all who wait for them at this process, in turn: however many wait, one looks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final, TypeVar

from batchline.core.message import LeasedMessage
from batchline.core.trouble import SERVING
from batchline.errors import BatchlineError, Degraded, StoreError, TopicRefused
from batchline.runtime.clock import wait_for
from batchline.runtime.services import Wait
from batchline.runtime.supervisor import Loop, Supervisor
from batchline.runtime.timeline import Timeline
from batchline.service.waiting import LOOK_S, Line, Waiter, Wanted, rest_s

__all__ = ["Pump", "Pumps"]

T = TypeVar("T")
#: How many are tried in a row for whom there was nothing, although something is due: it may be in others' buckets.
MOST_TRIED: Final = 16
#: Why what was leased for somebody who is gone is given back.
GONE: Final = "nobody waited for it any more"


class Pump:
    """One topic's. It works while somebody waits, and not at all otherwise."""

    def __init__(
        self, timeline: Timeline, topic: str, threads: Executor, *, loop: Loop | None = None, wait: Wait = wait_for
    ) -> None:
        self._loop = loop or Supervisor().loop("pump", topic, back_off=SERVING)
        self._timeline, self._topic, self._threads, self._wait = timeline, topic, threads, wait
        self._line = Line()
        self._wake = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._returns: set[asyncio.Task[None]] = set()
        #: Whether the last look has found something: then there may be more, and nobody asks when the next is due.
        self._flows = False
        self._pauses = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, and nothing is under way."""
        return not self._line and self._running is None and not self._returns

    async def lease(self, wanted: Wanted, within_s: float | None = None) -> list[LeasedMessage]:
        """Wait in line until there is something; none, if that takes too long. Who is cancelled leaves nothing leased.

        Raises what is wrong with what is wanted, or that the topic is deleted meanwhile.
        """
        waiter = Waiter(wanted, asyncio.get_running_loop().create_future())
        self._enter(waiter)
        try:
            done, _ = await asyncio.wait([waiter.answer], timeout=within_s)
            if not done and not waiter.is_served:
                self._line.leave(waiter)
                return []
            waiter.is_last = True
            return await waiter.answer
        except asyncio.CancelledError:
            self._forsake(waiter)
            raise

    def wake(self) -> None:
        """There may be something now; to be called in the loop's thread."""
        self._wake.set()

    def dismiss(self) -> None:
        """Let all go who wait, with nothing."""
        for waiter in self._line.clear():
            if waiter.is_served:
                waiter.is_last = True
            else:
                waiter.give([])

    def give_back(self, messages: list[LeasedMessage]) -> None:
        """Release messages for which nobody is there any more, so that others get them at once."""
        if not messages:
            return
        task = asyncio.ensure_future(self._release(messages))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    # --- inside ---

    def _enter(self, waiter: Waiter) -> None:
        self._line.enter(waiter)
        if not self._pauses:
            self._wake.set()
        if self._running is None:
            self._running = self._loop.start(self._run)

    def _forsake(self, waiter: Waiter) -> None:
        self._line.leave(waiter)
        if not waiter.answer.cancel() and not waiter.answer.cancelled() and waiter.answer.exception() is None:
            self.give_back(waiter.answer.result())

    async def _run(self) -> None:
        while self._line:
            self._wake.clear()
            pause_s = await self._loop.turn(self._turn_or_refusal)
            self._pauses = self._loop.trouble is not None
            if pause_s and self._line:
                await self._wait(self._wake, pause_s)
            self._pauses = False
        self._running = None

    async def _turn_or_refusal(self) -> float:
        """Take a turn. If the topic is gone, tell all who wait for it."""
        try:
            return await self.turn()
        except TopicRefused as error:
            for waiter in self._line.clear():
                waiter.refuse(error)
            return 0.0

    async def turn(self) -> float:
        """Lease for those who wait, until there is nothing more. Returns how many seconds it may rest."""
        tried = 0
        while self._line and tried < MOST_TRIED:
            if not self._flows and (rest := await self._until_due()) > 0:
                return rest
            # Who was first before that look may have gone.
            if (waiter := self._line.first()) is None:
                break
            self._flows = await self._serve(waiter)
            tried = 0 if self._flows else tried + 1
        return LOOK_S

    async def _until_due(self) -> float:
        next_ms = await self._in_thread(self._timeline.next_due, self._topic)
        return rest_s(next_ms, self._timeline.now_ms())

    async def _serve(self, waiter: Waiter) -> bool:
        """Lease for one; tells whether there was something."""
        found: list[LeasedMessage] = []
        waiter.is_served = True
        try:
            found = await self._lease_for(waiter) if waiter.wanted.limit() else []
        except (TopicRefused, StoreError, Degraded):
            raise
        except BatchlineError as error:
            waiter.refuse(error)
        finally:
            waiter.is_served = False
            waiter.wanted.keep(found)
            self._settle(waiter, found)
        return bool(found)

    async def _lease_for(self, waiter: Waiter) -> list[LeasedMessage]:
        """Lease for one that may have messages, both before they are leased and when they are handed over."""
        wanted = waiter.wanted
        await wanted.check()
        limit = 0 if waiter.answer.done() else wanted.room()
        found = await self._in_thread(self._lease, wanted, limit) if limit else []
        try:
            await wanted.check()
        except Exception:
            self.give_back(found)
            raise
        return found

    def _settle(self, waiter: Waiter, found: list[LeasedMessage]) -> None:
        if (found or waiter.is_last) and not waiter.give(found) and found:
            self.give_back(found)
        if waiter.answer.done():
            self._line.leave(waiter)
        else:
            self._line.enter(waiter)

    def _lease(self, wanted: Wanted, limit: int) -> list[LeasedMessage]:
        return self._timeline.lease(
            self._topic,
            wanted.consumer,
            limit=limit,
            duration=wanted.duration,
            buckets=wanted.buckets,
            session=wanted.session and wanted.session(),
            max_bytes=wanted.max_bytes,
        )

    async def _release(self, messages: list[LeasedMessage]) -> None:
        # Should the store be away just now, the leases end by themselves.
        try:
            await self._in_thread(lambda: self._timeline.release(messages, reason=GONE))
        except Exception as error:  # noqa: BLE001 - it is logged, and nothing waits for this task
            self._loop.failed(error)
        self.wake()

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class Pumps:
    """The pumps of a process, by topic: there is one where somebody waits."""

    def __init__(
        self, timeline: Timeline, threads: Executor, *, supervisor: Supervisor | None = None, wait: Wait = wait_for
    ) -> None:
        self.supervisor = supervisor or Supervisor()
        self._timeline, self._threads, self._wait = timeline, threads, wait
        self._pumps: dict[str, Pump] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def of(self, topic: str) -> Pump:
        """The pump of a topic; to be called in the loop's thread."""
        self._loop = asyncio.get_running_loop()
        pump = self._pumps.get(topic)
        if pump is None:
            self._pumps = {name: one for name, one in self._pumps.items() if not one.is_idle}
            loop = self.supervisor.loop("pump", topic, back_off=SERVING)
            pump = self._pumps[topic] = Pump(self._timeline, topic, self._threads, loop=loop, wait=self._wait)
        return pump

    def wake(self, topic: str) -> None:
        """There may be something on a topic now; to be called in any thread."""
        pump, loop = self._pumps.get(topic), self._loop
        if pump is not None and loop is not None:
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(pump.wake)

    def dismiss(self) -> None:
        """Let all go who wait, with nothing: the process is about to end."""
        for pump in self._pumps.values():
            pump.dismiss()
