"""Adding: groups of up to 64 items, the same ones for the same `add_id`, and none after the seal."""

from typing import Any

import pytest

from batchline import ItemGroup, Tracker
from batchline.core.item_group import slot_and_salt
from batchline.core.moment import moment_of
from batchline.errors import FanoutExpired, FanoutSealed, InvalidCount, InvalidName, UnknownFanout
from tests.contract.tracking import new_id, opened
from tests.doubles import BEGIN_US, HandClock


@pytest.mark.parametrize(
    ("count", "uptos"),
    [(1, [1]), (63, [63]), (64, [64]), (65, [64, 1]), (128, [64, 64]), (200, [64, 64, 64, 8])],
)
def test_items_come_64_to_a_group(tracker: Tracker, count: int, uptos: list[int]) -> None:
    fanout, _ = opened(tracker)
    groups = tracker.add(fanout, count)
    assert [group.upto for group in groups] == uptos
    assert {group.fanout for group in groups} == {fanout}
    assert len({group.id for group in groups}) == len(groups)
    status = tracker.status(fanout)
    assert (status.total, status.pending, status.acked, status.failed) == (count, count, 0, 0)
    assert tracker.pending_items(fanout, limit=300) == [item for group in groups for item in group.items()]


def test_a_million_items_are_answered_as_groups(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    groups = tracker.add(fanout, 1_000_000)
    assert (len(groups), sum(group.upto for group in groups)) == (15_625, 1_000_000)
    assert tracker.status(fanout).pending == 1_000_000
    outcome = tracker.ack([(group, group.mask) for group in groups])
    assert (outcome.changed, outcome.repeated, outcome.errors) == (1_000_000, 0, ())
    assert tracker.seal(fanout).completed


def test_adds_of_one_fanout_add_up(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    groups = [group for count in (1, 64, 100) for group in tracker.add(fanout, count)]
    assert len({group.id for group in groups}) == 4
    assert tracker.status(fanout).total == 165


def test_an_add_id_used_before_adds_nothing_and_answers_the_same_groups(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    first = tracker.add(fanout, 100, add_id="page-1")
    assert tracker.add(fanout, 100, add_id="page-2") != first
    assert tracker.add(fanout, 100, add_id="page-1") == first
    assert tracker.status(fanout).total == 200


def test_an_add_id_is_repeated_safely_after_acks_the_seal_and_completion(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    groups = tracker.add(fanout, 70, add_id="page-1")
    tracker.ack([(groups[0], groups[0].mask)])
    assert tracker.add(fanout, 70, add_id="page-1") == groups
    tracker.seal(fanout)
    assert tracker.add(fanout, 70, add_id="page-1") == groups
    assert tracker.ack([(groups[1], groups[1].mask)]).completed == (fanout,)
    assert tracker.add(fanout, 70, add_id="page-1") == groups
    status = tracker.status(fanout)
    assert (status.total, status.pending, status.acked) == (70, 0, 70)


@pytest.mark.parametrize("state", ["open", "sealed"])
def test_an_add_id_with_another_count_is_refused(tracker: Tracker, state: str) -> None:
    fanout, _ = opened(tracker)
    tracker.add(fanout, 1000, add_id="page-1")
    if state == "sealed":
        tracker.seal(fanout)
    with pytest.raises(InvalidCount, match=f"the add 'page-1' of fanout '{fanout}' had 1,000 items, got 1,001"):
        tracker.add(fanout, 1001, add_id="page-1")
    assert tracker.status(fanout).total == 1000


def test_an_add_id_belongs_to_its_fanout(tracker: Tracker) -> None:
    one, _ = opened(tracker)
    other, _ = opened(tracker)
    first, second = tracker.add(one, 5, add_id="page-1"), tracker.add(other, 5, add_id="page-1")
    assert first[0].id != second[0].id
    assert (tracker.status(one).total, tracker.status(other).total) == (5, 5)


def test_an_add_without_an_id_adds_each_time(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    assert tracker.add(fanout, 5) != tracker.add(fanout, 5)
    assert tracker.status(fanout).total == 10


def test_nothing_can_be_added_after_the_seal(tracker: Tracker) -> None:
    fanout, _ = opened(tracker, 3)
    tracker.seal(fanout)
    with pytest.raises(FanoutSealed, match=f"'{fanout}' was sealed at 2027-01-15T08:00:00.123457.*no item can"):
        tracker.add(fanout, 1)
    with pytest.raises(FanoutSealed):
        tracker.add(fanout, 100_000, add_id="page-1")
    status = tracker.status(fanout)
    assert (status.total, status.pending) == (3, 3)
    assert len(tracker.pending_items(fanout)) == 3


def test_nothing_can_be_added_to_a_complete_fanout(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    tracker.seal(fanout)
    with pytest.raises(FanoutSealed):
        tracker.add(fanout, 1)
    assert tracker.status(fanout).state == "complete"


def test_a_failed_fanout_that_is_not_sealed_takes_items(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 1)
    tracker.fail(items, "broken")
    tracker.add(fanout, 2)
    status = tracker.status(fanout)
    assert (status.state, status.total, status.pending) == ("failed", 3, 2)


def test_items_can_be_added_after_all_before_are_done(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2)
    tracker.ack(items)
    (group,) = tracker.add(fanout, 2)
    assert not tracker.seal(fanout).completed
    assert tracker.ack(list(group.items())).completed == (fanout,)


def test_adding_to_what_is_not_there_is_refused(tracker: Tracker) -> None:
    fanout = new_id()
    with pytest.raises(UnknownFanout, match=f"no fanout '{fanout}' is open"):
        tracker.add(fanout, 1)


def test_adding_to_an_expired_fanout_is_refused_also_by_an_add_id_used_before(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    tracker.add(fanout, 1, add_id="page-1")
    tracker.expire(fanout)
    for add_id in ("page-1", "page-2", None):
        with pytest.raises(FanoutExpired, match=f"fanout '{fanout}' expired at 2027-01-15T08:00:00.123457"):
            tracker.add(fanout, 1, add_id=add_id)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "expected 1 to 10,000,000 items in one call, got 0"),
        (-5, "expected 1 to 10,000,000 items in one call, got -5"),
        (10_000_001, "expected 1 to 10,000,000 items in one call, got 10000001"),
        (10**5000, "expected 1 to 10,000,000 items in one call, got an int too long to show"),
        (True, r"expected a number of items, got True \(bool\)"),
        (1.0, r"expected a number of items, got 1.0 \(float\)"),
        ("5", r"expected a number of items, got '5' \(str\)"),
        (None, r"expected a number of items, got None \(NoneType\)"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_a_count_that_cannot_be_is_refused(tracker: Tracker, count: Any, said: str) -> None:
    fanout, _ = opened(tracker)
    with pytest.raises(InvalidCount, match=said):
        tracker.add(fanout, count, add_id="page-1")
    assert tracker.status(fanout).total == 0
    assert len(tracker.add(fanout, 1, add_id="page-1")) == 1


def test_a_fanout_is_named_by_its_id_and_not_by_its_status(tracker: Tracker) -> None:
    status: Any = tracker.open(new_id())
    with pytest.raises(InvalidName, match="the id of a fanout must be a text, got FanoutStatus"):
        tracker.add(status, 1)


def test_groups_of_two_fanouts_have_nothing_in_common(tracker: Tracker) -> None:
    one, other = opened(tracker)[0], opened(tracker)[0]
    salts = {salt_of(group) for fanout in (one, one, other) for group in tracker.add(fanout, 65)}
    assert len(salts) == 2


def test_adding_is_activity(tracker: Tracker, clock: HandClock) -> None:
    fanout, _ = opened(tracker)
    clock.us += 10
    tracker.add(fanout, 1)
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US + 10)
    assert tracker.status(fanout).opened_at == moment_of(BEGIN_US)


def salt_of(group: ItemGroup) -> int:
    read = slot_and_salt(group.id)
    assert read is not None
    return read[1]
