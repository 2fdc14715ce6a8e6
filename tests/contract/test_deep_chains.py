"""Chains of nested fanouts of any depth: they end level by level, in transactions of bounded size."""

import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from batchline import OnComplete, Store, Timeline, Tracker
from batchline.stores.settling import HEAD_START_US, LEVELS_AT_ONCE
from tests.contract.faulty_stores import Dying, Killed, Repeating
from tests.contract.tracking import DAY_US, chain, expire_all
from tests.doubles import HandClock

if TYPE_CHECKING:
    from collections.abc import Callable

FULL: Final = os.environ.get("BATCHLINE_TEST_PROFILE") == "full"
#: A server answers 20 times for each level, so the default profile tries fewer levels there.
LENGTHS: Final = {"memory": 10_000, "sqlite": 10_000} | ({"postgresql": 10_000, "mysql": 10_000} if FULL else {})
SERVER_LENGTH: Final = 1_500
#: Long enough for three transactions, and quick to open.
SOME: Final = 2 * LEVELS_AT_ONCE + 10


@pytest.fixture
def length(kind: str) -> int:
    return LENGTHS.get(kind, SERVER_LENGTH)


@pytest.fixture
def tracker(fresh_store: Store, clock: HandClock) -> Tracker:
    return Tracker(fresh_store, clock=clock)


def chain_with_messages(store: Store, clock: HandClock) -> tuple[list[str], Timeline]:
    """A chain in which every fanout publishes a message with its id."""
    timeline = Timeline(store, clock=clock)
    timeline.create_topic("done")
    return chain(store, SOME, clock(), on_complete=OnComplete("done", b"x").as_text()), timeline


def states(tracker: Tracker, ids: list[str]) -> set[str]:
    return {tracker.status(id).state for id in ids}


def test_one_ack_completes_a_deep_chain(tracker: Tracker, fresh_store: Store, clock: HandClock, length: int) -> None:
    ids = chain(fresh_store, length, clock())
    (group,) = tracker.add(ids[-1], 1)
    tracker.seal(ids[-1])
    outcome = tracker.ack([(group, 1)])
    assert (sorted(outcome.completed), outcome.failed) == (sorted(ids), ())
    assert tracker.status(ids[0]).state == "complete"
    assert tracker.ack([(group, 1)]).completed == ()


def test_one_seal_completes_a_deep_chain(tracker: Tracker, fresh_store: Store, clock: HandClock) -> None:
    ids = chain(fresh_store, SOME, clock())
    outcome = tracker.seal(ids[-1])
    assert (outcome.completed, sorted(outcome.parents_completed)) == (True, sorted(ids[:-1]))
    assert states(tracker, ids) == {"complete"}


def test_one_failed_item_fails_a_deep_chain(tracker: Tracker, fresh_store: Store, clock: HandClock) -> None:
    ids = chain(fresh_store, SOME, clock())
    (group,) = tracker.add(ids[-1], 1)
    outcome = tracker.fail([(group, 1)], "broken")
    assert (outcome.completed, sorted(outcome.failed)) == ((), sorted(ids))
    assert [one.reason for one in tracker.failed_items(ids[0])] == [f"child {ids[1]!r} failed"]
    assert states(tracker, ids) == {"failed"}


def test_one_expired_leaf_fails_a_deep_chain(tracker: Tracker, fresh_store: Store, clock: HandClock) -> None:
    ids = chain(fresh_store, SOME, clock())
    outcome = tracker.expire(ids[-1])
    assert (outcome.expired, sorted(outcome.failed)) == ([ids[-1]], sorted(ids[:-1]))


def test_a_deep_chain_expires_and_is_removed_beside_others(
    tracker: Tracker, fresh_store: Store, clock: HandClock
) -> None:
    ids = chain(fresh_store, SOME, clock())
    other = chain(fresh_store, 1, clock())
    clock.us += DAY_US
    outcome = expire_all(tracker)
    assert (sorted(outcome.expired), sorted(outcome.failed)) == (sorted([ids[-1], *other]), sorted(ids[:-1]))
    for _ in range(3):
        clock.us += DAY_US
        expire_all(tracker)
    assert tracker.list().fanouts == ()


def test_a_short_chain_completes_in_one_transaction(fresh_store: Store, clock: HandClock) -> None:
    ids, counting = chain(fresh_store, LEVELS_AT_ONCE, clock()), Dying(fresh_store)
    outcome = Tracker(counting, clock=clock).seal(ids[-1])
    assert (sorted(outcome.parents_completed), counting.transactions) == (sorted(ids[:-1]), 1)


def test_a_transaction_settles_a_bounded_number_of_levels(fresh_store: Store, clock: HandClock) -> None:
    ids, dying = chain(fresh_store, SOME, clock()), Dying(fresh_store, after=1)
    with pytest.raises(Killed):
        Tracker(dying, clock=clock).seal(ids[-1])
    complete = [id for id in ids if Tracker(fresh_store).status(id).state == "complete"]
    assert complete == ids[-LEVELS_AT_ONCE - 1 :]


