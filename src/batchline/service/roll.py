"""The sockets at this process: seen as consumers, their tokens checked again, and one socket for each session."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from batchline.core.session import Standing, replaced
from batchline.core.trouble import SERVING
from batchline.errors import (
    BatchlineError,
    ConsumerReplaced,
    Degraded,
    StoreError,
    TopicRefused,
    Unauthorized,
)
from batchline.runtime.clock import wait_for
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.services import Wait
from batchline.runtime.supervisor import Supervisor
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import ENDED, Tokens
from batchline.stores.timeline_rows import ConsumerRow
from batchline.wire.push import Close

__all__ = ["Attending", "Roll"]

#: How often tokens are looked at; what was read of one is believed for as long.
CALL_EVERY: Final = timedelta(seconds=5)
#: Of so many calls, one is told to the store.
BEATS: Final = 2
#: How long an older socket of the same consumer has to end.
LAST_WORDS_S: Final = 5.0
InThread = Callable[..., Awaitable[Any]]


class Attending(Protocol):
    """A socket of a consumer."""

    topic: str
    consumer: str
    #: The id of its token; None if it is of the time before there were tokens.
    token_id: str | None
    session: ConsumerSession
    #: Set when it has let go of everything.
    ended: asyncio.Event

    def seen(self, now_ms: int) -> ConsumerRow:
        """How it was since it was seen last."""

    def sweep(self, now_ms: int) -> None:
        """Forget leases that have ended."""

    def retire(self, error: ConsumerReplaced) -> None:
        """Push no more; it ends when what is in hand is finished."""

    async def stand(self, standing: Standing) -> None:
        """Act on what its session is among those of its name."""

    def end(self, code: int, error: BatchlineError) -> None:
        """Tell it why, and close it."""


class Roll:
    """One for a process. It works while there are sockets."""

    def __init__(
        self,
        timeline: Timeline,
        tokens: Tokens,
        in_thread: InThread,
        *,
        supervisor: Supervisor | None = None,
        wait: Wait = wait_for,
    ) -> None:
        self.supervisor = supervisor or Supervisor()
        self._loop = self.supervisor.loop("sockets", back_off=SERVING, away_s=CALL_EVERY.total_seconds)
        self._timeline, self._tokens, self._in_thread, self._wait = timeline, tokens, in_thread, wait
        self._present: dict[tuple[str, str, int], Attending] = {}
        self._calling: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._present)

    async def enter(self, one: Attending) -> None:
        """Note a socket, in place of those whose session it goes on with; raises what is wrong with the topic.

        Older sessions of the same consumer retire.
        """
        older = self._older(one)
        self._present[_key(one)] = one
        try:
            await self.make_room(one)
            for other in older:
                other.retire(replaced(one.consumer))
            await self._in_thread(self._timeline.attend, one.topic, [one.seen(self._timeline.now_ms())])
        except BaseException:
            self._forget(one)
            raise
        if self._calling is None:
            self._calling = self._loop.start(self._call_all)

    async def make_room(self, one: Attending) -> None:
        """End the sockets whose session a socket goes on with, and wait until they lease nothing more."""
        for other in self._same_name(one):
            if other is not one and one.session.goes_on_with(other.session.number):
                other.end(Close.REPLACED, replaced(one.consumer))
                await self._wait(other.ended, LAST_WORDS_S)

    def _older(self, one: Attending) -> list[Attending]:
        return [other for other in self._same_name(one) if other.session.number < one.session.number]

    def _same_name(self, one: Attending) -> list[Attending]:
        name = one.topic, one.consumer
        return [other for other in self._present.values() if (other.topic, other.consumer) == name]

    async def leave(self, one: Attending, *, is_over: bool) -> None:
        """Forget a socket; and its session if that `is_over`, unless it has another socket by now."""
        if self._forget(one) and is_over:
            with suppress(StoreError, Degraded, TopicRefused):
                await self._in_thread(one.session.end)

    def _forget(self, one: Attending) -> bool:
        if self._present.get(_key(one)) is not one:
            return False
        del self._present[_key(one)]
        if not self._present:
            self._empty.set()
        return True

    async def _call_all(self) -> None:
        pause_s = CALL_EVERY.total_seconds()
        for number in count(1):
            self._empty.clear()
            await self._wait(self._empty, pause_s)
            if not self._present:
                break
            # A store that is away comes back: no socket is closed for that.
            pause_s = await self._loop.turn(partial(self._call_once, number))
        self._calling = None

    async def _call_once(self, number: int) -> float:
        # After a failure, too: a call without a beat does not show that beats succeed.
        await self.call(is_beat=number % BEATS == 0 or self._loop.trouble is not None)
        return CALL_EVERY.total_seconds()

    async def call(self, *, is_beat: bool) -> None:
        """Look at everybody once."""
        now_ms = self._timeline.now_ms()
        for one in self._present.values():
            one.sweep(now_ms)
        ended = await self._in_thread(self._tokens.ended, {one.token_id for one in self._present.values()})
        for one in [one for one in self._present.values() if one.token_id in ended]:
            one.end(Close.POLICY, Unauthorized(ENDED))
        if is_beat:
            await self._beat(now_ms)

    async def _beat(self, now_ms: int) -> None:
        topics: dict[str, list[Attending]] = {}
        for one in self._present.values():
            topics.setdefault(one.topic, []).append(one)
        failures = [error for topic, some in topics.items() if (error := await self._beat_on(topic, some, now_ms))]
        if failures:
            raise failures[0]

    async def _beat_on(self, topic: str, some: list[Attending], now_ms: int) -> Exception | None:
        """Beat for the sockets of a topic. Return what fails, so that the consumers of other topics are seen."""
        try:
            await self._in_thread(self._timeline.attend, topic, [one.seen(now_ms) for one in some])
            rows = [one.session.row() for one in some]
            standings = await self._in_thread(self._timeline.attend_sessions, topic, rows)
            for one, standing in zip(some, standings, strict=True):
                await one.stand(standing)
        except TopicRefused as error:
            for one in some:
                one.end(Close.TOPIC, error)
        except Exception as error:  # noqa: BLE001 - the loop logs it, after the other topics
            return error
        return None


def _key(one: Attending) -> tuple[str, str, int]:
    return one.topic, one.consumer, one.session.number
