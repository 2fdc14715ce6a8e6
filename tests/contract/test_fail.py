"""Failing: done for good, counted and listed apart; past what is tolerated the fanout is failed, and one is told."""

import pytest

from batchline import Tracker
from batchline.core.moment import moment_of
from tests.contract.tracking import Finishing, opened
from tests.doubles import BEGIN_US, HandClock


def test_a_failed_item_is_done_counted_and_listed_apart(
    finishing: Finishing, tracker: Tracker, clock: HandClock
) -> None:
    fanout, items = opened(tracker, 3, tolerate=None)
    clock.us += 5
    outcome = finishing.fail(items[1:2], "disk full")
    assert (outcome.changed, outcome.repeated, outcome.completed, outcome.failed, outcome.errors) == (1, 0, (), (), ())
    status = tracker.status(fanout)
    assert (status.total, status.pending, status.acked, status.failed) == (3, 2, 0, 1)
    assert status.last_activity_at == moment_of(BEGIN_US + 5)
    assert tracker.pending_items(fanout) == [items[0], items[2]]
    (failed,) = tracker.failed_items(fanout)
    assert (failed.id, failed.reason, failed.failed_at) == (items[1], "disk full", moment_of(BEGIN_US + 5))


def test_an_item_fails_once(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 3, tolerate=1)
    assert finishing.fail(items[:1], "first").changed == 1
    again = finishing.fail(items[:1], "second")
    assert (again.changed, again.repeated, again.failed) == (0, 1, ())
    assert [one.reason for one in tracker.failed_items(fanout)] == ["first"]
    assert tracker.status(fanout).failed == 1


def test_what_is_acknowledged_cannot_fail_and_what_failed_cannot_be_acknowledged(
    finishing: Finishing, tracker: Tracker
) -> None:
    fanout, items = opened(tracker, 3)
    finishing.ack(items[:1])
    assert finishing.fail(items[:1]).repeated == 1
    assert finishing.fail(items[1:2]).changed == 1
    assert finishing.ack(items[1:2]).repeated == 1
    status = tracker.status(fanout)
    assert (status.pending, status.acked, status.failed) == (1, 1, 1)


def test_the_first_failure_fails_a_fanout_that_tolerates_none_and_one_is_told(
    finishing: Finishing, tracker: Tracker, clock: HandClock
) -> None:
    fanout, items = opened(tracker, 3)
    clock.us += 5
    outcome = finishing.fail(items[:1])
    assert (outcome.completed, outcome.failed) == ((), (fanout,))
    clock.us += 5
    assert finishing.fail(items[1:2]).failed == ()
    status = tracker.status(fanout)
    assert (status.state, status.failed_at, status.completed_at) == ("failed", moment_of(BEGIN_US + 5), None)
    assert (status.failed, status.pending) == (2, 1)


@pytest.mark.parametrize("tolerate", [1, 2, 63])
def test_as_many_failures_as_are_tolerated_do_not_fail_it_and_one_more_does(
    finishing: Finishing, tracker: Tracker, tolerate: int
) -> None:
    fanout, items = opened(tracker, 64, tolerate=tolerate)
    assert finishing.fail(items[:tolerate]).failed == ()
    assert tracker.status(fanout).state == "open"
    assert finishing.fail(items[tolerate : tolerate + 1]).failed == (fanout,)
    assert tracker.status(fanout).state == "failed"


def test_several_failures_in_one_call_pass_the_limit_together(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 10, tolerate=3)
    assert finishing.fail(items[:4]).failed == (fanout,)


@pytest.mark.parametrize("tolerate", [1, None])
def test_the_last_pending_item_that_fails_within_tolerance_completes(
    finishing: Finishing, tracker: Tracker, tolerate: int | None
) -> None:
    fanout, items = opened(tracker, 3, tolerate=tolerate)
    tracker.seal(fanout)
    finishing.ack(items[:2])
    outcome = finishing.fail(items[2:])
    assert (outcome.completed, outcome.failed) == ((fanout,), ())
    status = tracker.status(fanout)
    assert (status.state, status.acked, status.failed) == ("complete", 2, 1)


def test_the_last_pending_item_that_fails_past_tolerance_fails_it(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2, tolerate=1)
    tracker.seal(fanout)
    assert finishing.fail(items[:1]).failed == ()
    outcome = finishing.fail(items[1:])
    assert (outcome.completed, outcome.failed) == ((), (fanout,))
    assert tracker.status(fanout).completed_at is None


def test_with_any_number_tolerated_all_may_fail(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 64, tolerate=None)
    assert finishing.fail(items).failed == ()
    assert tracker.seal(fanout).completed
    assert tracker.status(fanout).failed == 64


def test_acks_go_on_after_a_fanout_failed_and_it_never_completes(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 3)
    finishing.fail(items[:1])
    assert finishing.ack(items[1:2]).changed == 1
    assert not tracker.seal(fanout).completed
    outcome = finishing.ack(items[2:])
    assert (outcome.changed, outcome.completed, outcome.failed) == (1, (), ())
    status = tracker.status(fanout)
    assert (status.state, status.pending, status.acked, status.failed) == ("failed", 0, 2, 1)
    assert (status.sealed, status.completed) == (True, False)


def test_failures_within_tolerance_leave_the_end_to_the_seal(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 2, tolerate=2)
    finishing.fail(items)
    assert tracker.status(fanout).state == "open"
    assert tracker.seal(fanout).completed


def test_a_mask_fails_the_items_of_a_group(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 64, tolerate=None)
    group = items[0].rpartition(":")[0]
    assert finishing.fail([(group, 1 << 63 | 1)]).changed == 2
    assert [one.id for one in tracker.failed_items(fanout)] == [items[0], items[63]]


def test_the_highest_bit_fails_alone_and_the_rest_after_it(finishing: Finishing, tracker: Tracker) -> None:
    fanout, items = opened(tracker, 64, tolerate=None)
    finishing.fail(items[63:], "high")
    finishing.fail(items[:63], "low")
    assert [(one.id, one.reason) for one in tracker.failed_items(fanout)] == [
        *((item, "low") for item in items[:63]),
        (items[63], "high"),
    ]
    assert tracker.status(fanout).failed == 64


def test_one_call_fails_items_of_many_fanouts(tracker: Tracker) -> None:
    strict, tolerant, open_one = opened(tracker, 70), opened(tracker, 70, tolerate=None), opened(tracker, 70)
    tracker.seal(tolerant[0])
    outcome = tracker.fail([*strict[1], *tolerant[1], *open_one[1][:1]], "broken")
    assert (outcome.changed, outcome.completed) == (141, (tolerant[0],))
    assert sorted(outcome.failed) == sorted([strict[0], open_one[0]])


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("", ""),
        ("nul \0 inside", "nul � inside"),
        ("half \ud800 a pair", "half ? a pair"),
        ("😀 שלום % %s '\"\\ \n\t\x1b;--", "😀 שלום % %s '\"\\ \n\t\x1b;--"),
        ('{"a": [1, null]} :name ::bigint $.x ', '{"a": [1, null]} :name ::bigint $.x '),
        ("x" * 1001, "x" * 1000),
        ("😀" * 1001, "😀" * 1000),
        (None, "None"),
        (5, "5"),
        (ValueError("bad value"), "bad value"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_reasons_are_kept_as_they_are_and_cut_at_1000_characters(
    finishing: Finishing, tracker: Tracker, reason: object, kept: str
) -> None:
    fanout, items = opened(tracker, 1)
    assert finishing.fail(items, reason).changed == 1
    assert [one.reason for one in tracker.failed_items(fanout)] == [kept]
