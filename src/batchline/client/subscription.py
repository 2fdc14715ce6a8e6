"""Messages of a topic for a consumer over the network: pushed by the service, over connections that may be lost."""

import random
import ssl
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

from batchline.client.answers import leased_of
from batchline.client.connection import Connection, Place, open_connection
from batchline.client.topics import topic_path
from batchline.core.message import Lease, LeasedMessage, Outcome, lease_text
from batchline.core.moment import check_span, span_text
from batchline.core.name import check_name
from batchline.core.retry import RetryRules
from batchline.core.topic import span_ms
from batchline.errors import BatchlineError, ServiceUnavailable
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.intake import Finished
from batchline.wire.messages import LeasedForm, LeasedMessages
from batchline.wire.push import Beat, Done, Extend, Leave, Prefetch, Release

__all__ = ["Push"]

#: How long there is nothing to do, as far as is known: what comes wakes the consumer.
NOTHING_S: Final = 60.0
BACK_OFF: Final = RetryRules(first=timedelta(milliseconds=100), factor=2, longest=timedelta(seconds=5), jitter=0.5)


class Push:
    """An intake to which the service pushes. What is in hand survives a connection: leases are the session's."""

    def __init__(
        self,
        url: str,
        token: str | None,
        topic: str,
        consumer: str,
        *,
        prefetch: int,
        duration: timedelta | None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], int] = now_us,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Messages from the service at a URL such as https://host:8443; at most `prefetch` of them unfinished."""
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        if duration is not None:
            check_span("the duration of a lease", duration, 1_000)
        self._url, self._token, self._tls = url.rstrip("/"), token, tls
        self._topic, self._consumer, self._duration = topic, consumer, duration
        self._prefetch, self._clock, self._chance = prefetch, clock, chance
        self._connection: Connection | None = None
        self._wake: Callable[[], None] = lambda: None
        self._arrived: list[LeasedMessage] = []
        #: Of what was taken and is not finished: the newest lease, by message.
        self._leases: dict[tuple[int, int], Lease] = {}
        #: How far the service's clock is ahead of our steady one; until it is known, how far our own is.
        self._ahead_ms = clock() // 1_000 - _steady_ms()
        self._failures = 0
        #: As the service has named it; by it a new connection goes on with what is in hand.
        self._session = 0

    @property
    def lease_ms(self) -> int:
        """How long a lease is, as the service has said."""
        return self._connection.greeting.lease_ms if self._connection else 0

    def now_ms(self) -> int:
        """What the service's clock shows, as far as is known: leases end by it."""
        return _steady_ms() + self._ahead_ms

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when messages have come, or the connection was lost."""
        self._wake = wake

    async def resume(self) -> list[LeasedMessage]:
        """Connect; tells what the consumer had leased before."""
        return await self.take(0)

    async def take(self, most: int) -> list[LeasedMessage]:  # noqa: ARG002 - the service knows how many it may push
        """Messages that have come."""
        await self._connected()
        taken, self._arrived = self._arrived, []
        self._leases.update((message.lease.message_key, message.lease) for message in taken)
        return taken

    async def until_due(self) -> float:
        """Until something comes."""
        return 0.0 if self._arrived or self._is_lost() else NOTHING_S

    async def extend(self, leases: Sequence[Lease]) -> list[Outcome]:
        """Hold messages for a lease from now on."""
        connection = await self._connected()
        return await connection.ask(Extend(leases=self._texts(leases)), partial(self._extended, leases))

    async def release(self, leases: Sequence[Lease], after: timedelta | None, reason: str) -> list[Outcome]:
        """Give messages back, due after a span by the service's clock, or at once."""
        connection = await self._connected()
        after_ms = None if after is None else span_ms(after)
        frame = Release(leases=self._texts(leases), after_ms=after_ms, reason=reason)
        return await connection.ask(frame, partial(self._finished, leases))

    async def done(self, finished: Finished) -> list[Outcome]:
        """Finish messages."""
        connection = await self._connected()
        leases = [lease for _, lease in finished]
        return await connection.ask(Done(leases=self._texts(leases)), partial(self._finished, leases))

    async def beat(self, speed: float) -> list[LeasedMessage]:  # noqa: ARG002 - the service counts for itself
        """Say what the clock shows; what there is to take arrives by itself."""
        connection = await self._connected()
        await connection.say(Beat(clock=self._clock() // 1_000))
        return []

    async def enough(self) -> None:
        """Have no more pushed, and give back what was not taken."""
        self._prefetch = 0
        connection = await self._connected()
        await connection.say(Prefetch(prefetch=0))
        unwanted, self._arrived = self._arrived, []
        if unwanted:
            texts = [lease_text(message.lease) for message in unwanted]
            await connection.ask(Release(leases=texts), lambda _: None)

    async def leave(self) -> None:
        """Say that the consumer goes, and wait until the service knows."""
        connection = await self._connected()
        await connection.say(Leave())
        await connection.ending()
        await connection.close()

    def abort(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.abort()

    def hurry(self) -> None:
        """Change nothing: no call is repeated for long."""

    def pause_s(self) -> float:
        """The longer, the more often nothing was answered."""
        self._failures += 1
        return BACK_OFF.pause_ms(self._failures, self._chance()) / 1_000

    # --- inside ---

    async def _connected(self) -> Connection:
        """The connection, or a new one in place of one that was lost; raises what no new one would mend."""
        old = self._connection
        if old is not None:
            if old.lost is None:
                return old
            if not isinstance(old.lost, ServiceUnavailable):
                raise old.lost
            _raise_once(old)
        connection = self._connection = await open_connection(Place(self._address(), self._token, self._tls))
        self._ahead_ms = connection.greeting.clock_ms - _steady_ms()
        self._session = connection.greeting.session
        self._failures = 0
        self._arrived = []  # the service tells of them again, as long as they are ours
        self._take_in(connection.held)
        connection.listen(self._take_in, self._wake)
        return connection

    def _address(self) -> str:
        scheme, _, rest = self._url.partition("://")
        query = {"consumer": self._consumer, "prefetch": self._prefetch}
        if self._duration is not None:
            query["duration"] = span_text(self._duration)
        if self._session:
            query["session"] = self._session
        sockets = "wss" if scheme == "https" else "ws"
        return f"{sockets}://{rest}{topic_path(self._topic, 'messages', 'subscribe')}?{urlencode(query)}"

    def _is_lost(self) -> bool:
        return self._connection is None or self._connection.lost is not None

    def _take_in(self, forms: list[LeasedForm]) -> None:
        """Messages have come; one that a handler still has is not handed out again, but has another lease now."""
        for message in leased_of(LeasedMessages(forms)):
            if message.lease.message_key in self._leases:
                self._leases[message.lease.message_key] = message.lease
            else:
                self._arrived.append(message)
        self._wake()

    def _texts(self, leases: Sequence[Lease]) -> list[str]:
        return [lease_text(self._leases.get(lease.message_key, lease)) for lease in leases]

    def _extended(self, leases: Sequence[Lease], outcomes: list[Outcome]) -> None:
        self._failures = 0
        for lease, outcome in zip(leases, outcomes, strict=True):
            if outcome.lease is None:
                self._leases.pop(lease.message_key, None)
            else:
                self._leases[lease.message_key] = outcome.lease

    def _finished(self, leases: Sequence[Lease], _: list[Outcome]) -> None:
        self._failures = 0
        for lease in leases:
            self._leases.pop(lease.message_key, None)


def _steady_ms() -> int:
    return int(elapsed_seconds() * 1_000)


def _raise_once(lost: Connection) -> None:
    """Raise the error that ended a connection, so that its consumer pauses before it connects again."""
    broken, lost.broken = lost.broken, None
    if isinstance(broken, BatchlineError):
        raise ServiceUnavailable(f"the connection was given up: {broken}") from broken
    if broken is not None:
        raise broken
