"""Repeating a call after a lost answer: the same result, told to the same caller, and nothing done twice."""

from batchline import SealOutcome, Tracker
from tests.contract.tracking import Finishing, new_id, opened


def test_a_seal_repeated_with_its_call_id_is_told_the_same(tracker: Tracker) -> None:
    fanout, _ = opened(tracker)
    call = new_id()
    first = tracker.seal(fanout, call_id=call)
    assert first == SealOutcome(fanout, completed=True)
    assert tracker.seal(fanout, call_id=call) == first
    assert tracker.seal(fanout, call_id=new_id()) == SealOutcome(fanout, completed=False)
    assert tracker.seal(fanout) == SealOutcome(fanout, completed=False)
    assert tracker.seal(fanout, call_id=call) == first


def test_a_seal_that_completed_nothing_is_not_told_of_a_later_completion(tracker: Tracker) -> None:
    fanout, items = opened(tracker, 1)
    call = new_id()
    assert not tracker.seal(fanout, call_id=call).completed
    assert tracker.ack(items).completed == (fanout,)
    assert not tracker.seal(fanout, call_id=call).completed


def test_an_ack_repeated_with_its_call_id_is_told_the_same_completion(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2)
    tracker.seal(fanout)
    call = new_id()
    assert finishing.ack(items, call_id=call).completed == (fanout,)
    # Among others, a repeated call names the same others: here they are left out.
    again = tracker.ack(items, call_id=call)
    assert (again.changed, again.repeated, again.completed) == (0, 2, (fanout,))
    assert tracker.ack(items, call_id=new_id()).completed == ()
    assert tracker.ack(items).completed == ()
    assert not tracker.seal(fanout, call_id=new_id()).completed


def test_a_fail_repeated_with_its_call_id_is_told_the_same_failure(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2)
    call = new_id()
    assert finishing.fail(items, call_id=call).failed == (fanout,)
    again = tracker.fail(items, "broken", call_id=call)
    assert (again.changed, again.repeated, again.failed) == (0, 2, (fanout,))
    assert tracker.fail(items, "broken", call_id=new_id()).failed == ()
    assert tracker.status(fanout).failed == 2


def test_a_call_id_of_another_call_is_told_nothing(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2)
    tracker.seal(fanout)
    first, last = new_id(), new_id()
    finishing.ack(items[:1], call_id=first)
    assert finishing.ack(items[1:], call_id=last).completed == (fanout,)
    assert tracker.ack(items[:1], call_id=first).completed == ()
    assert tracker.ack(items[1:], call_id=last).completed == (fanout,)


def test_a_repeated_ack_is_told_of_parents_as_before(finishing: Finishing, tracker: Tracker) -> None:
    top, _ = opened(tracker)
    middle, _ = opened(tracker, parent=top)
    bottom, items = opened(tracker, 1, parent=middle)
    for fanout in (top, middle, bottom):
        tracker.seal(fanout)
    call = new_id()
    first = finishing.ack(items, call_id=call)
    again = tracker.ack(items, call_id=call)
    assert set(first.completed) == {top, middle, bottom}
    assert again.completed == first.completed


def test_a_repeated_fail_is_told_of_parents_as_before(finishing: Finishing, tracker: Tracker) -> None:
    top, _ = opened(tracker, tolerate=1)
    middle, _ = opened(tracker, parent=top)
    bottom, items = opened(tracker, 1, parent=middle)
    tracker.seal(top)
    call = new_id()
    first = finishing.fail(items, call_id=call)
    again = tracker.fail(items, "broken", call_id=call)
    assert (set(first.failed), first.completed) == ({middle, bottom}, (top,))
    assert (again.failed, again.completed) == (first.failed, first.completed)


def test_a_repeated_seal_is_told_of_parents_as_before(tracker: Tracker) -> None:
    top, _ = opened(tracker)
    middle, _ = opened(tracker, parent=top)
    bottom, _ = opened(tracker, parent=middle)
    for fanout in (top, middle):
        tracker.seal(fanout)
    call = new_id()
    first = tracker.seal(bottom, call_id=call)
    assert set(first.parents_completed) == {top, middle}
    assert tracker.seal(bottom, call_id=call) == first
    assert tracker.seal(bottom, call_id=new_id()).parents_completed == ()


def test_a_repeated_call_of_several_transactions_is_told_everything(tracker: Tracker) -> None:
    fanouts = [opened(tracker, 1) for _ in range(6)]
    for fanout, _ in fanouts:
        tracker.seal(fanout)
    items, call = [item for _, items in fanouts for item in items], new_id()
    half = tracker.ack(items[:3], call_id=call)
    assert sorted(half.completed) == sorted(fanout for fanout, _ in fanouts[:3])
    rest = tracker.ack(items[3:], call_id=call)
    assert sorted(rest.completed) == sorted(fanout for fanout, _ in fanouts[3:])
    assert sorted(tracker.ack(items, call_id=call).completed) == sorted(fanout for fanout, _ in fanouts)


def test_every_call_can_be_repeated_and_leaves_what_one_would(tracker: Tracker) -> None:
    def history(times: int) -> tuple[int, ...]:
        fanout, seal, ack, fail = new_id(), new_id(), new_id(), new_id()
        for _ in range(times):
            tracker.open(fanout, tolerate=1, labels={"a": "b"})
        for _ in range(times):
            groups = tracker.add(fanout, 100, add_id="page-1")
        items = [item for group in groups for item in group.items()]
        for _ in range(times):
            tracker.seal(fanout, call_id=seal)
        for _ in range(times):
            tracker.fail(items[:1], "broken", call_id=fail)
        told = [tracker.ack(items, call_id=ack).completed for _ in range(times)]
        assert told == [(fanout,)] * times
        status = tracker.status(fanout)
        return status.total, status.pending, status.acked, status.failed

    assert history(1) == history(2) == history(3) == (100, 0, 99, 1)
