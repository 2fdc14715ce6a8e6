"""An actor in tests of a timeline: makes calls with dice of its own, and notes what each was answered.

All share a clock that goes on whenever it is read: leases run out as calls are made, however fast the machine is.
In a module that a new process can load.
"""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from batchline.core.message import Lease, LeasedMessage, NewMessage, Outcome, bucket_of
from batchline.core.session import SessionRow, Standing
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.errors import ForeignMessage, InvalidMessage, UnknownMessage
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.prune import Prune
from batchline.runtime.rescue import Rescue
from batchline.runtime.timeline import Timeline
from batchline.stores.creating import Creation
from batchline.stores.store import Store
from tests.doubles import BEGIN_US
from tests.stores.events import DEAD, KEEP_MS, LINE, LIVE_FOR_MS, Event, SessionEvent

__all__ = ["BUCKETS", "Actor", "SharedClock", "new_clock", "span"]

T = TypeVar("T")
BUCKETS: Final = 64


class SharedClock:
    """Goes on by 0.7 ms whenever it is read."""

    def __init__(self, cell: Any):
        self._cell = cell

    def __call__(self) -> int:
        """The moment it shows."""
        with self._cell.get_lock():
            self._cell.value += 700
            return int(self._cell.value)

    def shown_ms(self) -> int:
        """What it shows, without going on."""
        return int(self._cell.value) // 1_000

    def jump(self, time: timedelta) -> None:
        """Go on by a longer time."""
        with self._cell.get_lock():
            self._cell.value += time // timedelta(microseconds=1)


def new_clock() -> SharedClock:
    """A clock for threads and for processes."""
    return SharedClock(get_context("forkserver").Value("q", BEGIN_US))


def span(ms: int) -> timedelta:
    """A time in milliseconds."""
    return timedelta(milliseconds=ms)


