"""The timeline as the spec's page says it: a message is an entry in a list. What every store must equal.

The page leaves open whether a message that was leased too often was met on the way: the model learns it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from batchline import Lease, LeasedMessage
from batchline.core.message import bucket_of

__all__ = ["RAN_OUT", "Model", "ModelMessage", "ModelTopic"]

RAN_OUT = "the lease ran out"
Tried = tuple[int, str, str, int, str]


@dataclass(frozen=True)
class ModelTopic:
    name: str
    buckets: int
    max_ahead: int
    lease: int
    max_attempts: int | None = None
    dead_letter: str | None = None
    keep: int = 60_000


@dataclass(eq=False)
class ModelMessage:
    topic: str
    id: str
    owner: str
    body: bytes
    at: int
    priority: int
    #: The topic it was created on.
    home: str
    version: int = 1
    attempts: int = 0
    consumer: str | None = None
    #: "done" or "cancelled", once it is.
    ended: str = ""
    ended_at: int = 0
    history: list[Tried] = field(default_factory=list)
    #: Bundle and place, as the first lease tells them.
    kept: tuple[int, int] | None = None
    token: Lease | None = None

    def state(self, now: int) -> str:
        if self.at <= now:
            return "available"
        return "waiting" if self.consumer is None else "processing"

    def is_leased(self, now: int) -> bool:
        return not self.ended and self.consumer is not None and now < self.at

    def age(self) -> tuple[int, int]:
        """The smaller goes first; of equals, the one that was created first."""
        return self.at, -self.priority


class Model:
    """All messages that ever were."""

    def __init__(self, topics: list[ModelTopic], now: int) -> None:
        self.topics = {topic.name: topic for topic in topics}
        self.now = now
        self.all: list[ModelMessage] = []
        #: Which message an id names on a topic.
        self.ids: dict[tuple[str, str], ModelMessage] = {}
        #: Leases whose consumers gave the message back.
        self.released: set[Lease] = set()

    def on_line(self, topic: str | None = None) -> list[ModelMessage]:
        return [one for one in self.all if not one.ended and topic in (None, one.topic)]

    def named(self, topic: str, id: str) -> ModelMessage | None:
        """The message on the line that an id names."""
        found = self.ids.get((topic, id))
        return None if found is None or found.ended else found

    def is_exhausted(self, message: ModelMessage) -> bool:
        most = self.topics[message.topic].max_attempts
        return most is not None and message.attempts >= most

    def latest(self, topic: str) -> int:
        """The last moment that the topic takes: now may be anywhere in its millisecond, and moments are rounded up."""
        return self.now + 1 + self.topics[topic].max_ahead

    def counts(self, topic: str, begin: int, end: int) -> tuple[int, int, int]:
        states = [one.state(self.now) for one in self.on_line(topic) if begin <= one.at < end]
        return states.count("waiting"), states.count("processing"), states.count("available")

    # --- producers ---

    def creatable(self, topic: str, id: str | None, owner: str, body: bytes, at: int) -> str:
        """The outcome that a message will have."""
        if at > self.latest(topic):
            return "too_far"
        twin = None if id is None else self.ids.get((topic, id))
        if twin is None or twin.ended == "cancelled" or self.is_forgotten(twin, topic):
            return "created"
        return "exists" if (twin.owner, twin.body) == (owner, body) else "conflict"

    def created(self, topic: str, id: str, owner: str, body: bytes, at: int, priority: int) -> None:
        new = ModelMessage(topic, id, owner, body, at, priority, topic)
        self.ids[topic, id] = new
        self.all.append(new)

    def is_forgotten(self, message: ModelMessage, topic: str) -> bool:
        """Whether a message ended longer ago than a topic keeps its record."""
        return bool(message.ended) and self.now >= message.ended_at + self.topics[topic].keep

    def refusal(self, topic: str, id: str, owner: str) -> str | None:
        """Why an owner may not move or cancel."""
        message = self.named(topic, id)
        if message is None:
            return "unknown"
        if message.owner != owner:
            return "foreign"
        return "leased" if message.is_leased(self.now) else None

    def move(self, topic: str, id: str, owner: str, at: int) -> str:
        refused = self.refusal(topic, id, owner)
        if refused is not None:
            return refused
        if at > self.latest(topic):
            return "too_far"
        message = self.ids[topic, id]
        self.note_lost(message)
        message.at, message.consumer, message.version = at, None, message.version + 1
        return "moved"

    def cancel(self, topic: str, id: str, owner: str) -> str:
        last = self.ids.get((topic, id))
        if last is not None and (last.ended, last.owner, last.topic) == ("cancelled", owner, topic):
            return "cancelled"
        refused = self.refusal(topic, id, owner)
        if refused is None:
            self.end(self.ids[topic, id], "cancelled")
        return refused or "cancelled"

    def end(self, message: ModelMessage, how: str) -> None:
        message.ended, message.ended_at, message.consumer = how, self.now, None

    # --- consumers ---

    def offered(self, topic: str, buckets: range) -> list[ModelMessage]:
        """What a consumer may have, the oldest first."""
        many = self.topics[topic].buckets
        found = (one for one in self.on_line(topic) if one.at <= self.now and bucket_of(one.id, many) in buckets)
        return sorted(found, key=ModelMessage.age)

    def take(self, message: ModelMessage, got: LeasedMessage, consumer: str, until: int) -> None:
        """A consumer has leased a message, and was told of it."""
        assert not message.ended
        assert message.at <= self.now, "nothing is delivered early, and nothing to two"
        assert (got.id, got.body, got.producer_group) == (message.id, message.body, message.owner)
        assert got.at_ms == message.at
        self.note_lost(message)
        message.at, message.consumer = until, consumer
        message.version, message.attempts = message.version + 1, message.attempts + 1
        message.kept, message.token = (got.lease.bundle, got.lease.place), got.lease
        assert got.attempts == message.attempts
        assert got.lease[:5] == (message.topic, message.id, message.version, consumer, until)

    def match(self, topic: str, got: LeasedMessage) -> ModelMessage:
        """Which message that is: of those that one id has on a dead-letter topic, only one can be found by it."""
        kept = (got.lease.bundle, got.lease.place)
        same = [one for one in self.on_line(topic) if one.id == got.id]
        known = [one for one in same if one.kept == kept]
        (found,) = known or [one for one in same if one.kept is None]
        return found

    def holder(self, token: Lease) -> ModelMessage | None:
        """The message that a lease still holds."""
        for one in self.on_line():
            if one.token == token and one.is_leased(self.now):
                return one
        return None

    def extend(self, message: ModelMessage, until: int) -> None:
        message.at, message.version = until, message.version + 1

    def release(self, message: ModelMessage, at: int, reason: str) -> None:
        assert message.token is not None
        self.released.add(message.token)
        message.history.append((message.attempts, message.consumer or "", "released", self.now, reason))
        message.at, message.consumer, message.version = max(at, self.now), None, message.version + 1

    def note_lost(self, message: ModelMessage) -> None:
        if message.consumer is not None:
            message.history.append((message.attempts, message.consumer, "lost", message.at, RAN_OUT))

    def bury(self, message: ModelMessage) -> None:
        """A message goes to the dead-letter topic; its id with it, unless that is taken there."""
        dead = self.topics[message.topic].dead_letter
        assert dead is not None
        self.note_lost(message)
        if self.ids.get((message.topic, message.id)) is message:
            del self.ids[message.topic, message.id]
        message.topic, message.at, message.consumer = dead, self.now, None
        message.version, message.attempts = message.version + 1, 0
        self.ids.setdefault((dead, message.id), message)

    # --- in the background ---

    def rescued(self) -> Iterator[ModelMessage]:
        """Those whose last allowed lease ran out."""
        for one in self.on_line():
            if one.consumer is not None and one.at <= self.now and self.is_exhausted(one):
                yield one

    def prune(self) -> None:
        """Remove what ended longer ago than its topic keeps it."""
        self.all = [one for one in self.all if not self.is_forgotten(one, one.topic)]
        left = set(map(id, self.all))
        self.ids = {key: one for key, one in self.ids.items() if id(one) in left}
