"""Expiry: without activity for too long a fanout is given up, step by step, and a late ack is told so."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from batchline import ExpiryRules, Store, Tracker
from batchline.core.moment import moment_of
from batchline.errors import FanoutExpired, InvalidCount, UnknownFanout, UnknownGroup
from batchline.runtime.tracker import ExpireOutcome
from tests.contract.remote import Remote, tracker_on
from tests.contract.tracking import errors_of, expire_all, new_id, opened, pass_time
from tests.doubles import HandClock

A_BIT = timedelta(microseconds=1)
DAY = timedelta(days=1)
RULES = ExpiryRules(unsealed=3 * DAY, sealed=5 * DAY, tombstone=7 * DAY)


@pytest.fixture
def tracker(fresh_store: Store, clock: HandClock, remote: Remote | None) -> Tracker:
    return tracker_on(fresh_store, clock, remote, RULES)


def test_an_unsealed_fanout_expires_after_its_span_and_not_before(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker, 1)
    pass_time(clock, 3 * DAY - A_BIT)
    assert expire_all(tracker) == ExpireOutcome()
    assert tracker.status(fanout).state == "open"
    pass_time(clock, A_BIT)
    assert expire_all(tracker) == ExpireOutcome(expired=[fanout])
    status = tracker.status(fanout)
    assert (status.state, status.expired_at) == ("expired", moment_of(clock.us))
    assert expire_all(tracker) == ExpireOutcome()


def test_a_sealed_fanout_expires_after_its_span_and_not_before(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker, 1)
    tracker.seal(fanout)
    pass_time(clock, 5 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [fanout]


def test_without_rules_it_is_a_week_unsealed_and_thirty_days_sealed(fresh_store: Store, clock: HandClock) -> None:
    tracker = Tracker(fresh_store, clock=clock)
    unsealed, _ = opened(tracker)
    sealed, _ = opened(tracker, 1)
    tracker.seal(sealed)
    pass_time(clock, 7 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [unsealed]
    pass_time(clock, 23 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [sealed]


def test_rules_of_a_fanouts_own_override_the_trackers(tracker: Tracker, clock: HandClock) -> None:
    own = ExpiryRules(unsealed=timedelta(hours=1), sealed=timedelta(hours=2), tombstone=timedelta(hours=3))
    unsealed, _ = opened(tracker, expiry=own)
    sealed, _ = opened(tracker, 1, expiry=own)
    others, _ = opened(tracker)
    tracker.seal(sealed)
    assert tracker.open(unsealed, expiry=own).id == unsealed
    pass_time(clock, timedelta(hours=1))
    assert expire_all(tracker).expired == [unsealed]
    pass_time(clock, timedelta(hours=1))
    assert expire_all(tracker).expired == [sealed]
    pass_time(clock, timedelta(hours=2))
    assert expire_all(tracker).removed == [unsealed]
    pass_time(clock, timedelta(hours=1))
    assert expire_all(tracker).removed == [sealed]
    assert tracker.status(others).state == "open"


def test_another_tracker_with_other_rules_changes_nothing_for_fanouts_that_are_there(
    tracker: Tracker, fresh_store: Store, clock: HandClock
) -> None:
    fanout, _ = opened(tracker)
    impatient = Tracker(fresh_store, expiry=ExpiryRules(unsealed=timedelta(seconds=1)), clock=clock)
    pass_time(clock, 3 * DAY - A_BIT)
    assert expire_all(impatient).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(impatient).expired == [fanout]


ACTIVITIES: dict[str, Callable[[Tracker, str, list[str]], object]] = {
    "add": lambda tracker, fanout, _: tracker.add(fanout, 1),
    "ack alone": lambda tracker, _, items: tracker.ack(items[:1]),
    "ack among others": lambda tracker, _, items: tracker.ack([items[0], items[64]]),
    "fail": lambda tracker, _, items: tracker.fail(items[:1], "broken"),
    "ack of a whole counter": lambda tracker, _, items: tracker.ack(items[:64]),
    "a child": lambda tracker, fanout, _: tracker.seal(tracker.open(parent=fanout).id),
}


@pytest.mark.parametrize("activity", ACTIVITIES)
def test_activity_postpones_the_expiry_of_an_unsealed_fanout(tracker: Tracker, clock: HandClock, activity: str) -> None:
    fanout, items = opened(tracker, 128, tolerate=None)
    pass_time(clock, 2 * DAY)
    ACTIVITIES[activity](tracker, fanout, items)
    assert tracker.status(fanout).last_activity_at == moment_of(clock.us)
    pass_time(clock, 3 * DAY - A_BIT)
    assert fanout not in expire_all(tracker).expired
    pass_time(clock, A_BIT)
    assert fanout in expire_all(tracker).expired


@pytest.mark.parametrize("activity", ["ack alone", "ack among others", "fail", "ack of a whole counter"])
def test_activity_postpones_the_expiry_of_a_sealed_fanout(tracker: Tracker, clock: HandClock, activity: str) -> None:
    fanout, items = opened(tracker, 128, tolerate=None)
    tracker.seal(fanout)
    pass_time(clock, 4 * DAY)
    ACTIVITIES[activity](tracker, fanout, items)
    pass_time(clock, 5 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [fanout]


def test_sealing_is_activity_and_changes_the_span(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker, 1)
    pass_time(clock, 2 * DAY)
    tracker.seal(fanout)
    pass_time(clock, 5 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [fanout]


def test_activity_goes_on_for_as_long_as_it_comes(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 40)
    for item in items:
        pass_time(clock, 3 * DAY - A_BIT)
        tracker.ack([item])
        assert expire_all(tracker).expired == []
    assert tracker.status(fanout).acked == 40


def test_looking_is_no_activity(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 1)
    tracker.ack(items)
    pass_time(clock, 2 * DAY)
    tracker.status(fanout)
    tracker.list()
    tracker.pending_items(fanout)
    tracker.failed_items(fanout)
    pass_time(clock, DAY)
    assert expire_all(tracker).expired == [fanout]


@pytest.mark.parametrize("state", ["empty", "complete", "failed", "failed and sealed"])
def test_fanouts_in_every_state_expire(tracker: Tracker, clock: HandClock, state: str) -> None:
    fanout, items = opened(tracker, 0 if state == "empty" else 1)
    if state.startswith("failed"):
        tracker.fail(items, "broken")
    if state == "complete":
        tracker.ack(items)
    if state in ("complete", "failed and sealed"):
        tracker.seal(fanout)
    pass_time(clock, (3 if state in ("empty", "failed") else 5) * DAY)
    assert expire_all(tracker) == ExpireOutcome(expired=[fanout])
    pass_time(clock, 7 * DAY)
    assert expire_all(tracker) == ExpireOutcome(removed=[fanout])
    assert tracker.list().fanouts == ()


def late_acks(tracker: Tracker, items: list[str], kind: type[Exception], bare: type[Exception]) -> None:
    """A late ack or fail is told so, by id, by group and by bare uuid; alone and among others."""
    group = items[0].rpartition(":")[0]
    uuid = group.rpartition(":")[2]
    _, beside = opened(tracker, 64, tolerate=None)
    for others in ([], beside[:1]):
        for finish in (tracker.ack, lambda items: tracker.fail(items, "late")):
            for named in (items[0], (group, 1)):
                assert errors_of(finish([named, *others])) == [(named, kind)]
            assert errors_of(finish([(uuid, 1), *others])) == [((uuid, 1), bare)]
    outcome = tracker.ack(items)
    assert (outcome.changed, [kind_of for _, kind_of in errors_of(outcome)]) == (0, [kind] * len(items))


def test_a_late_ack_is_told_expired_then_unknown(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 70)
    tracker.ack(items[:2])
    assert tracker.expire(fanout) == ExpireOutcome(expired=[fanout], more=True)
    late_acks(tracker, items, FanoutExpired, FanoutExpired)  # nothing is cleared yet
    assert expire_all(tracker) == ExpireOutcome()
    late_acks(tracker, items, FanoutExpired, FanoutExpired)  # all of its items are
    for verb in (tracker.seal, tracker.open, tracker.pending_items, tracker.failed_items):
        with pytest.raises(FanoutExpired, match=f"fanout '{fanout}' expired at 2027-01-15T08:00:00.123457"):
            verb(fanout)
    status = tracker.status(fanout)
    assert (status.state, status.total, status.pending, status.acked) == ("expired", 70, 68, 2)
    pass_time(clock, 7 * DAY - A_BIT)
    assert fanout not in expire_all(tracker).removed
    late_acks(tracker, items, FanoutExpired, FanoutExpired)
    pass_time(clock, A_BIT)
    assert expire_all(tracker).removed == [fanout]
    late_acks(tracker, items, UnknownFanout, UnknownGroup)
    with pytest.raises(UnknownFanout):
        tracker.status(fanout)


def test_an_id_is_free_again_when_its_tombstone_went(tracker: Tracker, clock: HandClock) -> None:
    fanout = new_id()
    tracker.open(fanout, labels={"first": "yes"})
    (old,) = tracker.add(fanout, 3, add_id="page-1")
    tracker.expire(fanout)
    pass_time(clock, 7 * DAY)
    assert expire_all(tracker).removed == [fanout]
    assert tracker.list().fanouts == ()
    status = tracker.open(fanout, tolerate=3)
    assert (status.state, status.total, status.labels) == ("open", 0, {})
    (new,) = tracker.add(fanout, 3, add_id="page-1")
    outcome = tracker.ack(list(old.items()))
    assert errors_of(outcome) == [(item, UnknownGroup) for item in old.items()]
    assert tracker.status(fanout).pending == 3
    assert tracker.ack(list(new.items())).changed == 3


def test_expiring_twice_changes_nothing(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker, 1)
    tracker.expire(fanout)
    before = tracker.status(fanout)
    pass_time(clock, DAY)
    assert tracker.expire(fanout) == ExpireOutcome()
    assert tracker.status(fanout) == before
    with pytest.raises(UnknownFanout):
        tracker.expire(new_id())


@pytest.mark.parametrize("piece", [2, 3, 10])
def test_a_large_fanout_goes_in_bounded_steps(
    tracker: Tracker, clock: HandClock, fresh_store: Store, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("batchline.stores.expiring.CLEARED_AT_ONCE", piece)
    fanout, items = opened(tracker, 64 * 20, tolerate=None)
    for item in items[:6]:
        tracker.fail([item], f"reason {item}")  # several failures of one group
    tracker.fail([items[100], items[200]], "broken")
    for _ in range(5):
        tracker.add(fanout, 1)
    tracker.expire(fanout)

    def left(rows: Any) -> int:
        number = rows.fanouts_by_id([fanout])[fanout].number
        return len(rows.pending_groups(number, 0, 1000)) + len(rows.failures(number, 0, 1000))

    steps, remaining = 0, fresh_store.read(left)
    assert remaining == 25 + 8
    more = True
    while more:
        more = tracker.expire_due().more
        steps += 1
        now_left = fresh_store.read(left)
        # All failures of a group go at once; in memory, so many groups and as many failures.
        assert remaining - now_left <= 2 * piece + 5
        remaining = now_left
        late = tracker.ack(items[-1:])
        assert errors_of(late) == [(items[-1], FanoutExpired)]
    assert remaining == 0
    assert 33 / (2 * piece + 5) <= steps <= 60
    pass_time(clock, 7 * DAY)
    assert expire_all(tracker).removed == [fanout]


def test_a_step_looks_at_no_more_fanouts_than_its_limit(tracker: Tracker, clock: HandClock) -> None:
    fanouts = []
    for _ in range(5):
        fanouts.append(opened(tracker)[0])
        pass_time(clock, timedelta(seconds=1))
    pass_time(clock, 3 * DAY)
    first = tracker.expire_due(limit=2)
    assert (first.expired, first.more) == (fanouts[:2], True)
    rest = expire_all(tracker)
    assert (rest.expired, rest.more) == (fanouts[2:], False)
    for limit in (0, -1, True, 1.5):
        with pytest.raises(InvalidCount):
            tracker.expire_due(limit=limit)  # type: ignore[arg-type]


def test_nothing_is_due_in_an_empty_store(tracker: Tracker) -> None:
    assert tracker.expire_due() == ExpireOutcome()


def test_two_instances_share_the_work(tracker: Tracker, fresh_store: Store, clock: HandClock) -> None:
    fanouts = [opened(tracker, 1)[0] for _ in range(4)]
    other = Tracker(fresh_store, clock=clock)
    pass_time(clock, 3 * DAY)
    found = [*tracker.expire_due(limit=2).expired, *other.expire_due(limit=2).expired, *expire_all(tracker).expired]
    assert sorted(found) == sorted(fanouts)


def test_a_parent_with_a_living_child_does_not_expire(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, 1, parent=parent, expiry=ExpiryRules(unsealed=30 * DAY))
    for _ in range(9):
        pass_time(clock, 3 * DAY)
        assert expire_all(tracker) == ExpireOutcome()
    pass_time(clock, 3 * DAY)
    outcome = expire_all(tracker)
    assert (outcome.expired, outcome.failed) == ([child], [parent])
    pass_time(clock, 3 * DAY)
    assert expire_all(tracker).expired == [parent]


def test_a_parent_whose_child_is_complete_expires(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, parent=parent)
    tracker.seal(child)
    pass_time(clock, 3 * DAY)
    assert expire_all(tracker).expired == [parent]
    pass_time(clock, 2 * DAY)
    assert expire_all(tracker).expired == [child]


def test_a_parent_and_its_child_that_are_due_at_once_both_go_in_the_end(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, 1, parent=parent)
    pass_time(clock, 3 * DAY)
    outcome = expire_all(tracker)
    assert (outcome.expired, outcome.failed) == ([child], [parent])
    pass_time(clock, 3 * DAY)
    assert expire_all(tracker).expired == [parent]
    for _ in range(2):
        pass_time(clock, 7 * DAY)
        expire_all(tracker)
    assert tracker.list().fanouts == ()


def test_a_child_that_expires_completes_a_tolerant_parent(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker, tolerate=1)
    child, _ = opened(tracker, 1, parent=parent)
    tracker.seal(parent)
    pass_time(clock, 3 * DAY)
    outcome = expire_all(tracker)
    assert (outcome.expired, outcome.completed, outcome.failed) == ([child], [parent], [])


def test_a_child_lives_on_when_its_parent_is_forgotten(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    child, items = opened(tracker, 1, parent=parent, expiry=ExpiryRules(unsealed=60 * DAY))
    tracker.expire(parent)
    expire_all(tracker)
    pass_time(clock, 7 * DAY)
    assert expire_all(tracker).removed == [parent]
    assert tracker.status(child).parent is None
    tracker.seal(child)
    assert tracker.ack(items).completed == (child,)


def test_nothing_is_left_of_a_fanout_that_went(tracker: Tracker, clock: HandClock, fresh_store: Store) -> None:
    fanout, items = opened(tracker, 200, labels={"a": "b"}, tolerate=None)
    opened(tracker, parent=fanout)
    tracker.fail(items[:3], "broken")
    tracker.ack(items[3:70])
    for _ in range(4):
        pass_time(clock, 7 * DAY)
        expire_all(tracker)
    assert tracker.list().fanouts == ()
    assert everything(fresh_store) == 0


def everything(store: Store) -> int:
    """How many rows there are in all tables."""
    tables: Any = getattr(store, "_tables", None)
    if tables is not None:
        kept = ("fanouts", "numbers", "labels", "shards", "adds", "add_ids", "groups", "failures")
        return sum(len(getattr(tables, name)) for name in kept)
    names = ("fanouts", "labels", "shards", "adds", "item_groups", "failures")
    count = " + ".join(f"(SELECT count(*) FROM batchline_{name})" for name in names)
    connections: Any = getattr(store, "connections", None) or getattr(store, "_readers", None)

    def run(connection: Any) -> int:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {count}")
        return int(cursor.fetchone()[0])

    return int(connections.transact(run))
