"""Sealing: no more items, and the sealer is told if that made it complete."""

from dataclasses import replace

import pytest

from batchline import Tracker
from batchline.core.moment import moment_of
from batchline.errors import FanoutExpired, InvalidName, UnknownFanout
from tests.contract.tracking import new_id, opened
from tests.doubles import BEGIN_US, HandClock


def test_sealing_a_fanout_with_pending_items_completes_nothing(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker, 3)
    clock.us += 7
    outcome = tracker.seal(fanout)
    assert (outcome.fanout, outcome.completed) == (fanout, False)
    assert (outcome.parents_completed, outcome.parents_failed) == ((), ())
    status = tracker.status(fanout)
    assert (status.state, status.sealed, status.completed, status.pending) == ("sealed", True, False, 3)
    assert status.sealed_at == status.last_activity_at == moment_of(BEGIN_US + 7)


def test_sealing_a_fanout_whose_items_are_done_completes_it(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 3)
    assert tracker.ack(items).completed == ()
    assert tracker.status(fanout).state == "open"
    clock.us += 7
    assert tracker.seal(fanout).completed
    status = tracker.status(fanout)
    assert (status.state, status.completed_at, status.acked) == ("complete", moment_of(BEGIN_US + 7), 3)


def test_sealing_a_fanout_without_items_completes_it(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    assert tracker.seal(fanout).completed
    assert (tracker.status(fanout).state, tracker.status(fanout).total) == ("complete", 0)


def test_only_the_first_seal_is_told(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker)
    assert tracker.seal(fanout).completed
    before = tracker.status(fanout)
    clock.us += 7
    assert not tracker.seal(fanout).completed
    assert tracker.status(fanout) == replace(before, last_activity_at=moment_of(clock.us))


def test_a_seal_after_the_ack_that_completed_is_told_nothing(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 1)
    assert not tracker.seal(fanout).completed
    assert tracker.ack(items).completed == (fanout,)
    assert not tracker.seal(fanout).completed


def test_sealing_a_failed_fanout_does_not_complete_it(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 1)
    assert tracker.fail(items, "broken").failed == (fanout,)
    outcome = tracker.seal(fanout)
    assert (outcome.completed, outcome.parents_failed) == (False, ())
    status = tracker.status(fanout)
    assert (status.state, status.sealed, status.completed_at) == ("failed", True, None)


def test_sealing_what_is_not_there_is_refused(tracker: Tracker) -> None:
    fanout = new_id()
    with pytest.raises(UnknownFanout, match=f"no fanout '{fanout}' is open"):
        tracker.seal(fanout)
    with pytest.raises(InvalidName):
        tracker.seal("")


@pytest.mark.parametrize("sealed", [False, True])
def test_sealing_an_expired_fanout_is_refused(tracker: Tracker, sealed: bool) -> None:
    fanout, _ = opened(tracker, 1)
    if sealed:
        tracker.seal(fanout)
    tracker.expire(fanout)
    with pytest.raises(FanoutExpired):
        tracker.seal(fanout)
