"""Opening: what a new fanout is, what opening it again answers, and what is refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from batchline import ExpiryRules, Tracker
from batchline.core.moment import moment_of
from batchline.errors import FanoutExists, FanoutExpired, FanoutSealed, InvalidCount, InvalidName, UnknownFanout
from tests.contract.tracking import new_id, opened
from tests.doubles import BEGIN_US, HandClock


def test_a_new_fanout_is_open_and_empty(tracker: Tracker) -> None:
    fanout = new_id()
    status = tracker.open(fanout)
    assert (status.id, status.state, status.parent, status.labels) == (fanout, "open", None, {})
    assert (status.total, status.pending, status.acked, status.failed, status.tolerate) == (0, 0, 0, 0, 0)
    assert status.opened_at == status.last_activity_at == moment_of(BEGIN_US)
    assert (status.sealed_at, status.completed_at, status.failed_at, status.expired_at) == (None, None, None, None)
    assert (status.sealed, status.completed) == (False, False)
    assert tracker.status(fanout) == status


def test_a_fanout_without_an_id_gets_one_of_its_own(tracker: Tracker) -> None:
    assert tracker.open().id != tracker.open().id


def test_a_fanout_keeps_its_labels_and_how_many_failures_it_tolerates(tracker: Tracker) -> None:
    labels = {"job": "import", "day": "2026-11-15", "empty?": "no"}
    fanout = tracker.open(new_id(), labels=labels, tolerate=3).id
    assert (tracker.status(fanout).labels, tracker.status(fanout).tolerate) == (labels, 3)
    assert tracker.open(new_id(), tolerate=None).tolerate is None
    assert tracker.open(new_id(), tolerate=2**63 - 1).tolerate == 2**63 - 1


def test_opening_again_in_the_same_way_is_activity_and_changes_nothing_else(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    how: dict[str, Any] = {"labels": {"b": "2", "a": "1"}, "tolerate": 5, "parent": parent}
    fanout, items = opened(tracker, 3, **how)
    tracker.ack(items[:1])
    before = tracker.status(fanout)
    clock.us += 1000
    now = moment_of(clock.us)
    assert tracker.open(fanout, **how) == replace(before, last_activity_at=now) == tracker.status(fanout)
    assert (tracker.status(parent).total, tracker.status(parent).last_activity_at) == (1, now)


def test_opening_again_succeeds_after_the_seal_and_after_completion(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 1)
    tracker.seal(fanout)
    assert tracker.open(fanout).state == "sealed"
    tracker.ack(items)
    assert tracker.open(fanout).state == "complete"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"labels": {"job": "import"}}, r"labels \(None, 0, \{\}\), got \(None, 0, \{'job': 'import'\}\)"),
        ({"tolerate": 1}, r"\(None, 0, \{\}\), got \(None, 1, \{\}\)"),
        ({"tolerate": None}, r"got \(None, None, \{\}\)"),
        ({"expiry": ExpiryRules(sealed=timedelta(days=3))}, "other expiry rules"),
    ],
)
def test_opening_again_in_another_way_is_refused(tracker: Tracker, other: dict[str, Any], said: str) -> None:
    fanout, _ = opened(tracker)
    before = tracker.status(fanout)
    with pytest.raises(FanoutExists, match=f"fanout '{fanout}' is there with .*{said}"):
        tracker.open(fanout, **other)
    assert tracker.status(fanout) == before


def test_opening_again_with_another_parent_is_refused(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    fanout, _ = opened(tracker)
    with pytest.raises(FanoutExists):
        tracker.open(fanout, parent=parent)
    assert tracker.status(parent).total == 0


def test_a_parent_that_is_not_there_is_refused_and_nothing_is_opened(tracker: Tracker) -> None:
    fanout, parent = new_id(), new_id()
    with pytest.raises(UnknownFanout, match=f"no fanout '{parent}' is open"):
        tracker.open(fanout, parent=parent)
    with pytest.raises(UnknownFanout, match=f"no fanout '{fanout}' is open"):
        tracker.status(fanout)


def test_no_fanout_is_its_own_parent(tracker: Tracker) -> None:
    fanout = new_id()
    with pytest.raises(UnknownFanout):
        tracker.open(fanout, parent=fanout)
    tracker.open(fanout)
    with pytest.raises(FanoutExists):
        tracker.open(fanout, parent=fanout)


def test_a_sealed_parent_takes_no_child_and_nothing_is_opened(tracker: Tracker) -> None:
    parent, _ = opened(tracker, 1)
    tracker.seal(parent)
    child = new_id()
    with pytest.raises(FanoutSealed, match=f"fanout '{parent}' was sealed at 2027-01-15T08:00:00.123457"):
        tracker.open(child, parent=parent)
    with pytest.raises(UnknownFanout):
        tracker.status(child)
    assert tracker.status(parent).total == 1
    assert tracker.open(child).parent is None


def test_an_expired_parent_takes_no_child(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    tracker.expire(parent)
    child = new_id()
    with pytest.raises(FanoutExpired):
        tracker.open(child, parent=parent)
    with pytest.raises(UnknownFanout):
        tracker.status(child)


@pytest.mark.parametrize("tolerate", [-1, True, 1.0, "1", 2**63])
def test_a_number_of_failures_that_cannot_be_is_refused(tracker: Tracker, tolerate: Any) -> None:
    fanout = new_id()
    with pytest.raises(InvalidCount, match="tolerate must be a whole number from 0 on, or None for any number, got"):
        tracker.open(fanout, tolerate=tolerate)
    with pytest.raises(UnknownFanout):
        tracker.status(fanout)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["job"], r"labels must map names to values, got \['job'\]"),
        ({"": "x"}, r"the name of a label must have 1 to 255 characters, got 0: ''"),
        ({"job": ""}, r"the value of the label 'job' must have 1 to 255 characters, got 0: ''"),
        ({"job": 5}, r"the value of the label 'job' must be a text, got 5 \(int\)"),
        ({5: "job"}, r"the name of a label must be a text, got 5 \(int\)"),
        ({"job": "a\0"}, r"must have no control characters, got '\\x00' at 1 of 'a\\x00'"),
    ],
)
def test_labels_that_cannot_be_kept_are_refused(tracker: Tracker, labels: Any, said: str) -> None:
    with pytest.raises(InvalidName, match=said):
        tracker.open(new_id(), labels=labels)
