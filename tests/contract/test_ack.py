"""Acknowledging: exact, told once, in any order and any number of times, alone in a call or among others."""

import pytest

from batchline import ItemGroup, Tracker
from batchline.core.moment import moment_of
from batchline.errors import InvalidInput, MalformedItem, UnknownItem
from tests.contract.tracking import Finishing, errors_of, new_id, opened
from tests.doubles import BEGIN_US, HandClock


def one_group(tracker: Tracker, count: int) -> tuple[str, ItemGroup, list[str]]:
    """A new fanout with one group, and the ids of its items."""
    fanout = tracker.open(new_id()).id
    (group,) = tracker.add(fanout, count)
    return fanout, group, list(group.items())


def test_an_item_is_acknowledged_once(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _, items = one_group(tracker, 3)
    first = finishing.ack(items[:1])
    assert (first.changed, first.repeated, first.completed, first.failed, first.errors) == (1, 0, (), (), ())
    again = finishing.ack(items[:1])
    assert (again.changed, again.repeated, again.completed, again.errors) == (0, 1, (), ())
    status = tracker.status(fanout)
    assert (status.total, status.pending, status.acked, status.failed) == (3, 2, 1, 0)
    assert tracker.pending_items(fanout) == items[1:]


def test_several_items_of_a_group_are_acknowledged_at_once(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _, items = one_group(tracker, 10)
    assert finishing.ack([items[9], items[0], items[4]]).changed == 3
    assert tracker.pending_items(fanout) == [items[index] for index in (1, 2, 3, 5, 6, 7, 8)]


def test_what_was_done_before_is_told_apart_from_what_changed(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _, items = one_group(tracker, 10)
    finishing.ack(items[2:5])
    outcome = finishing.ack(items[:6])
    assert (outcome.changed, outcome.repeated, outcome.errors) == (3, 3, ())
    assert tracker.pending_items(fanout) == items[6:]


def test_an_item_named_twice_counts_once(finishing: Finishing, tracker: Tracker) -> None:
    fanout, group, items = one_group(tracker, 10)
    outcome = finishing.ack([items[0], items[1], items[0], items[0]])
    assert (outcome.changed, outcome.repeated) == (2, 2)
    both = finishing.ack([items[5], (group, 0b111), (group.id, 0b1100), items[5]])
    assert (both.changed, both.repeated) == (3, 4)
    assert tracker.status(fanout).pending == 5


@pytest.mark.parametrize("given", ["group", "uuid", "fanout and uuid", "list"])
def test_a_mask_names_the_items_of_a_group(finishing: Finishing, tracker: Tracker, given: str) -> None:
    fanout, group, items = one_group(tracker, 5)
    named = {
        "group": (group, 0b10110),
        "uuid": (group.id, 0b10110),
        "fanout and uuid": (f"{fanout}:{group.id}", 0b10110),
        "list": [group.id, 0b10110],
    }[given]
    assert finishing.ack([named]).changed == 3
    assert tracker.pending_items(fanout) == [items[0], items[3]]
    tracker.seal(fanout)
    assert finishing.ack([(group, group.mask)]).completed == (fanout,)


def test_the_last_ack_completes_a_sealed_fanout_and_only_it_is_told(
    finishing: Finishing, tracker: Tracker, clock: HandClock
) -> None:
    fanout, _, items = one_group(tracker, 3)
    tracker.seal(fanout)
    clock.us += 7
    assert [finishing.ack([item]).completed for item in items] == [(), (), (fanout,)]
    clock.us += 7
    assert finishing.ack(items[2:]).completed == ()
    assert not tracker.seal(fanout).completed
    status = tracker.status(fanout)
    assert (status.state, status.completed, status.pending, status.acked) == ("complete", True, 0, 3)
    assert (status.completed_at, status.last_activity_at) == (moment_of(BEGIN_US + 7), moment_of(BEGIN_US + 14))


def test_the_last_ack_before_the_seal_completes_nothing(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _, items = one_group(tracker, 3)
    assert finishing.ack(items).completed == ()
    assert tracker.status(fanout).state == "open"
    assert tracker.seal(fanout).completed


def test_a_fanout_is_complete_when_the_last_of_its_groups_is(finishing: Finishing, tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    groups = [group for count in (1, 64, 2000, 65) for group in tracker.add(fanout, count)]
    tracker.seal(fanout)
    told = [finishing.ack([(group, group.mask)]).completed for group in reversed(groups)]
    assert told == [()] * (len(groups) - 1) + [(fanout,)]


def test_groups_of_one_counter_are_all_waited_for(finishing: Finishing, tracker: Tracker) -> None:
    # Far more groups than counters: each counter has several.
    fanout, _ = opened(tracker)
    groups = tracker.add(fanout, 64 * 40)
    tracker.seal(fanout)
    for left, group in zip(range(len(groups) - 1, -1, -1), groups, strict=True):
        assert finishing.ack([(group, group.mask)]).completed == ((fanout,) if left == 0 else ())
        assert tracker.status(fanout).pending == 64 * left


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 63, 64])
def test_every_bit_of_a_group_counts_for_itself(finishing: Finishing, tracker: Tracker, count: int) -> None:
    fanout, _, items = one_group(tracker, count)
    tracker.seal(fanout)
    assert finishing.ack(items[-1:]).completed == ((fanout,) if count == 1 else ())
    assert tracker.pending_items(fanout) == items[:-1]
    if count > 1:
        assert finishing.ack(items[:1]).changed == 1
        assert tracker.pending_items(fanout) == items[1:-1]
        assert finishing.ack(items).changed == count - 2
    assert tracker.status(fanout).pending == 0


def test_the_highest_bit_alone_is_acknowledged_as_a_mask(finishing: Finishing, tracker: Tracker) -> None:
    fanout, group, items = one_group(tracker, 64)
    tracker.seal(fanout)
    assert finishing.ack([(group, 1 << 63)]).changed == 1
    assert tracker.pending_items(fanout) == items[:-1]
    assert finishing.ack([(group, 1 << 63)]).repeated == 1
    assert finishing.ack([(group, (1 << 63) - 1)]).completed == (fanout,)


def test_the_highest_bit_alone_stays_pending(finishing: Finishing, tracker: Tracker) -> None:
    fanout, group, items = one_group(tracker, 64)
    tracker.seal(fanout)
    assert finishing.ack([(group, (1 << 63) - 1)]).changed == 63
    assert tracker.pending_items(fanout) == items[63:]
    assert tracker.status(fanout).pending == 1
    assert finishing.ack(items[63:]).completed == (fanout,)


def test_acknowledging_is_activity(finishing: Finishing, tracker: Tracker, clock: HandClock) -> None:
    fanout, _, items = one_group(tracker, 3)
    clock.us += 11
    finishing.ack(items[:1])
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US + 11)
    clock.us -= 5
    finishing.ack(items[1:2])
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US + 11)


def test_one_call_acknowledges_items_of_many_fanouts(tracker: Tracker) -> None:
    fanouts = [opened(tracker, 70) for _ in range(5)]
    for fanout, _ in fanouts[:3]:
        tracker.seal(fanout)
    outcome = tracker.ack([item for _, items in fanouts for item in items[::-1]])
    assert (outcome.changed, outcome.repeated, outcome.errors) == (350, 0, ())
    assert sorted(outcome.completed) == sorted(fanout for fanout, _ in fanouts[:3])
    assert [tracker.seal(fanout).completed for fanout, _ in fanouts] == [False, False, False, True, True]


def test_a_call_of_more_groups_than_a_transaction_takes_on_is_one_call(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchline.runtime.item_finisher.GROUPS_AT_ONCE", 2)
    one, its = opened(tracker, 64 * 5)
    other, others = opened(tracker, 3)
    tracker.seal(one)
    tracker.seal(other)
    outcome = tracker.ack([*its, *others, its[0], "nonsense"], call_id=new_id())
    assert (outcome.changed, outcome.repeated, len(outcome.errors)) == (323, 1, 1)
    assert set(outcome.completed) == {one, other}


def test_a_mapping_of_groups_to_masks_names_their_items(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 70)
    first, last = items[0].rpartition(":")[0], items[-1].rpartition(":")[0]
    tracker.seal(fanout)
    outcome = tracker.ack({first: (1 << 64) - 1, last: 0b1000001})
    assert (outcome.changed, errors_of(outcome)) == (65, [(f"{last}:6", UnknownItem)])
    outcome = tracker.ack({last: 0b111111, "nonsense": 1, first: 0})
    assert (outcome.changed, outcome.repeated, outcome.completed) == (5, 1, (fanout,))
    assert errors_of(outcome) == [("nonsense:0", MalformedItem), ((first, 0), MalformedItem)]


def test_nothing_named_changes_nothing(tracker: Tracker) -> None:
    outcome = tracker.ack([])
    assert (outcome.changed, outcome.repeated, outcome.completed, outcome.failed, outcome.errors) == (0, 0, (), (), ())
    assert tracker.fail([], "broken") == outcome


def test_items_come_from_any_iterable_but_a_text(tracker: Tracker) -> None:
    _, items = opened(tracker, 4)
    assert tracker.ack(item for item in items[:2]).changed == 2
    assert tracker.ack(set(items)).changed == 2
    with pytest.raises(InvalidInput, match="expected a list of items, got the text"):
        tracker.ack(items[0])
