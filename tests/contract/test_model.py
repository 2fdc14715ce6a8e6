"""Whatever is called in whatever order, every store answers what the model does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from batchline import AckOutcome, ExpiryRules, Store, Tracker
from batchline.core.moment import moment_of
from batchline.errors import BatchlineError
from tests.contract.conftest import ALL_KINDS
from tests.contract.model import (
    HOUR_US,
    SEALED_US,
    TOMBSTONE_US,
    UNSEALED_US,
    Answer,
    Model,
    ModelFanout,
    Named,
    Refused,
)
from tests.contract.remote import CLIENT, Remotes, tracker_on
from tests.contract.tracking import errors_of, expire_all, new_id
from tests.doubles import HandClock

RULES = ExpiryRules(*(timedelta(microseconds=us) for us in (UNSEALED_US, SEALED_US, TOMBSTONE_US)))
#: How many histories for each that a property is tried with otherwise: what costs less is tried more.
HISTORIES = {"memory": 10, "sqlite": 3, "postgresql": 1, "mysql": 1, CLIENT: 1}
NAMES = st.sampled_from(["a", "b", "c", "a "])
NUMBERS = st.integers(0, 10_000)
#: Which items a call names: some of what there is, all of a fanout, and what is none.
PICKS = st.one_of(
    st.tuples(st.just("item"), NUMBERS, NUMBERS),
    st.tuples(st.just("item"), NUMBERS, NUMBERS),
    st.tuples(st.just("fanout"), NUMBERS, NUMBERS),
    st.tuples(st.just("fanout"), NUMBERS, NUMBERS),
    st.tuples(st.just("mask"), NUMBERS, st.integers(1, 2**64 - 1)),
    st.tuples(st.sampled_from(["elsewhere", "past", "unknown", "malformed"]), NUMBERS, NUMBERS),
)
STEPS = st.one_of(
    st.tuples(st.just("open"), NAMES, st.none() | NAMES, st.sampled_from([0, 0, 1, None])),
    st.tuples(st.just("add"), NAMES, st.sampled_from([1, 2, 63, 64, 65, 130]), st.sampled_from([None, None, "x", "y"])),
    st.tuples(st.just("seal"), NAMES),
    st.tuples(st.just("seal"), NAMES),
    st.tuples(st.just("ack"), st.lists(PICKS, min_size=1, max_size=5)),
    st.tuples(st.just("ack"), st.lists(PICKS, min_size=1, max_size=1)),
    st.tuples(st.just("ack"), st.tuples(st.tuples(st.just("fanout"), NUMBERS, st.just(1)))),
    st.tuples(st.just("drain"), NAMES),
    st.tuples(st.just("drain"), NAMES),
    st.tuples(st.just("fail"), st.lists(PICKS, min_size=1, max_size=3), st.sampled_from(["broken", "lost"])),
    st.tuples(st.just("repeat"), NUMBERS),
    st.tuples(st.just("expire"), NAMES),
    st.tuples(st.just("expire_due")),
    st.tuples(st.just("wait"), st.integers(1, 12)),
)


@dataclass
class Run:
    """A tracker and the model beside it, called alike."""

    tracker: Tracker
    clock: HandClock
    model: Model
    #: Calls to repeat: the verb, what it was called with, and its call_id.
    calls: list[tuple[str, tuple[Any, ...], str]] = field(default_factory=list)

    def step(self, verb: str, *how: Any) -> None:
        if verb == "wait":
            self.clock.us += how[0] * HOUR_US
            self.model.now = self.clock.us
            return
        try:
            getattr(self, verb)(*how)
        except Refused as refused:
            event(f"{verb} refused: {refused.kind.__name__}")
        self.compare()

    def refused_alike(self, refused: Refused, call: Callable[[], object]) -> None:
        with pytest.raises(BatchlineError) as raised:
            call()
        assert raised.type is refused.kind
        raise refused

    # --- verbs ---

    def open(self, name: str, parent: str | None, tolerate: int | None) -> None:
        try:
            new = self.model.open(name, parent, tolerate)
        except Refused as refused:
            self.refused_alike(refused, lambda: self.tracker.open(name, parent=parent, tolerate=tolerate))
        self.tracker.open(name, parent=parent, tolerate=tolerate)
        if new and parent is not None:
            self.model.joined(name, self.tracker.pending_items(parent, limit=100_000)[-1])

    def add(self, name: str, count: int, add_id: str | None) -> None:
        try:
            before = self.model.may_add(name, count, add_id)
        except Refused as refused:
            self.refused_alike(refused, lambda: self.tracker.add(name, count, add_id=add_id))
        groups = [(group.id, group.upto) for group in self.tracker.add(name, count, add_id=add_id)]
        if before is not None:
            assert groups == before
            return
        full, rest = divmod(count, 64)
        assert [upto for _, upto in groups] == [64] * full + [rest] * (rest > 0)
        self.model.added(name, add_id, groups)

    def seal(self, name: str) -> None:
        self.do("seal", (name,), new_id())

    def ack(self, picks: list[tuple[str, int, int]]) -> None:
        self.do("ack", (self.named(picks),), new_id())

    def fail(self, picks: list[tuple[str, int, int]], reason: str) -> None:
        self.do("fail", (self.named(picks), reason), new_id())

    def drain(self, name: str) -> None:
        """Acknowledge whatever a fanout of this name ever had, each group in a call of its own."""
        for group, (owner, upto, child) in list(self.model.groups.items()):
            if owner.id == name and not child:
                self.do("ack", ([(group, (1 << upto) - 1)],), new_id())

    def repeat(self, number: int) -> None:
        if self.calls:
            self.do(*self.calls[-1 - number % len(self.calls)])

    def do(self, verb: str, how: tuple[Any, ...], call: str) -> None:
        """Make a call that can be repeated, and compare its answer."""
        self.calls.append((verb, how, call))
        try:
            expected = self.model.seal(how[0], call) if verb == "seal" else self.finished(verb, how, call)
        except Refused as refused:
            self.refused_alike(refused, lambda: getattr(self.tracker, verb)(*how, call_id=call))
        outcome = getattr(self.tracker, verb)(*how, call_id=call)
        if verb == "seal":
            assert outcome.completed == (how[0] in expected.completed)
            assert outcome.parents_completed == tuple(sorted(set(expected.completed) - {how[0]}))
            assert outcome.parents_failed == tuple(sorted(expected.failed))
        else:
            assert_same_outcome(outcome, expected)
        event(f"{verb} ended {len(expected.completed) + len(expected.failed)}")

    def finished(self, verb: str, how: tuple[Any, ...], call: str) -> Answer:
        return self.model.finish(how[0], how[1] if verb == "fail" else None, call)

    def expire(self, name: str) -> None:
        try:
            expired, ended = self.model.expire(name, "")
        except Refused as refused:
            self.refused_alike(refused, lambda: self.tracker.expire(name))
        outcome = self.tracker.expire(name)
        assert outcome.expired == expired
        assert (outcome.completed, outcome.failed) == (sorted(ended.completed), sorted(ended.failed))

    def expire_due(self) -> None:
        expired, gone, ended = self.model.expire_due("")
        outcome = expire_all(self.tracker)
        assert sorted(outcome.expired) == sorted(expired)
        assert sorted(outcome.removed) == sorted(gone)
        assert (sorted(outcome.completed), sorted(outcome.failed)) == (sorted(ended.completed), sorted(ended.failed))

    # --- items ---

    def named(self, picks: list[tuple[str, int, int]]) -> list[Named]:
        return [named for pick in picks for named in self.picked(*pick)]

    def picked(self, what: str, number: int, other: int) -> list[Named]:
        groups = list(self.model.groups)
        if what == "malformed" or not groups:
            return [["", "nonsense", "a:b", f"a:{number}"][number % 4]]
        group = groups[number % len(groups)]
        owner, upto, _ = self.model.groups[group]
        match what:
            case "item":
                return [f"{owner.id}:{group}:{other % upto}"]
            case "fanout":
                kept = list(self.model.kept.values()) or [owner]
                own = [item for item in kept[number % len(kept)].items if other % 4 or int(item.rpartition(":")[2]) % 2]
                return [item for item in own if not self.model.groups[item.rsplit(":", 2)[1]][2]]
            case "mask":
                return [(group, other)]
            case "elsewhere":
                return [f"{['a', 'b', 'c', 'a '][other % 4]}:{group}:0"]
            case "past":
                return [f"{owner.id}:{group}:{upto + other % 70}"]
            case _:
                return [f"nobody:{group}:0"]

    # --- what is known ---

    def compare(self) -> None:
        for name in ("a", "b", "c", "a "):
            if name in self.model.kept:
                self.compare_fanout(self.model.kept[name])
        assert {status.id for status in self.tracker.list().fanouts} == set(self.model.kept)

    def compare_fanout(self, fanout: ModelFanout) -> None:
        status = self.tracker.status(fanout.id)
        assert (status.state, status.total, status.tolerate) == (fanout.state, len(fanout.items), fanout.tolerate)
        assert status.parent == self.model.parent_of(fanout)
        times = (fanout.opened, fanout.sealed, fanout.completed, fanout.failed_at, fanout.expired)
        shown = (status.opened_at, status.sealed_at, status.completed_at, status.failed_at, status.expired_at)
        assert shown == tuple(None if us is None else moment_of(us) for us in times)
        if fanout.expired is not None:
            return  # what children do to an expired parent is nobody's business
        assert status.last_activity_at == moment_of(fanout.active)
        assert (status.pending, status.acked, status.failed) == tuple(
            map(len, (fanout.pending, fanout.acked, fanout.failed))
        )
        assert self.tracker.pending_items(fanout.id, limit=100_000) == [
            item for item in fanout.items if item in fanout.pending
        ]
        assert [(one.id, one.reason) for one in self.tracker.failed_items(fanout.id, limit=100_000)] == [
            (item, fanout.failed[item]) for item in fanout.items if item in fanout.failed
        ]


def assert_same_outcome(outcome: AckOutcome, expected: Answer) -> None:
    assert (outcome.changed, outcome.repeated) == (expected.changed, expected.repeated)
    assert (outcome.completed, outcome.failed) == (tuple(sorted(expected.completed)), tuple(sorted(expected.failed)))
    assert sorted(errors_of(outcome), key=str) == sorted(expected.errors, key=str)


def wind_up(tracker: Tracker, clock: HandClock) -> None:
    """In the end everything goes: a fanout, its parents, and their tombstones."""
    for _ in range(12):
        if not tracker.list(limit=1).fanouts:
            return
        clock.us += 40 * HOUR_US
        expire_all(tracker)
    raise AssertionError("something is left")


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_any_history_is_answered_as_by_the_model(
    kind: str, shared_store: Callable[[str, str], Store], remotes: Remotes
) -> None:
    store = shared_store(kind, "model")

    @settings(max_examples=settings().max_examples * HISTORIES[kind])
    @given(steps=st.lists(STEPS, min_size=5, max_size=40))
    def histories(steps: list[tuple[Any, ...]]) -> None:
        clock = HandClock()
        remote = remotes.maker(clock) if kind == CLIENT else None
        run = Run(tracker_on(store, clock, remote, RULES), clock, Model(clock.us))
        try:
            # There is something to begin with, so that most steps are about something.
            for name, parent, items in (("a", None, 2), ("b", "a", 65), ("c", "b", 2), ("a ", None, 130)):
                run.open(name, parent, 1)
                run.add(name, items, "x")
            for step in steps:
                run.step(*step)
        finally:
            wind_up(run.tracker, clock)

    histories()
