"""What the timeline's tests share: a topic of one test's own, a clock moved by hand, and short words for long calls."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from batchline import Counts, Lease, LeasedMessage, Message, NewMessage, Outcome, Prune, Rescue, Store, Timeline, Topic
from batchline.stores.topics import known_topic
from tests.doubles import HandClock, new_id

__all__ = ["MINUTE", "MINUTE_MS", "Line", "ids_of", "leases_of", "prune", "rescue", "words"]

MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000


@dataclass
class Line:
    """A topic, the producer group that fills it, and the clock."""

    timeline: Timeline
    clock: HandClock
    topic: str = field(default_factory=new_id)
    group: str = field(default_factory=new_id)

    @property
    def now(self) -> int:
        return self.clock.us // 1_000

    @property
    def stored(self) -> Topic:
        """The topic as its store has it."""
        return self.timeline._store.read(lambda rows: known_topic(rows, self.topic))

    def wait(self, ms: int) -> None:
        self.clock.us += 1_000 * ms

    def until(self, ms: int) -> None:
        """Let the clock show this very moment."""
        self.clock.us = 1_000 * ms

    def make(self, **rules: Any) -> "Line":
        self.timeline.create_topic(self.topic, **rules)
        return self

    def create(self, *ids: str, at: int | None = None, **how: Any) -> None:
        """Messages whose bodies are their ids, all at one moment."""
        new = [NewMessage(id.encode(), at, id, **how) for id in ids]
        outcomes = self.timeline.create(self.topic, new, producer_group=self.group)
        assert [(one.id, one.outcome) for one in outcomes] == [(id, "created") for id in ids]

    def lease(self, consumer: str = "w", limit: int = 100, **how: Any) -> list[LeasedMessage]:
        return self.timeline.lease(self.topic, consumer, limit=limit, **({"duration": MINUTE} | how))

    def leased(self, *ids: str, consumer: str = "w") -> list[Lease]:
        """New messages, due at once and leased for a minute; the leases are in the ids' order."""
        self.create(*ids)
        found = {message.id: message.lease for message in self.lease(consumer)}
        return [found[id] for id in ids]

    def read(self, id: str) -> Message:
        return self.timeline.read(self.topic, id, producer_group=self.group)

    def move(self, **moments: int) -> list[str]:
        return words(self.timeline.move(self.topic, moments, producer_group=self.group))

    def cancel(self, *ids: str) -> list[str]:
        return words(self.timeline.cancel(self.topic, ids, producer_group=self.group))

    def counts(self) -> tuple[int, int, int]:
        """Waiting, processing, available."""
        found: Counts = self.timeline.count(self.topic)
        return found.waiting, found.processing, found.available

    def messages(self) -> tuple[Message, ...]:
        """All that the producer group has."""
        page = self.timeline.my_messages(self.group, limit=10_000)
        assert page.next is None
        return page.messages


def words(outcomes: Iterable[Outcome]) -> list[str]:
    return [outcome.outcome for outcome in outcomes]


def ids_of(messages: Iterable[LeasedMessage | Message]) -> list[str]:
    return [message.id for message in messages]


def leases_of(messages: Iterable[LeasedMessage]) -> list[Lease]:
    return [message.lease for message in messages]


def prune(store: Store, clock: HandClock) -> None:
    """Steps until there is nothing more to do at this moment."""
    one = Prune(store, clock=clock)
    while one.run_once():
        pass


def rescue(store: Store, clock: HandClock) -> None:
    one = Rescue(store, clock=clock)
    while one.run_once():
        pass
