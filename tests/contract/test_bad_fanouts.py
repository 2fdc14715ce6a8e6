"""A fanout that cannot be processed stops neither the completion nor the expiry of others."""

import secrets

import pytest

from batchline import Store, Tracker
from batchline.core.fanout import NewFanout
from batchline.core.item_group import SALT_BITS
from batchline.errors import FanoutExpired, StoreError, StoreUnavailable
from batchline.runtime.expiry_step import RETRY_AFTER_US
from batchline.runtime.tracker import ExpireOutcome
from batchline.stores.rows import Rows
from batchline.stores.settling import HEAD_START_US, LEVELS_AT_ONCE
from tests.contract.faulty_stores import Breaking
from tests.contract.tracking import DAY_US, chain, errors_of, expire_all, new_id, opened
from tests.doubles import HandClock


@pytest.fixture
def tracker(fresh_store: Store, clock: HandClock) -> Tracker:
    return Tracker(fresh_store, clock=clock)


def bad_fanout(store: Store, clock: HandClock, tolerate: int | None = 0) -> str:
    """A fanout whose message cannot be read: its completion raises."""
    new = NewFanout(
        new_id(), secrets.randbits(SALT_BITS), None, tolerate, {}, 9 * DAY_US, 9 * DAY_US, DAY_US, "no JSON"
    )
    store.transact(lambda rows: rows.insert_fanout(new, None, clock()))
    return new.id


def seal_rows(store: Store, id: str, now_us: int) -> None:
    """Seal a fanout."""

    def seal(rows: Rows) -> None:
        held = rows.hold_fanout(rows.fanouts_by_id([id])[id].number)
        assert held is not None
        held.seal(now_us, "")
        rows.write_fanout(held)

    store.transact(seal)


@pytest.mark.parametrize("height", [1, 10, LEVELS_AT_ONCE, LEVELS_AT_ONCE + 20])
def test_an_ancestor_that_cannot_be_completed_stops_only_itself(
    tracker: Tracker, fresh_store: Store, clock: HandClock, caplog: pytest.LogCaptureFixture, height: int
) -> None:
    """Its message is unreadable, so that its completion raises; everything below it completes, and is reported."""
    bad = bad_fanout(fresh_store, clock)
    ids = chain(fresh_store, height, clock(), parent=bad)
    outcome = tracker.seal(ids[-1])
    assert sorted([ids[-1], *outcome.parents_completed]) == sorted(ids)
    assert (tracker.status(bad).state, tracker.status(bad).pending) == ("sealed", 1)
    assert repr(ids[0]) in caplog.text
    # Expiry tries again, less and less often; others are not kept waiting.
    other = chain(fresh_store, 1, clock(), unsealed_for_us=HEAD_START_US)
    clock.us += HEAD_START_US
    assert expire_all(tracker).expired == other
    caplog.clear()
    assert expire_all(tracker).more is False
    assert caplog.text == ""
    clock.us += RETRY_AFTER_US
    expire_all(tracker)
    assert repr(ids[0]) in caplog.text
    assert tracker.status(bad).pending == 1


def test_a_child_of_a_fanout_that_cannot_be_completed_expires(
    tracker: Tracker, fresh_store: Store, clock: HandClock
) -> None:
    bad = bad_fanout(fresh_store, clock, tolerate=None)
    (child,) = chain(fresh_store, 1, clock(), parent=bad)
    (group,) = tracker.add(child, 3)
    clock.us += DAY_US
    assert child in expire_all(tracker).expired
    assert errors_of(tracker.ack([(group, 1)])) == [((group, 1), FanoutExpired)]
    # Its tombstone stays beyond its time: the item of its parent is still pending.
    clock.us += 3 * DAY_US
    assert child not in expire_all(tracker).removed
    assert tracker.status(bad).pending == 1
    # Once the parent has expired, too, there is none to tell.
    for _ in range(4):
        clock.us += 9 * DAY_US
        expire_all(tracker)
    assert tracker.list().fanouts == ()


def test_items_of_other_fanouts_count_beside_one_that_cannot_be_completed(
    tracker: Tracker, fresh_store: Store, clock: HandClock
) -> None:
    good, items = opened(tracker, 2)
    tracker.seal(good)
    bad = bad_fanout(fresh_store, clock)
    (group,) = tracker.add(bad, 1)
    seal_rows(fresh_store, bad, clock())
    outcome = tracker.ack([*items, (group, 1)])
    assert (outcome.changed, outcome.completed, errors_of(outcome)) == (2, (good,), [((group, 1), StoreError)])
    with pytest.raises(ValueError, match="Expecting value"):
        tracker.ack([(group, 1)])


def test_a_fanout_that_expiry_cannot_process_stops_no_other(
    fresh_store: Store, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [chain(fresh_store, 1, clock())[0] for _ in range(5)]
    clock.us += 1
    good = [chain(fresh_store, 1, clock())[0] for _ in range(5)]
    clock.us += DAY_US
    tracker = Tracker(Breaking(fresh_store, bad), clock=clock)
    # The bad ones are due first, and fill pages: steps get past them.
    found = [tracker.expire_due(limit=2) for _ in range(6)]
    assert sorted(id for step in found for id in step.expired) == sorted(good)
    assert all(repr(id) in caplog.text for id in bad)
    assert tracker.expire_due() == ExpireOutcome()
    clock.us += RETRY_AFTER_US
    assert sorted(expire_all(Tracker(fresh_store, clock=clock)).expired) == sorted(bad)


def test_expiry_passes_an_outage_of_the_store_on(fresh_store: Store, clock: HandClock) -> None:
    (fanout,) = chain(fresh_store, 1, clock())
    clock.us += DAY_US
    with pytest.raises(StoreUnavailable):
        Tracker(Breaking(fresh_store, [fanout], StoreUnavailable("away")), clock=clock).expire_due()
    assert expire_all(Tracker(fresh_store, clock=clock)).expired == [fanout]
