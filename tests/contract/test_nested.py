"""Nested: a child counts as one item of its parent, done when it is complete."""

import pytest

from batchline import Tracker
from batchline.core.item_group import slot_and_salt
from batchline.errors import ChildItem, FanoutExpired
from tests.contract.tracking import Finishing, errors_of, new_id, opened
from tests.doubles import HandClock


def test_a_child_counts_as_one_item_of_its_parent(tracker: Tracker) -> None:
    parent, _ = opened(tracker, 2)
    child, _ = opened(tracker, 5, parent=parent)
    assert tracker.status(child).parent == parent
    assert (tracker.status(parent).total, tracker.status(parent).pending) == (3, 3)
    assert len(tracker.pending_items(parent)) == 3


def test_opening_a_child_twice_adds_one_item(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, parent=parent)
    assert tracker.open(child, parent=parent).parent == parent
    tracker.seal(parent)
    assert tracker.open(child, parent=parent).parent == parent
    assert tracker.status(parent).total == 1


def test_opening_a_child_is_activity_of_its_parent(tracker: Tracker, clock: HandClock) -> None:
    parent, _ = opened(tracker)
    clock.us += 5
    child = tracker.open(parent=parent)
    assert tracker.status(parent).last_activity_at == child.opened_at


def test_the_ack_that_completes_a_child_completes_its_parent(finishing: Finishing, tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, items = opened(tracker, 2, parent=parent)
    tracker.seal(parent)
    tracker.seal(child)
    assert finishing.ack(items[:1]).completed == ()
    outcome = finishing.ack(items[1:])
    assert (sorted(outcome.completed), outcome.failed) == (sorted([child, parent]), ())
    assert (tracker.status(parent).state, tracker.status(parent).acked) == ("complete", 1)
    assert finishing.ack(items).completed == ()


def test_the_seal_that_completes_a_child_completes_its_parent(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, parent=parent)
    assert not tracker.seal(parent).completed
    outcome = tracker.seal(child)
    assert (outcome.completed, outcome.parents_completed, outcome.parents_failed) == (True, (parent,), ())
    assert tracker.seal(child).parents_completed == ()


def test_a_parent_waits_for_its_seal_its_items_and_all_its_children(finishing: Finishing, tracker: Tracker) -> None:
    parent, own = opened(tracker, 1)
    children = [opened(tracker, 1, parent=parent) for _ in range(20)]
    for child, items in children:
        tracker.seal(child)
        assert finishing.ack(items).completed == (child,)
    assert tracker.status(parent).pending == 1
    assert finishing.ack(own).completed == ()
    assert tracker.seal(parent).completed


def test_one_call_completes_several_children_and_their_parent_once(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    children = [opened(tracker, 3, parent=parent) for _ in range(3)]
    for fanout in (parent, *(child for child, _ in children)):
        tracker.seal(fanout)
    outcome = tracker.ack([item for _, items in children for item in items])
    assert sorted(outcome.completed) == sorted([parent, *(child for child, _ in children)])


def test_a_child_and_its_parents_own_items_are_done_in_one_call(tracker: Tracker) -> None:
    parent, own = opened(tracker, 70)
    child, items = opened(tracker, 70, parent=parent)
    tracker.seal(parent)
    tracker.seal(child)
    assert set(tracker.ack([*own, *items]).completed) == {parent, child}
    status = tracker.status(parent)
    assert (status.total, status.pending, status.acked) == (71, 0, 71)


def test_a_child_that_fails_fails_the_item_of_its_parent(finishing: Finishing, tracker: Tracker) -> None:
    parent, own = opened(tracker, 1)
    child, items = opened(tracker, 2, parent=parent)
    outcome = finishing.fail(items[:1])
    assert (outcome.completed, sorted(outcome.failed)) == ((), sorted([child, parent]))
    (failed,) = tracker.failed_items(parent)
    assert failed.reason == f"child '{child}' failed"
    assert failed.id not in own
    status = tracker.status(parent)
    assert (status.state, status.pending, status.failed) == ("failed", 1, 1)


def test_a_tolerant_parent_survives_its_childs_failure(finishing: Finishing, tracker: Tracker) -> None:
    parent, _ = opened(tracker, tolerate=1)
    child, items = opened(tracker, 2, parent=parent)
    tracker.seal(parent)
    outcome = finishing.fail(items[:1])
    assert (outcome.completed, outcome.failed) == ((parent,), (child,))
    # What the child does afterwards is its own affair.
    assert finishing.ack(items[1:]).completed == ()
    assert not tracker.seal(child).completed
    assert tracker.status(parent).total == 1


def test_an_expired_child_fails_the_item_of_its_parent(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, 2, parent=parent)
    outcome = tracker.expire(child)
    assert (outcome.expired, outcome.failed, outcome.completed) == ([child], [parent], [])
    assert [one.reason for one in tracker.failed_items(parent)] == [f"child '{child}' expired"]
    tolerant, _ = opened(tracker, tolerate=None)
    other, _ = opened(tracker, 2, parent=tolerant)
    tracker.seal(tolerant)
    outcome = tracker.expire(other)
    assert (outcome.expired, outcome.failed, outcome.completed) == ([other], [], [tolerant])


def test_a_child_that_expires_after_its_end_changes_nothing_for_its_parent(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, parent=parent)
    tracker.seal(child)
    outcome = tracker.expire(child)
    assert (outcome.expired, outcome.failed, outcome.completed) == ([child], [], [])
    status = tracker.status(parent)
    assert (status.state, status.acked, status.failed) == ("open", 1, 0)


def test_a_child_outlives_an_expired_parent(finishing: Finishing, tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, items = opened(tracker, 2, parent=parent)
    tracker.expire(parent)
    tracker.seal(child)
    assert finishing.ack(items).completed == (child,)
    assert tracker.status(parent).state == "expired"


def test_completion_climbs_three_levels(finishing: Finishing, tracker: Tracker) -> None:
    top, _ = opened(tracker)
    middle, _ = opened(tracker, parent=top)
    bottom, items = opened(tracker, 1, parent=middle)
    for fanout in (top, middle, bottom):
        assert not tracker.seal(fanout).completed
    assert sorted(finishing.ack(items).completed) == sorted([bottom, middle, top])


def test_a_seal_climbs_three_levels(tracker: Tracker) -> None:
    top, _ = opened(tracker)
    middle, _ = opened(tracker, parent=top)
    bottom, _ = opened(tracker, parent=middle)
    for fanout in (top, middle):
        tracker.seal(fanout)
    outcome = tracker.seal(bottom)
    assert (outcome.completed, sorted(outcome.parents_completed)) == (True, sorted([middle, top]))


def test_failure_climbs_three_levels(finishing: Finishing, tracker: Tracker) -> None:
    top, _ = opened(tracker, tolerate=None)
    middle, _ = opened(tracker, parent=top)
    bottom, items = opened(tracker, 1, parent=middle)
    tracker.seal(top)
    outcome = finishing.fail(items)
    assert (sorted(outcome.failed), outcome.completed) == (sorted([bottom, middle]), (top,))


def test_expiry_climbs_three_levels(tracker: Tracker) -> None:
    top, _ = opened(tracker)
    middle, _ = opened(tracker, parent=top)
    bottom, _ = opened(tracker, parent=middle)
    outcome = tracker.expire(bottom)
    assert (outcome.expired, sorted(outcome.failed)) == ([bottom], sorted([middle, top]))
    assert [one.reason for one in tracker.failed_items(top)] == [f"child '{middle}' failed"]


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_the_item_that_stands_for_a_child_is_not_for_users(finishing: Finishing, tracker: Tracker, verb: str) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, 1, parent=parent)
    (item,) = tracker.pending_items(parent)
    group = item.rpartition(":")[0]
    for named in (item, (group, 1), (group.rpartition(":")[2], 1)):
        outcome = getattr(finishing, verb)([named])
        assert (outcome.changed, errors_of(outcome)) == (0, [(named, ChildItem)])
        assert "stands for a child, and is done when that is complete" in str(outcome.errors[0].error)
    assert tracker.status(parent).pending == 1
    assert tracker.status(child).state == "open"


def test_an_add_id_that_looks_like_a_childs_is_an_add_of_its_own(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    before, after = new_id(), new_id()
    (first,) = tracker.add(parent, 1, add_id=f"child {before}")
    for child in (before, after):
        tracker.open(child, parent=parent)
    (second,) = tracker.add(parent, 1, add_id=f"child {after}")
    assert tracker.status(parent).total == 4
    outcome = tracker.ack([*first.items(), *second.items()])
    assert (outcome.changed, outcome.errors) == (2, ())
    assert tracker.status(parent).pending == 2
    for child in (before, after):
        tracker.seal(child)
    assert tracker.seal(parent).completed


def test_children_of_strange_names_count(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    for name in ("😀" * 255, "שלום: 'a' ", "a" * 255):
        child = f"{new_id()}{name}"[-255:]
        tracker.open(child, parent=parent)
        assert tracker.seal(child).completed
    assert (tracker.status(parent).total, tracker.status(parent).acked) == (3, 3)


def test_a_child_whose_id_is_free_again_counts_again(fresh_tracker: Tracker, clock: HandClock) -> None:
    tracker = fresh_tracker
    parent, _ = opened(tracker, tolerate=None)
    child = new_id()
    tracker.open(child, parent=parent)
    tracker.expire(child)
    day_us = 86_400_000_000
    for _ in range(40):  # the tombstone goes, and the parent is kept alive
        clock.us += day_us
        tracker.add(parent, 1)
        tracker.expire_due()
    total = tracker.status(parent).total
    tracker.open(child, parent=parent)
    assert tracker.status(parent).total == total + 1
    assert [slot_and_salt(item.split(":")[1]) is not None for item in tracker.pending_items(parent, limit=1)] == [True]
    pending = tracker.status(parent).pending
    tracker.seal(child)
    assert tracker.status(parent).pending == pending - 1


def test_adding_to_a_child_of_an_expired_parent_goes_on(tracker: Tracker) -> None:
    parent, _ = opened(tracker)
    child, _ = opened(tracker, parent=parent)
    tracker.expire(parent)
    tracker.add(child, 1)
    with pytest.raises(FanoutExpired):
        tracker.add(parent, 1)
