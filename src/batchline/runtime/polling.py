"""Messages of a timeline, for a consumer that asks it for them."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from batchline.core.message import Lease, LeasedMessage, Outcome
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.intake import Finished
from batchline.runtime.services import Services
from batchline.runtime.timeline import Timeline

__all__ = ["Finish", "Polling"]

#: Tells the store that messages are done, by the leases that they have by now.
Finish = Callable[[Finished], Sequence[Outcome]]
#: How long it waits before it asks a store again that did not answer.
PAUSE_S: Final = 1.0


class Polling:
    """An intake that looks whether something is due; each call of the timeline is in a thread."""

    def __init__(
        self,
        timeline: Timeline,
        topic: str,
        consumer: str,
        *,
        lease: timedelta | None,
        look_every: timedelta,
        services: Services | None = None,
        finish: Finish | None = None,
    ) -> None:
        self._timeline, self._topic, self._consumer = timeline, topic, consumer
        self._lease_for = timeline.topic(topic).lease if lease is None else lease
        self.lease_ms = timeline.topic(topic).lease_ms(lease)
        self._look_s = look_every.total_seconds()
        self._services, self._finish = services, finish
        self._has_enough = False
        self._session = ConsumerSession(timeline, topic, consumer, lease=self._lease_for)

    def now_ms(self) -> int:
        """What the timeline's clock shows."""
        return self._timeline.now_ms()

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Nothing arrives by itself."""

    async def resume(self) -> list[LeasedMessage]:
        """Begin a session, by a clock that is right, as far as is known. Return what ended sessions have left."""
        if self._services is not None:
            await asyncio.to_thread(self._services.compare_clocks)
        await asyncio.to_thread(self._be_seen, 0.0)
        return await asyncio.to_thread(self._session.begin)

    async def take(self, most: int) -> list[LeasedMessage]:
        """Lease messages that are due."""
        lease, session = self._timeline.lease, self._session.number
        return await asyncio.to_thread(
            lease, self._topic, self._consumer, limit=most, duration=self._lease_for, session=session
        )

    async def until_due(self) -> float:
        """How long until the next message is due, or until it is time to look for new ones."""
        next_ms = await asyncio.to_thread(self._timeline.next_due, self._topic, self._consumer)
        if next_ms is None:
            return self._look_s
        return min(max(next_ms - self.now_ms(), 0) / 1_000, self._look_s)

    async def extend(self, leases: Sequence[Lease]) -> list[Outcome]:
        """Hold messages for a lease from now on."""
        return await asyncio.to_thread(self._timeline.extend, leases, self._lease_for)

    async def release(self, leases: Sequence[Lease], after: timedelta | None, reason: str) -> list[Outcome]:
        """Give messages back, due after a span by the timeline's clock, or at once."""
        return await asyncio.to_thread(self._timeline.release, leases, after=after, reason=reason)

    async def done(self, finished: Finished) -> list[Outcome]:
        """Finish messages."""
        if self._finish is not None:
            return list(await asyncio.to_thread(self._finish, finished))
        return await asyncio.to_thread(self._timeline.done, [lease for _, lease in finished])

    async def beat(self, speed: float) -> list[LeasedMessage]:
        """Say that the consumer is there. Return what sessions have left that ended meanwhile."""
        await asyncio.to_thread(self._be_seen, speed)
        return await asyncio.to_thread(self._session.beat, takes_over=not self._has_enough)

    def _be_seen(self, speed: float) -> None:
        self._timeline.heartbeat(self._topic, self._consumer, clock_ms=self.now_ms(), messages_per_second=speed)

    async def enough(self) -> None:
        """Take over no more leases; nothing else comes that was not asked for."""
        self._has_enough = True

    async def leave(self) -> None:
        """Leave the topic."""
        await asyncio.to_thread(self._session.end)

    def abort(self) -> None:
        """Nothing is open."""

    def hurry(self) -> None:
        """Have the store repeat no call for longer than 5 s from now on."""
        self._timeline.hurry()

    def pause_s(self) -> float:
        """Always the same."""
        return PAUSE_S