class NotedTimeline(Timeline):
    """A timeline that notes the numbers of bundles, and what it is asked about sessions."""

    def __init__(self, store: Store, clock: Callable[[], int], actor: "Actor"):
        super().__init__(store, clock=clock, live_for=span(LIVE_FOR_MS))
        self._actor = actor
        #: The number of the bundle that the last call created.
        self.bundle = 0

    def _create(self, creation: Creation, first: int, attempts: Iterator[int]) -> list[Outcome]:
        self.bundle = first
        return super()._create(creation, first, attempts)

    def attend_sessions(self, topic: str, seen: Sequence[SessionRow]) -> list[Standing]:
        """Note that a session was seen."""
        (row,) = seen
        begun = elapsed_seconds()
        standings = super().attend_sessions(topic, seen)
        self._actor.note_session("attend", row.session, begun, row.seen_ms)
        return standings

    def take_over(
        self,
        topic: str,
        consumer: str,
        session: int,
        *,
        duration: timedelta | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> list[LeasedMessage]:
        """Note what a session takes over."""
        assert duration is not None
        options: dict[str, Any] = {"duration": duration, "max_bytes": max_bytes}
        taking, ms = partial(super().take_over, topic, consumer, session, **options), duration // span(1)
        return self._actor.call(
            taking, lambda found: [self._actor.leased("take_over", topic, one, ms, session=session) for one in found]
        )

    def end_session(self, topic: str, consumer: str, session: int, *, is_resumed: bool = False) -> None:
        """Note that a session was ended."""
        begun = elapsed_seconds()
        super().end_session(topic, consumer, session, is_resumed=is_resumed)
        self._actor.note_session("end", session, begun, 0)


class Actor:
    """Makes calls, and notes each with what it was answered."""

    def __init__(self, name: str, seed: str, store: Store, clock: SharedClock, skew_ms: int = 0):
        self.name = name
        self.dice = random.Random(f"{seed} {name}")
        self.events: list[Event] = []
        self.sessions: list[SessionEvent] = []
        #: How many calls it has made.
        self.calls = 0
        self._store = store
        self._clock = clock
        self._skew_us = 1_000 * skew_ms
        self._now_us = 0
        self._process = os.getpid()
        self.timeline = NotedTimeline(store, self._look, self)
        self.rescue = Rescue(store, clock=clock)

    def _look(self) -> int:
        self._now_us = self._clock() + self._skew_us
        return self._now_us

    def soon(self, least: int, most: int) -> int:
        """A moment, in milliseconds."""
        return self._clock() // 1_000 + self.dice.randint(least, most)

    def call(self, work: Callable[[], T], events: Callable[[T], list[Event]]) -> T:
        """Make a call and note it."""
        begun = elapsed_seconds()
        answer = work()
        when: dict[str, Any] = {"begun": begun, "ended": elapsed_seconds(), "now_ms": self._now_us // 1_000}
        self.calls += 1
        self.events += [one._replace(process=self._process, **when) for one in events(answer)]
        return answer

    def _event(self, verb: str, topic: str, id: str, outcome: str, at_ms: int = 0, **more: Any) -> Event:
        return Event(self.name, verb, 0.0, 0.0, 0, topic, id, outcome, at_ms, **more)

    def note_session(self, verb: str, session: int, begun: float, seen_ms: int) -> None:
        """Note that a session was seen or ended."""
        self.calls += 1
        self.sessions.append(SessionEvent(verb, session, begun, elapsed_seconds(), seen_ms, self._process))

    # --- producers ---

    def create(self, messages: Sequence[NewMessage], group: str) -> list[Outcome]:
        """Create messages of one bundle, each at a given moment."""

        def work() -> list[Outcome]:
            try:
                return self.timeline.create(LINE, messages, producer_group=group)
            except InvalidMessage:  # a made id whose message was pruned
                return [Outcome(str(one.id), "unknown", reason="invalid") for one in messages]

        def events(answer: list[Outcome]) -> list[Event]:
            more: dict[str, Any] = {"group": group, "bundle": self.timeline.bundle}
            return [
                self._event(
                    "create", LINE, one.id, one.reason if one.reason == "invalid" else one.outcome, at_of(message)
                )._replace(body=message.body, place=place, **more)
                for place, (one, message) in enumerate(zip(answer, messages, strict=True))
            ]

        return self.call(work, events)

    def move(self, moments: dict[str, int], group: str) -> list[Outcome]:
        """Move messages."""
        return self.call(
            lambda: self.timeline.move(LINE, moments, producer_group=group),
            lambda answer: [
                self._event("move", LINE, one.id, one.outcome, moments[one.id], group=group) for one in answer
            ],
        )

    def cancel(self, ids: Sequence[str], group: str) -> list[Outcome]:
        """Cancel messages."""
        return self.call(
            lambda: self.timeline.cancel(LINE, ids, producer_group=group),
            lambda answer: [self._event("cancel", LINE, one.id, one.outcome, group=group) for one in answer],
        )

    def read(self, id: str, group: str) -> None:
        """Read a message as its owner."""

        def work() -> Event:
            noted = self._event("read", LINE, id, "read", group=group)
            try:
                shown = self.timeline.read(LINE, id, producer_group=group)
            except (UnknownMessage, ForeignMessage) as error:
                return noted._replace(outcome="unknown" if isinstance(error, UnknownMessage) else "foreign")
            at_ms = round(shown.at.timestamp() * 1_000)
            return noted._replace(at_ms=at_ms, version=shown.version, attempts=shown.attempts, body=shown.body)

        self.call(work, lambda noted: [noted])

    # --- consumers ---

    def lease(
        self,
        topic: str,
        limit: int,
        duration: int,
        buckets: range | None = None,
        *,
        consumer: str = "",
        session: int | None = None,
    ) -> list[LeasedMessage]:
        """Lease messages, under the actor's own name or another."""
        name = consumer or self.name
        found = self.call(
            lambda: self.timeline.lease(
                topic, name, limit=limit, duration=span(duration), buckets=buckets, session=session
            ),
            lambda found: [
                self.leased("lease", topic, one, duration, place, session) for place, one in enumerate(found)
            ],
        )
        assert len(found) <= limit
        assert len({(one.id, one.lease.bundle) for one in found}) == len(found)
        assert len({one.id for one in found}) == len(found) or topic == DEAD
        assert buckets is None or all(bucket_of(one.id, BUCKETS) in buckets for one in found)
        assert {one.lease.consumer for one in found} <= {name}
        return found

    def lease_one(self, id: str, version: int, duration: int) -> list[LeasedMessage]:
        """Lease one message that was upcoming."""
        found = self.call(
            lambda: self.timeline.lease_one(LINE, id, version, self.name, duration=span(duration)),
            lambda one: [self.leased("lease_one", LINE, one, duration)] if one else [],
        )
        assert found is None or found.lease.version == version + 1
        return [found] if found else []

    def leased(
        self,
        verb: str,
        topic: str,
        one: LeasedMessage,
        duration: int,
        place: int = 0,
        session: int | None = None,
    ) -> Event:
        """Describe a lease that a call was given."""
        assert one.lease.until_ms == self._now_us // 1_000 + duration
        assert (one.lease.topic, one.lease.id) == (topic, one.id)
        noted = self._event(verb, topic, one.id, "leased", one.at_ms, lease=one.lease, session=session)
        return noted._replace(attempts=one.attempts, body=one.body, place=place, bundle=one.lease.bundle)

    def use(
        self, verb: str, leases: Sequence[Lease], work: Callable[[], list[Outcome]], at_ms: int = 0
    ) -> list[Outcome]:
        """Do something with leases."""
        return self.call(
            work,
            lambda answer: [
                self._event(verb, token.topic, one.id, one.outcome, at_ms, token=token, lease=one.lease)
                for token, one in zip(leases, answer, strict=True)
            ],
        )

    def extend(self, leases: Sequence[Lease], duration: int) -> list[Lease]:
        """Extend leases; those that hold now."""
        outcomes = self.use("extend", leases, lambda: self.timeline.extend(leases, span(duration)))
        return [one.lease for one in outcomes if one.lease is not None]

    def release(self, leases: Sequence[Lease], at_ms: int | None) -> None:
        """Give messages back."""
        self.use("release", leases, lambda: self.timeline.release(leases, at_ms, reason="raced"), at_ms or 0)

    def done(self, leases: Sequence[Lease]) -> None:
        """Finish messages."""
        self.use("done", leases, lambda: self.timeline.done(leases))

    # --- in the background ---

    def prune(self) -> bool:
        """Prune a step; tells whether there is more."""
        prune = Prune(self._store, clock=self._look)
        return self.call(
            prune.run_once,
            lambda _: [self._event("prune", LINE, "", "pruned", self._now_us // 1_000 + 1 - KEEP_MS)],
        )


def at_of(message: NewMessage) -> int:
    """The moment of a message that was given one."""
    assert isinstance(message.at, int)
    return message.at