# --- a process that dies between two transactions ---------------------------------------------------------------------


@pytest.mark.parametrize("survived", [1, 2])
@pytest.mark.parametrize("verb", ["ack", "seal", "fail", "expire"])
def test_expiry_finishes_a_chain_whose_process_died(
    tracker: Tracker, fresh_store: Store, clock: HandClock, verb: str, survived: int
) -> None:
    ids, timeline = chain_with_messages(fresh_store, clock)
    (group,) = tracker.add(ids[-1], 1)
    if verb == "seal":
        tracker.ack([(group, 1)])
    if verb == "ack":
        tracker.seal(ids[-1])
    verbs: dict[str, Callable[[Tracker], object]] = {
        "ack": lambda one: one.ack([(group, 1)]),
        "seal": lambda one: one.seal(ids[-1]),
        "fail": lambda one: one.fail([(group, 1)], "broken"),
        "expire": lambda one: one.expire(ids[-1]),
    }
    with pytest.raises(Killed):
        verbs[verb](Tracker(Dying(fresh_store, after=survived), clock=clock))
    left = [id for id in ids[:-1] if tracker.status(id).state == "sealed"]
    assert len(left) == SOME - survived * LEVELS_AT_ONCE - 1
    # The dead call has a head start, in case it is only slow.
    assert expire_all(tracker).completed == []
    clock.us += HEAD_START_US
    outcome = expire_all(tracker)
    ended = outcome.completed if verb in ("ack", "seal") else outcome.failed
    assert sorted(ended) == sorted(left)
    assert {tracker.status(id).state for id in ids[:-1]} == {"complete" if verb in ("ack", "seal") else "failed"}
    again = expire_all(tracker)
    assert (again.completed, again.failed) == ([], [])
    messages = [] if verb in ("fail", "expire") else ids
    assert sorted(one.id for one in timeline.lease("done", "worker", limit=1_000)) == sorted(messages)


def test_activity_of_an_ended_fanout_does_not_postpone_the_rest_of_its_chain(
    tracker: Tracker, fresh_store: Store, clock: HandClock
) -> None:
    """The seal of the fanout at which the dead process stopped is repeated, by a caller that knows nothing of it."""
    ids = chain(fresh_store, SOME, clock())
    with pytest.raises(Killed):
        Tracker(Dying(fresh_store, after=1), clock=clock).seal(ids[-1])
    tracker.seal(ids[-LEVELS_AT_ONCE - 1])
    clock.us += HEAD_START_US
    assert sorted(expire_all(tracker).completed) == sorted(ids[: -LEVELS_AT_ONCE - 1])


@pytest.mark.parametrize("verb", ["ack", "seal", "fail", "expire"])
def test_a_repeated_call_finishes_a_chain_whose_process_died(
    tracker: Tracker, fresh_store: Store, clock: HandClock, verb: str
) -> None:
    ids = chain(fresh_store, SOME, clock())
    (group,) = tracker.add(ids[-1], 1)
    if verb == "seal":
        tracker.ack([(group, 1)])
    if verb == "ack":
        tracker.seal(ids[-1])
    verbs: dict[str, Callable[[Tracker], Any]] = {
        "ack": lambda one: one.ack([(group, 1)], call_id="mine").completed,
        "seal": lambda one: (*one.seal(ids[-1], call_id="mine").parents_completed, ids[-1]),
        "fail": lambda one: one.fail([(group, 1)], "broken", call_id="mine").failed,
        "expire": lambda one: (*one.expire(ids[-1], call_id="mine").failed, ids[-1]),
    }
    with pytest.raises(Killed):
        verbs[verb](Tracker(Dying(fresh_store, after=1), clock=clock))
    assert sorted(verbs[verb](tracker)) == sorted(ids)
    assert sorted(verbs[verb](tracker)) == sorted(ids)
    assert tracker.status(ids[0]).state in ("complete", "failed")


def test_expiry_and_a_slow_call_end_each_fanout_once(tracker: Tracker, fresh_store: Store, clock: HandClock) -> None:
    """Expiry takes over after the first transaction; the call finds nothing left, and no end is reported twice."""
    ids, taken = chain(fresh_store, SOME, clock()), list[str]()

    def take_over() -> None:
        clock.us += HEAD_START_US
        taken.extend(expire_all(tracker).completed)

    outcome = Tracker(Dying(fresh_store, after=1, then=take_over), clock=clock).seal(ids[-1])
    assert sorted([ids[-1], *outcome.parents_completed, *taken]) == sorted(ids)
    assert len(taken) == SOME - LEVELS_AT_ONCE - 1


def test_an_answer_that_is_lost_between_two_transactions_is_told_again(fresh_store: Store, clock: HandClock) -> None:
    """A store repeats a transaction whose commit was not confirmed: what the lost one ended is still answered."""
    ids = chain(fresh_store, SOME, clock())
    outcome = Tracker(Repeating(fresh_store), clock=clock).seal(ids[-1])
    assert (outcome.completed, sorted(outcome.parents_completed)) == (True, sorted(ids[:-1]))
