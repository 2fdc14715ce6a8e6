"""Which items are pending and which failed, in pages, in the order in which they were added."""

from typing import Any

import pytest

from batchline import Tracker
from batchline.errors import (
    BatchlineError,
    FanoutExpired,
    ForeignGroup,
    InvalidCount,
    MalformedItem,
    UnknownFanout,
    UnknownItem,
)
from tests.contract.tracking import new_id, opened


def filled(tracker: Tracker, *counts: int) -> tuple[str, list[str]]:
    """A fanout with several adds, between which others add to theirs."""
    fanout, items = tracker.open(new_id(), tolerate=None).id, []
    for count in counts:
        items += [item for group in tracker.add(fanout, count) for item in group.items()]
        opened(tracker, 3)
    return fanout, items


def pages(tracker: Tracker, fanout: str, limit: int) -> list[list[str]]:
    """All pages of pending items, the last of them empty."""
    found = [tracker.pending_items(fanout, limit=limit)]
    while found[-1]:
        found.append(tracker.pending_items(fanout, limit=limit, after=found[-1][-1]))
    return found


@pytest.mark.parametrize("limit", [1, 7, 63, 64, 65, 300])
def test_pages_of_pending_items_cover_groups_and_adds(tracker: Tracker, limit: int) -> None:
    fanout, items = filled(tracker, 3, 65, 1, 64)
    tracker.ack([*items[1:2], *items[40:70], *items[100::3]])
    acked = {1, *range(40, 70), *range(100, len(items), 3)}
    left = [item for index, item in enumerate(items) if index not in acked]
    found = pages(tracker, fanout, limit)
    assert [item for page in found for item in page] == left
    assert {len(page) for page in found[:-2]} <= {limit}


def test_a_page_has_100_items_unless_told_otherwise(tracker: Tracker) -> None:
    fanout, items = filled(tracker, 150)
    assert tracker.pending_items(fanout) == items[:100]
    assert tracker.pending_items(fanout, after=items[99]) == items[100:]
    tracker.fail(items, "broken")
    assert [one.id for one in tracker.failed_items(fanout)] == items[:100]


def test_a_cursor_need_not_be_pending_any_more(tracker: Tracker) -> None:
    fanout, items = filled(tracker, 70)
    tracker.ack(items[10:66])
    assert tracker.pending_items(fanout, after=items[9]) == items[66:]
    assert tracker.pending_items(fanout, after=items[30]) == items[66:]
    tracker.ack(items[66:])
    assert tracker.pending_items(fanout, after=items[68]) == []


def test_nothing_is_pending_or_failed_in_an_empty_fanout(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    assert (tracker.pending_items(fanout), tracker.failed_items(fanout)) == ([], [])


def test_the_highest_item_of_a_group_is_listed_and_is_a_cursor(tracker: Tracker) -> None:
    fanout, items = filled(tracker, 128)
    tracker.ack(items[:63])
    assert tracker.pending_items(fanout, limit=2) == items[63:65]
    assert tracker.pending_items(fanout, limit=2, after=items[63]) == items[64:66]
    tracker.fail(items[63:], "broken")
    assert [one.id for one in tracker.failed_items(fanout, limit=1, after=items[126])] == items[127:]
    assert tracker.failed_items(fanout, after=items[127]) == []


@pytest.mark.parametrize("limit", [1, 7, 64, 65, 300])
def test_pages_of_failed_items_have_each_its_own_reason(tracker: Tracker, limit: int) -> None:
    fanout, items = filled(tracker, 3, 65, 1, 64)
    # Every seventh in a call of its own, from the end; then the evens at once; the rest stays pending.
    reasons = {}
    for item in items[::-7]:
        tracker.fail([item], f"reason of {item[-2:]}")
        reasons[item] = f"reason of {item[-2:]}"
    tracker.fail(items[::2], "even")
    reasons = dict.fromkeys(items[::2], "even") | reasons
    found: list[tuple[str, str]] = []
    after = None
    while page := tracker.failed_items(fanout, limit=limit, after=after):
        found += [(one.id, one.reason) for one in page]
        after = page[-1].id
        assert len(page) <= limit
    assert found == [(item, reasons[item]) for item in items if item in reasons]


def test_a_group_whose_items_failed_one_by_one_is_listed_in_pages(tracker: Tracker) -> None:
    fanout, items = filled(tracker, 64 * 3)
    for index, item in enumerate(items):
        tracker.fail([item], str(index))
    first = tracker.failed_items(fanout, limit=1)
    assert [one.reason for one in first] == ["0"]
    rest = tracker.failed_items(fanout, limit=1, after=items[62])
    assert [one.reason for one in rest] == ["63"]
    whole = tracker.failed_items(fanout, limit=100, after=items[63])
    assert [one.reason for one in whole] == [str(index) for index in range(64, 164)]


LISTS = pytest.mark.parametrize("verb", ["pending_items", "failed_items"])


@LISTS
@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "5", None, 100_001])
def test_a_limit_that_cannot_be_is_refused(tracker: Tracker, verb: str, limit: Any) -> None:
    fanout, _ = opened(tracker, 1)
    with pytest.raises(InvalidCount, match="limit must be a whole number from 1 to 100,000, got"):
        getattr(tracker, verb)(fanout, limit=limit)


@LISTS
def test_lists_of_what_is_not_there_or_has_expired_are_refused(tracker: Tracker, verb: str) -> None:
    with pytest.raises(UnknownFanout):
        getattr(tracker, verb)(new_id())
    fanout, _ = opened(tracker, 1)
    tracker.expire(fanout)
    with pytest.raises(FanoutExpired):
        getattr(tracker, verb)(fanout)


@LISTS
@pytest.mark.parametrize(
    ("after", "error"), [("nonsense", MalformedItem), ("", MalformedItem), (5, MalformedItem), ("a:b:64", UnknownItem)]
)
def test_a_cursor_that_is_no_item_is_refused(
    tracker: Tracker, verb: str, after: Any, error: type[BatchlineError]
) -> None:
    fanout, _ = opened(tracker, 1)
    with pytest.raises(error):
        getattr(tracker, verb)(fanout, after=after)


@LISTS
def test_a_cursor_of_another_fanout_is_refused(tracker: Tracker, verb: str) -> None:
    fanout, _ = opened(tracker, 1)
    _, others = opened(tracker, 1)
    with pytest.raises(ForeignGroup, match=f"expected an item of fanout '{fanout}', got '{others[0]}'"):
        getattr(tracker, verb)(fanout, after=others[0])
