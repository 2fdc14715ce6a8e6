"""Whatever is called in whatever order, at whatever moments, every store answers what the model does."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from batchline import Lease, LeasedMessage, NewMessage, Outcome, Store, Timeline
from batchline.core.message import bucket_of, moment_ms
from batchline.errors import ForeignMessage, InvalidMessage
from tests.contract.conftest import ALL_KINDS
from tests.contract.remote import CLIENT, Remotes, timeline_on
from tests.contract.timeline.line import prune, rescue, words
from tests.contract.timeline.model import Model, ModelMessage, ModelTopic
from tests.doubles import HandClock

#: How many histories for each ten that a property is tried with otherwise: what costs less is tried more.
HISTORIES = {"memory": 40, "sqlite": 8, "postgresql": 4, "mysql": 4, CLIENT: 3}
HOUR_MS = 3_600_000
TOPICS = [
    ModelTopic("plain", 16, 2 * HOUR_MS, 300_000),
    ModelTopic("tried", 89, 24 * HOUR_MS, 60_000, 2, "dead", keep=1_000),
    ModelTopic("dead", 89, 365 * 24 * HOUR_MS, 300_000),
]
GROUPS = ("east", "west")
CONSUMERS = ("v", "w")
NUMBERS = st.integers(0, 10_000)
TOPIC = st.sampled_from(["plain", "plain", "tried", "tried", "tried", "dead"])
GROUP = st.sampled_from(["east", "east", "east", "west"])
CONSUMER = st.sampled_from(CONSUMERS)
#: How far from now; those that are too far for one topic or for two are among them.
AHEAD = st.sampled_from([-1_000, -1, 0, 0, 0, 0, 1, 2, 1_000, 60_000, 400_000, 2 * HOUR_MS, 2 * HOUR_MS + 1, 10**9])
DURATION = st.sampled_from([None, 1, 2, 1_000, 60_000, HOUR_MS])
NEW = st.tuples(st.none() | st.sampled_from("abcdefgh"), AHEAD, st.integers(0, 3), st.sampled_from([0, 0, 1, -5]))
#: Which messages a call names: some that there are, on its own topic or on others, and what is none.
PICKS = st.lists(NUMBERS, min_size=1, max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("create"), TOPIC, GROUP, st.lists(NEW, min_size=1, max_size=8)),
    st.tuples(st.just("create_many"), TOPIC, GROUP, st.sampled_from([3, 65, 70]), AHEAD),
    st.tuples(st.just("create_again"), GROUP, NUMBERS, st.booleans()),
    st.tuples(st.just("move"), TOPIC, GROUP, PICKS, AHEAD),
    st.tuples(st.just("move"), TOPIC, GROUP, PICKS, AHEAD),
    st.tuples(st.just("cancel"), TOPIC, GROUP, PICKS),
    st.tuples(st.just("lease"), TOPIC, CONSUMER, st.sampled_from([1, 2, 5, 100]), DURATION, st.none()),
    st.tuples(st.just("lease"), TOPIC, CONSUMER, st.sampled_from([1, 2, 5, 100]), DURATION, st.none()),
    st.tuples(st.just("lease"), TOPIC, CONSUMER, st.sampled_from([1, 3, 100]), DURATION, st.tuples(NUMBERS, NUMBERS)),
    st.tuples(st.just("lease_one"), CONSUMER, NUMBERS, st.sampled_from([0, 0, 0, 1, -1]), DURATION),
    st.tuples(st.just("extend"), PICKS, DURATION),
    st.tuples(st.just("release"), PICKS, AHEAD),
    st.tuples(st.just("release"), PICKS, st.just(0)),
    st.tuples(st.just("done"), PICKS),
    st.tuples(st.just("steal"), st.sampled_from(["extend", "release", "done"]), PICKS),
    st.tuples(st.just("wear"), CONSUMER, st.sampled_from([1, 2, 100])),
    st.tuples(st.just("wear"), CONSUMER, st.sampled_from([1, 2, 100])),
    st.tuples(st.just("rescue")),
    st.tuples(st.just("prune")),
    st.tuples(st.just("wait"), st.sampled_from([1, 999, 60_000, 300_000, HOUR_MS])),
    st.tuples(st.just("land"), NUMBERS, st.sampled_from([-1, 0, 0, 1])),
    st.tuples(st.just("land"), NUMBERS, st.sampled_from([-1, 0, 0, 1])),
)


def span(ms: int | None) -> timedelta | None:
    return None if ms is None else timedelta(milliseconds=ms)


@dataclass
class Run:
    """A timeline and the model beside it, called alike."""

    store: Store
    clock: HandClock
    timeline: Timeline
    model: Model
    #: Every lease that was ever given out, and on which message.
    tokens: list[tuple[Lease, ModelMessage]] = field(default_factory=list)
    steps: int = 0

    def step(self, verb: str, *how: Any) -> None:
        self.model.now = self.clock.us // 1_000
        getattr(self, verb)(*how)
        self.model.now = self.clock.us // 1_000
        self.steps += 1
        self.compare()

    # --- time ---

    def wait(self, ms: int) -> None:
        self.clock.us += 1_000 * ms

    def land(self, number: int, off: int) -> None:
        """Go to the very moment of a message, or a millisecond off it."""
        ahead = sorted({one.at for one in self.model.on_line() if one.at + off > self.model.now})
        if ahead:
            self.clock.us = 1_000 * (ahead[min(number % 4, len(ahead) - 1)] + off)

    # --- producers ---

    def create(self, topic: str, group: str, parts: list[tuple[str | None, int, int, int]]) -> None:
        chosen: dict[object, tuple[str | None, int, int, int]] = {}
        for place, part in enumerate(parts):
            chosen.setdefault(part[0] or place, part)
        now = self.model.now
        self.create_all(
            topic,
            group,
            [
                NewMessage(b"ab"[body // 3 :], now + ahead, id, priority)
                for id, ahead, body, priority in chosen.values()
            ],
        )

    def create_many(self, topic: str, group: str, count: int, ahead: int) -> None:
        """So many that they take several bundles, with ids that come again."""
        self.create_all(topic, group, [NewMessage(b"", self.model.now + ahead, f"m{n}") for n in range(count)])

    def create_again(self, group: str, number: int, same: bool) -> None:
        if self.model.all:
            one = self.model.all[number % len(self.model.all)]
            body = one.body if same else b"other"
            owner = one.owner if same else group
            if not one.id.startswith("_"):
                self.create_all(one.topic, owner, [NewMessage(body, self.model.now, one.id)])
            else:
                self.create_made_again(one, owner, body)

    def create_made_again(self, one: ModelMessage, owner: str, body: bytes) -> None:
        """An id that we made is met on the topic it was made for, and is nothing to choose on another."""
        new = NewMessage(body, self.model.now, one.id)
        other = next(name for name in self.model.topics if name not in (one.topic, one.home))
        with pytest.raises(InvalidMessage, match="looks as if it were made here, and was not"):
            self.timeline.create(other, [new], producer_group=owner)
        has_left = one.ended == "cancelled" or self.model.is_forgotten(one, one.home)
        same = (owner, body) == (one.owner, one.body) and not has_left
        met = "exists" if same and (one.ended or one.topic == one.home) else "conflict"
        assert words(self.timeline.create(one.home, [new], producer_group=owner)) == [met]

    def create_all(self, topic: str, group: str, new: list[NewMessage]) -> None:
        expected = [self.model.creatable(topic, one.id, group, one.body, int(str(one.at))) for one in new]
        outcomes = self.timeline.create(topic, new, producer_group=group)
        assert words(outcomes) == expected
        for one, outcome in zip(new, outcomes, strict=True):
            assert one.id is None or outcome.id == one.id
            if outcome.outcome == "created":
                self.model.created(topic, outcome.id, group, one.body, int(str(one.at)), one.priority)
        self.tell("create", outcomes)

    def ids(self, picks: list[int]) -> list[str]:
        every = list(dict.fromkeys(one.id for one in self.model.all)) or ["nobody"]
        named = [every[-1 - pick % len(every)] if pick % 17 else "nobody" for pick in picks]
        return list(dict.fromkeys(named))

    def move(self, topic: str, group: str, picks: list[int], ahead: int) -> None:
        moments = {id: max(self.model.now + ahead + place, 0) for place, id in enumerate(self.ids(picks))}
        expected = [(id, self.model.move(topic, id, group, at)) for id, at in moments.items()]
        outcomes = self.timeline.move(topic, moments, producer_group=group)
        assert [(one.id, one.outcome) for one in outcomes] == expected
        event(f"move {sorted(set(words(outcomes)))}")

    def cancel(self, topic: str, group: str, picks: list[int]) -> None:
        ids = self.ids(picks)
        expected = [(id, self.model.cancel(topic, id, group)) for id in ids]
        outcomes = self.timeline.cancel(topic, ids, producer_group=group)
        assert [(one.id, one.outcome) for one in outcomes] == expected
        event(f"cancel {sorted(set(words(outcomes)))}")

    # --- consumers ---

    def lease(self, topic: str, consumer: str, limit: int, ms: int | None, within: tuple[int, int] | None) -> None:
        rules = self.model.topics[topic]
        first, last = sorted(one % rules.buckets for one in within) if within else (0, rules.buckets - 1)
        buckets = range(first, last + 1)
        offered = self.model.offered(topic, buckets)
        exhausted = [one for one in offered if self.model.is_exhausted(one)]
        fit = [one for one in offered if not self.model.is_exhausted(one)]
        got = self.timeline.lease(topic, consumer, limit=limit, duration=span(ms), buckets=buckets if within else None)
        found = [self.model.match(topic, one) for one in got]
        assert len(set(found)) == len(found)
        assert found == fit[:limit], "the oldest first, in order of creation, and all"
        for message, one in zip(found, got, strict=True):
            assert bucket_of(message.id, rules.buckets) in buckets
            self.took(message, one, consumer, ms)
        left = {(one.topic, one.id) for group in GROUPS for one in self.pages(group)} if exhausted else set()
        buried = [one for one in exhausted if (one.topic, one.id) not in left]
        for message in buried:
            self.model.bury(message)
        assert len(buried) == len(exhausted) or limit < len(offered)
        event(f"leased {min(len(got), 3)}, buried {min(len(buried), 3)}")

    def wear(self, consumer: str, limit: int) -> None:
        """Lease, and let the lease run out."""
        self.lease("tried", consumer, limit, 1, None)
        self.clock.us += 1_000

    def took(self, message: ModelMessage, got: LeasedMessage, consumer: str, ms: int | None) -> None:
        rules = self.model.topics[message.topic]
        self.model.take(message, got, consumer, self.model.now + (rules.lease if ms is None else ms))
        self.tokens.append((got.lease, message))

    def lease_one(self, consumer: str, number: int, off: int, ms: int | None) -> None:
        if not self.model.on_line():
            return
        one = self.model.on_line()[number % len(self.model.on_line())]
        upcoming = self.timeline.upcoming(one.topic, consumer, within=timedelta(hours=1), limit=10_000)
        due = [other for other in self.model.on_line(one.topic) if other.at <= self.model.now + HOUR_MS]
        assert Counter(upcoming) == Counter((other.id, other.version, other.at) for other in due)
        assert [other.at_ms for other in upcoming] == sorted(other.at for other in due)
        version = max(one.version + off, 1)
        got = self.timeline.lease_one(one.topic, one.id, version, consumer, duration=span(ms))
        named = self.model.named(one.topic, one.id)
        if named is None or named.at > self.model.now or named.version != version:
            assert got is None
        elif self.model.is_exhausted(named):
            assert got is None
            self.model.bury(named)
        else:
            assert got is not None
            self.took(named, got, consumer, ms)
        event(f"lease_one {'stale' if got is None else 'leased'}")

    def picked(self, picks: list[int]) -> list[tuple[Lease, ModelMessage]]:
        """Leases, most of them given out lately; one may stand twice."""
        return [self.tokens[-1 - pick % min(len(self.tokens), 1 + pick % 40)] for pick in picks] if self.tokens else []

    def extend(self, picks: list[int], ms: int | None) -> None:
        picked = self.picked(picks)
        held = {token: self.model.holder(token) for token, _ in picked}
        outcomes = self.timeline.extend([token for token, _ in picked], span(ms))
        for message in {one for one in held.values() if one is not None}:
            until = self.model.now + (self.model.topics[message.topic].lease if ms is None else ms)
            self.model.extend(message, until)
        for (token, message), outcome in zip(picked, outcomes, strict=True):
            assert (outcome.id, outcome.outcome) == (token.id, "lost" if held[token] is None else "extended")
            if held[token] is None:
                assert outcome.lease is None
                continue
            new = outcome.lease
            assert new is not None
            assert new[:5] == (message.topic, message.id, message.version, message.consumer, message.at)
            message.token = new
            self.tokens.append((new, message))
        self.tell("extend", outcomes)

    def release(self, picks: list[int], ahead: int) -> None:
        picked = self.picked(picks)
        at = max(self.model.now + ahead, 0)
        outcomes = self.timeline.release([token for token, _ in picked], at, reason="later")
        far = {name for name in self.model.topics if at > self.model.latest(name)}
        held = {token: self.model.holder(token) for token, _ in picked if token.topic not in far}
        for message in {one for one in held.values() if one is not None}:
            self.model.release(message, at, "later")
        for (token, message), outcome in zip(picked, outcomes, strict=True):
            assert outcome.id == token.id
            assert outcome.outcome in self.released_as(token, message, far, held)
        self.tell("release", outcomes)

    def released_as(
        self, token: Lease, message: ModelMessage, far: set[str], held: dict[Lease, ModelMessage | None]
    ) -> tuple[str, ...]:
        """What a release may be answered: a repeat is recognised, at least as long as its message is not pruned."""
        if token.topic in far:
            return ("too_far",)
        if held[token] is not None:
            return ("released",)
        if token not in self.model.released:
            return ("lost",)
        return ("released",) if message in self.model.all else ("released", "lost")

    def done(self, picks: list[int]) -> None:
        picked = self.picked(picks)
        outcomes = self.timeline.done([token for token, _ in picked])
        for token, _ in picked:
            message = self.model.holder(token)
            if message is not None:
                self.model.end(message, "done")
        assert [(one.id, one.outcome) for one in outcomes] == [
            (token.id, "done" if message.ended else "lost") for token, message in picked
        ]
        self.tell("done", outcomes)

    def steal(self, verb: str, picks: list[int]) -> None:
        """Leases as somebody else would have them, and of versions that were not given out, hold nothing."""
        picked = [one for one in self.picked(picks) if not one[1].ended]
        forged = [token._replace(consumer="thief") for token, _ in picked]
        forged += [token._replace(version=message.version + 1) for token, message in picked]
        assert set(words(getattr(self.timeline, verb)(forged))) <= {"lost"}

    def tell(self, verb: str, outcomes: list[Outcome]) -> None:
        event(f"{verb} {sorted(set(words(outcomes)))}")

    # --- in the background ---

    def rescue(self) -> None:
        rescue(self.store, self.clock)
        for message in list(self.model.rescued()):
            self.model.bury(message)
            event("rescued")

    def prune(self) -> None:
        prune(self.store, self.clock)
        self.model.prune()

    # --- what is known ---

    def pages(self, group: str) -> list[Any]:
        """All messages of a producer group, some at a time."""
        found: list[Any] = []
        page = self.timeline.my_messages(group, limit=97)
        found += page.messages
        while page.next is not None:
            page = self.timeline.my_messages(group, after=page.next, limit=97)
            found += page.messages
        return found

    def compare(self) -> None:
        model, now = self.model, self.model.now
        for group in GROUPS:
            shown = Counter(
                (one.topic, one.id, one.body, one.at, one.state, one.consumer, one.version, one.attempts, one.priority)
                for one in self.pages(group)
            )
            assert shown == Counter(
                (
                    *(one.topic, one.id, one.body, moment_ms(one.at), one.state(now)),
                    *(one.consumer if one.is_leased(now) else None, one.version, one.attempts, one.priority),
                )
                for one in model.on_line()
                if one.owner == group
            ), "none is lost, and none is there twice"
        self.compare_leases()
        self.compare_counts(list(model.topics)[self.steps % len(model.topics)])
        there = model.on_line()
        for place in {self.steps * by % len(there) for by in (1, 7, 11)} if there else ():
            self.compare_one(there[place])

    def compare_leases(self) -> None:
        held: list[tuple[int, int]] = []
        for consumer in CONSUMERS:
            found = self.timeline.my_leases(consumer)
            assert Counter(one.lease for one in found) == Counter(
                one.token for one in self.model.on_line() if one.consumer == consumer and one.is_leased(self.model.now)
            )
            held += [(one.lease.bundle, one.lease.place) for one in found]
        assert len(set(held)) == len(held), "at most one lease on each"

    def compare_counts(self, topic: str) -> None:
        now = self.model.now
        begin, end = [(0, 10**14), (now - 1_000, now + 1), (now, now + 700_000), (now + 1, now + 10**8)][self.steps % 4]
        found = self.timeline.count(topic, begin, end)
        assert (found.waiting, found.processing, found.available) == self.model.counts(topic, begin, end)

    def compare_one(self, one: ModelMessage) -> None:
        """What its owner, who holds it, and others read of a message."""
        if self.model.named(one.topic, one.id) is not one:
            return
        found = self.timeline.read(one.topic, one.id, producer_group=one.owner)
        assert [tuple(tried) for tried in found.history] == one.history
        assert found.bucket == bucket_of(one.id, self.model.topics[one.topic].buckets)
        with pytest.raises(ForeignMessage):
            self.timeline.read(one.topic, one.id, producer_group="somebody else")
        if one.token is None:
            return
        if one.is_leased(self.model.now):
            assert self.timeline.read(one.topic, one.id, lease=one.token) == found
        else:
            with pytest.raises(ForeignMessage):
                self.timeline.read(one.topic, one.id, lease=one.token)


def begin(store: Store, remotes: Remotes | None) -> Run:
    clock = HandClock()
    timeline = timeline_on(store, clock, None if remotes is None else remotes.maker(clock))
    for topic in TOPICS[:2]:
        timeline.create_topic(
            topic.name,
            buckets=topic.buckets,
            max_ahead=timedelta(milliseconds=topic.max_ahead),
            lease=timedelta(milliseconds=topic.lease),
            max_attempts=topic.max_attempts,
            dead_letter=topic.dead_letter,
            keep=timedelta(milliseconds=topic.keep),
        )
    return Run(store, clock, timeline, Model(TOPICS, clock.us // 1_000))


def wind_up(run: Run) -> None:
    """In the end everything goes: the leases end, and the topics with all that is on them."""
    run.clock.us += 1_000 * 24 * HOUR_MS
    for topic in run.timeline.topics():
        run.timeline.delete_topic(topic.name)
    prune(run.store, run.clock)
    assert run.timeline.topics() == []
    assert [run.timeline.my_messages(group).messages for group in GROUPS] == [(), ()]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_any_history_is_answered_as_by_the_model(
    kind: str, shared_store: Callable[[str, str], Store], remotes: Remotes
) -> None:
    store = shared_store(kind, "timeline model")

    @settings(max_examples=settings().max_examples * HISTORIES[kind] // 10)
    @given(steps=st.lists(STEPS, min_size=5, max_size=30))
    def histories(steps: list[tuple[Any, ...]]) -> None:
        run = begin(store, remotes if kind == CLIENT else None)
        try:
            # There is something to begin with, so that most steps are about something.
            run.step("create", "plain", "east", [("a", 0, 0, 0), ("b", 0, 0, 1), ("c", 1_000, 0, 0), (None, 0, 0, 0)])
            run.step("create_many", "tried", "east", 3, 0)
            run.step("lease", "tried", "w", 2, 1_000, None)
            for step in steps:
                run.step(*step)
        finally:
            wind_up(run)

    histories()
