"""Status: exact counts, whatever happened, and every time that there is."""

import random
from datetime import timedelta

import pytest

from batchline import Store, Tracker
from batchline.core.moment import moment_of
from batchline.errors import InvalidName, UnknownFanout
from tests.contract.tracking import new_id, opened, pass_time, recounted
from tests.doubles import BEGIN_US, HandClock


def test_every_time_of_a_life_is_told(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 2)
    clock.us = BEGIN_US + 1
    tracker.seal(fanout)
    clock.us = BEGIN_US + 2
    tracker.ack(items[:1])
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US + 2)
    clock.us = BEGIN_US + 3
    tracker.ack(items[1:])
    clock.us = BEGIN_US + 4
    tracker.expire(fanout)
    status = tracker.status(fanout)
    times = (status.opened_at, status.sealed_at, status.last_activity_at, status.completed_at, status.expired_at)
    assert times == tuple(moment_of(BEGIN_US + after) for after in (0, 1, 3, 3, 4))
    assert (status.failed_at, status.state, status.completed) == (None, "expired", True)


def test_an_expired_fanout_is_still_told_with_its_counts_and_labels(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 100, labels={"job": "import"}, tolerate=None)
    tracker.ack(items[:10])
    tracker.fail(items[10:15], "broken")
    tracker.expire(fanout)
    status = tracker.status(fanout)
    assert (status.state, status.labels) == ("expired", {"job": "import"})
    assert (status.total, status.pending, status.acked, status.failed) == (100, 85, 10, 5)


def test_the_status_of_what_is_not_there_is_refused(tracker: Tracker) -> None:
    fanout = new_id()
    with pytest.raises(UnknownFanout, match=f"no fanout '{fanout}' is open"):
        tracker.status(fanout)
    with pytest.raises(InvalidName):
        tracker.status("\0")


@pytest.mark.parametrize("seed", range(5))
def test_counters_equal_a_recount_after_any_history(
    store: Store, tracker: Tracker, clock: HandClock, seed: int
) -> None:
    draw = random.Random(seed)
    parent, _ = opened(tracker, tolerate=None)
    fanouts = [opened(tracker, tolerate=None, parent=draw.choice([None, parent]))[0] for _ in range(4)]
    items: list[str] = []
    acked: set[str] = set()
    failed: set[str] = set()
    for _ in range(60):
        pass_time(clock, timedelta(seconds=1))
        match draw.choice(["add", "ack", "ack", "fail"]):
            case "add":
                fanout = draw.choice(fanouts)
                groups = tracker.add(fanout, draw.choice([1, 2, 63, 64, 65, 200]))
                items += [item for group in groups for item in group.items()]
            case "ack" if items:
                chosen = draw.choices(items, k=draw.choice([1, 1, 5, 60]))
                outcome = tracker.ack(chosen)
                assert outcome.changed == len(set(chosen) - acked - failed)
                assert outcome.changed + outcome.repeated == len(chosen)
                acked |= set(chosen) - failed
            case "fail" if items:
                chosen = draw.choices(items, k=draw.choice([1, 3]))
                assert tracker.fail(chosen, "broken").changed == len(set(chosen) - acked - failed)
                failed |= set(chosen) - acked
    for fanout in fanouts:
        mine = {item for item in items if item.startswith(f"{fanout}:")}
        status = tracker.status(fanout)
        assert status.total == len(mine)
        assert (status.acked, status.failed) == (len(mine & acked), len(mine & failed))
        assert (status.pending, status.failed) == recounted(store, fanout)
        assert set(tracker.pending_items(fanout, limit=100_000)) == mine - acked - failed
        assert {one.id for one in tracker.failed_items(fanout, limit=100_000)} == mine & failed
