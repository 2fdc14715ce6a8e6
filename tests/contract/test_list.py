"""Lists of fanouts: by state, labels, age and parent, oldest first, in pages."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import FanoutStatus, Tracker
from batchline.errors import InvalidCount, InvalidInput, InvalidName, UnknownFanout
from tests.contract.tracking import new_id, opened, pass_time
from tests.doubles import HandClock


def listed(tracker: Tracker, **conditions: Any) -> list[str]:
    """The ids of all pages."""
    found: list[FanoutStatus] = []
    after = None
    while True:
        page = tracker.list(**conditions, after=after)
        assert len(page.fanouts) <= conditions.get("limit", 100)
        found += page.fanouts
        after = page.next
        if after is None:
            return [status.id for status in found]


def test_an_empty_store_lists_nothing(fresh_tracker: Tracker) -> None:
    page = fresh_tracker.list()
    assert (page.fanouts, page.next) == ((), None)


def test_all_fanouts_are_listed_oldest_first_in_pages(fresh_tracker: Tracker, clock: HandClock) -> None:
    fanouts = []
    for _ in range(7):
        clock.us -= 5  # a clock that runs back changes no order
        fanouts.append(opened(fresh_tracker)[0])
    assert [listed(fresh_tracker, limit=limit) for limit in (1, 2, 3, 6, 7, 8)] == [fanouts] * 6
    page = fresh_tracker.list(limit=7)
    assert (len(page.fanouts), page.next) == (7, None)
    assert fresh_tracker.list(limit=3).next is not None


def test_what_is_listed_is_the_status(fresh_tracker: Tracker) -> None:
    parent, _ = opened(fresh_tracker, 3, labels={"a": "1"})
    child, items = opened(fresh_tracker, 70, labels={"b": "2", "c": "3"}, parent=parent, tolerate=None)
    fresh_tracker.ack(items[:5])
    fresh_tracker.fail(items[5:7], "broken")
    fresh_tracker.seal(child)
    assert fresh_tracker.list().fanouts == (fresh_tracker.status(parent), fresh_tracker.status(child))
    assert fresh_tracker.list(labels={"b": "2"}).fanouts == (fresh_tracker.status(child),)


def test_each_state_is_listed_apart(fresh_tracker: Tracker) -> None:
    tracker = fresh_tracker
    open_one, _ = opened(tracker, 1)
    sealed, _ = opened(tracker, 1)
    complete, _ = opened(tracker)
    failed, items = opened(tracker, 1)
    failed_and_sealed, others = opened(tracker, 1)
    expired, _ = opened(tracker, 1)
    for fanout in (sealed, complete, failed_and_sealed):
        tracker.seal(fanout)
    tracker.fail([*items, *others], "broken")
    tracker.expire(expired)
    assert listed(tracker, state="open") == [open_one]
    assert listed(tracker, state="sealed") == [sealed]
    assert listed(tracker, state="complete") == [complete]
    assert listed(tracker, state="failed", limit=1) == [failed, failed_and_sealed]
    assert listed(tracker, state="expired") == [expired]


def test_labels_are_matched_all_of_them(fresh_tracker: Tracker) -> None:
    tracker = fresh_tracker
    one, _ = opened(tracker, labels={"job": "import", "day": "1"})
    two, _ = opened(tracker, labels={"job": "import", "day": "2"})
    three, _ = opened(tracker, labels={"job": "export", "day": "1", "retry": "yes"})
    opened(tracker)
    assert listed(tracker, labels={"job": "import"}, limit=1) == [one, two]
    assert listed(tracker, labels={"day": "1"}) == [one, three]
    assert listed(tracker, labels={"day": "1", "job": "import"}) == [one]
    assert listed(tracker, labels={"day": "1", "job": "export", "retry": "yes"}) == [three]
    assert listed(tracker, labels={"day": "1", "job": "export", "retry": "no"}) == []
    assert listed(tracker, labels={"job": "1"}) == listed(tracker, labels={"import": "job"}) == []


@pytest.mark.parametrize("others", [{}, {"z": "é "}, {"z": "é ", "y": "💥:'\"\\%"}])
def test_labels_are_matched_to_the_character(fresh_tracker: Tracker, others: dict[str, str]) -> None:
    values = ["a", "A", "a ", " a", "á", "a\u0301", "á ", "😀", "%", "_", "\\", "'", '"', "x" * 255, "😀" * 255]
    fanouts = {value: opened(fresh_tracker, labels={"name": value, **others})[0] for value in values}
    for value, fanout in fanouts.items():
        assert listed(fresh_tracker, labels={"name": value, **others}) == [fanout]
        assert listed(fresh_tracker, labels={**others, "name": value}) == [fanout]


def test_age_is_counted_from_the_opening_and_the_moment_itself_is_not_older(
    fresh_tracker: Tracker, clock: HandClock
) -> None:
    tracker, hour = fresh_tracker, timedelta(hours=1)
    first, items = opened(tracker, 2)
    pass_time(clock, hour)
    second, _ = opened(tracker)
    pass_time(clock, hour)
    tracker.ack(items)
    assert listed(tracker, older_than=hour) == [first]
    assert listed(tracker, older_than=timedelta(0)) == [first, second]
    assert listed(tracker, older_than=2 * hour) == []
    assert listed(tracker, older_than=2 * hour - timedelta(microseconds=1)) == [first]
    assert listed(tracker, older_than=timedelta.max) == []


def test_children_are_listed_by_their_parent(fresh_tracker: Tracker) -> None:
    tracker = fresh_tracker
    parent, _ = opened(tracker)
    children = [opened(tracker, parent=parent)[0] for _ in range(3)]
    grandchild, _ = opened(tracker, parent=children[0])
    assert listed(tracker, parent=parent, limit=2) == children
    assert listed(tracker, parent=children[0]) == [grandchild]
    assert listed(tracker, parent=grandchild) == []
    with pytest.raises(UnknownFanout):
        tracker.list(parent=new_id())


def test_conditions_are_met_together(fresh_tracker: Tracker, clock: HandClock) -> None:
    tracker = fresh_tracker
    parent, _ = opened(tracker)
    labels = {"job": "import", "day": "1"}
    fanouts = []
    for index in range(12):
        fanout, _ = opened(
            tracker,
            1,
            labels=labels if index % 2 else {"job": "import"},
            parent=parent if index % 3 else None,
        )
        if index % 5:
            tracker.seal(fanout)
        fanouts.append(fanout)
        pass_time(clock, timedelta(minutes=1))
    wanted = [fanouts[index] for index in range(12) if index % 2 and index % 3 and index % 5 and index < 10]
    assert wanted
    conditions: dict[str, Any] = {
        "state": "sealed",
        "labels": labels,
        "parent": parent,
        "older_than": timedelta(minutes=2),
    }
    assert listed(tracker, **conditions) == listed(tracker, **conditions, limit=1) == wanted


@pytest.mark.parametrize(
    ("conditions", "error", "said"),
    [
        ({"state": "done"}, InvalidInput, "state must be one of 'open', 'sealed', .*, got 'done'"),
        ({"state": "seald"}, InvalidInput, "did you mean 'sealed'"),
        ({"labels": {"job": ""}}, InvalidName, "the value of the label 'job' must have 1 to 255 characters"),
        ({"labels": "job"}, InvalidName, "labels must map names to values, got 'job'"),
        ({"limit": 0}, InvalidCount, "limit must be a whole number from 1 to 100,000, got 0"),
        ({"parent": "\0"}, InvalidName, "the id of a parent must have no control characters"),
        ({"parent": 5}, InvalidName, r"the id of a parent must be a text, got 5 \(int\)"),
        ({"older_than": 5}, InvalidInput, r"older_than must be a timedelta, got 5 \(int\)"),
        ({"after": "x"}, InvalidInput, "after must be the next of the page before, got 'x'"),
        ({"after": -1}, InvalidInput, "after must be the next of the page before, got -1"),
        ({"after": True}, InvalidInput, "after must be the next of the page before, got True"),
        ({"after": 2**63}, InvalidInput, "after must be the next of the page before, got 9223372036854775808"),
    ],
)
def test_conditions_that_cannot_be_are_refused(
    tracker: Tracker, conditions: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        tracker.list(**conditions)
