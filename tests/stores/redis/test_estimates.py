"""Estimates: what each verb counts, what is refused, and how long a fanout is kept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

from batchline.core.item_group import MOST_ITEMS
from batchline.core.moment import moment_of
from batchline.errors import (
    FanoutSealed,
    InvalidCount,
    InvalidName,
    InvalidRules,
    InvalidStore,
    UnknownFanout,
)
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import KEY, EstimateStore
from tests.doubles import BEGIN_US, HandClock, new_id
from tests.stores.redis.estimating import opened


def test_a_fanout_is_opened_without_items(tracker: EstimatedTracker) -> None:
    fanout = new_id()
    status = tracker.open(fanout)
    assert (status.id, status.state, status.total, status.pending, status.acked) == (fanout, "open", 0, 0, 0)
    assert (status.failed, status.tolerate, status.ttl) == (0, 0, timedelta(days=7))
    assert status.opened_at == status.last_activity_at == moment_of(BEGIN_US)
    assert (status.sealed_at, status.completed_at, status.failed_at) == (None, None, None)
    assert (status.sealed, status.completed, status.double_counted) == (False, False, False)


def test_a_fanout_without_an_id_gets_one_of_its_own(tracker: EstimatedTracker) -> None:
    assert tracker.open().id != tracker.open().id


def test_opening_again_answers_what_is_there(tracker: EstimatedTracker, clock: HandClock) -> None:
    fanout = opened(tracker, items=5, tolerate=2, ttl=timedelta(hours=1))
    tracker.ack(fanout)
    clock.us += 10
    status = tracker.open(fanout, tolerate=None, ttl=timedelta(hours=9))
    assert (status.total, status.pending, status.tolerate, status.ttl) == (5, 4, 2, timedelta(hours=1))
    assert (status.opened_at, status.last_activity_at) == (moment_of(BEGIN_US), moment_of(BEGIN_US + 10))


def test_adding_answers_the_new_total(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker)
    assert [tracker.add(fanout, count) for count in (1, 1000, MOST_ITEMS)] == [1, 1001, 1001 + MOST_ITEMS]
    assert tracker.status(fanout).pending == 1001 + MOST_ITEMS


def test_nothing_is_added_after_the_seal(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=3)
    tracker.seal(fanout)
    with pytest.raises(FanoutSealed, match=rf"'{fanout}' was sealed at 2027-01-15T08:00:00\.123457\+00:00"):
        tracker.add(fanout, 1)
    assert tracker.status(fanout).total == 3


def test_the_last_ack_completes_a_sealed_fanout_and_is_told(tracker: EstimatedTracker, clock: HandClock) -> None:
    fanout = opened(tracker, items=3)
    assert not tracker.ack(fanout).completed
    clock.us += 5
    sealed = tracker.seal(fanout)
    assert (sealed.fanout, sealed.pending, sealed.completed) == (fanout, 2, False)
    clock.us += 5
    last = tracker.ack(fanout, 2)
    assert (last.fanout, last.pending, last.completed, last.failed) == (fanout, 0, True, False)
    status = tracker.status(fanout)
    assert (status.state, status.acked, status.sealed, status.completed) == ("complete", 3, True, True)
    assert (status.sealed_at, status.completed_at) == (moment_of(BEGIN_US + 5), moment_of(BEGIN_US + 10))


def test_the_seal_completes_a_fanout_whose_items_are_done(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=3)
    assert not tracker.ack(fanout, 3).completed
    assert tracker.status(fanout).state == "open"
    assert tracker.seal(fanout).completed
    assert not tracker.seal(fanout).completed


def test_a_fanout_without_items_is_complete_when_it_is_sealed(tracker: EstimatedTracker) -> None:
    assert tracker.seal(opened(tracker)).completed


def test_sealing_again_leaves_the_time_of_the_seal(tracker: EstimatedTracker, clock: HandClock) -> None:
    fanout = opened(tracker, items=1)
    tracker.seal(fanout)
    clock.us += 7
    tracker.seal(fanout)
    status = tracker.status(fanout)
    assert (status.sealed_at, status.last_activity_at) == (moment_of(BEGIN_US), moment_of(BEGIN_US + 7))


def test_pending_below_zero_is_reported_as_such(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=2)
    tracker.seal(fanout)
    outcomes = [tracker.ack(fanout) for _ in range(4)]
    assert [outcome.pending for outcome in outcomes] == [1, 0, -1, -2]
    assert [outcome.completed for outcome in outcomes] == [False, True, False, False]
    status = tracker.status(fanout)
    assert (status.pending, status.acked, status.double_counted, status.state) == (-2, 4, True, "complete")


def test_an_item_acknowledged_twice_completes_a_fanout_too_early(tracker: EstimatedTracker) -> None:
    """What makes it an estimate: the second item is not done, and nothing shows it."""
    fanout = opened(tracker, items=2)
    tracker.seal(fanout)
    tracker.ack(fanout)
    assert tracker.ack(fanout).completed
    assert not tracker.status(fanout).double_counted


def test_a_failed_item_is_done_and_counted_apart(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=3, tolerate=1)
    tracker.seal(fanout)
    tracker.ack(fanout, 2)
    assert tracker.fail(fanout).completed
    status = tracker.status(fanout)
    assert (status.state, status.pending, status.acked, status.failed) == ("complete", 0, 2, 1)


def test_more_failures_than_tolerated_fail_a_fanout_once(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=4, tolerate=1)
    outcomes = [tracker.fail(fanout) for _ in range(4)]
    assert [outcome.failed for outcome in outcomes] == [False, True, False, False]
    assert not tracker.seal(fanout).completed
    status = tracker.status(fanout)
    assert (status.state, status.failed, status.failed_at) == ("failed", 4, moment_of(BEGIN_US))


def test_any_number_of_failures_can_be_tolerated(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker, items=100, tolerate=None)
    tracker.fail(fanout, 100)
    assert tracker.status(fanout).tolerate is None
    assert tracker.seal(fanout).completed


def test_a_clock_that_lags_behind_turns_no_time_back(tracker: EstimatedTracker, clock: HandClock) -> None:
    fanout = opened(tracker, items=2)
    clock.us -= 1_000_000
    tracker.ack(fanout)
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US)


def test_without_a_clock_of_ones_own_it_is_the_real_one(store: EstimateStore) -> None:
    before_us = now_us()
    opened_at = EstimatedTracker(store).open().opened_at
    assert moment_of(before_us) <= opened_at <= moment_of(now_us())


def test_names_are_kept_to_the_character(tracker: EstimatedTracker) -> None:
    fanout = f"{new_id()} Grüße {{a}}:*? 🚚"
    assert tracker.open(fanout).id == fanout
    assert tracker.add(fanout, 2) == 2


@pytest.mark.parametrize("call", [
    lambda tracker, fanout: tracker.add(fanout, 1),
    lambda tracker, fanout: tracker.seal(fanout),
    lambda tracker, fanout: tracker.ack(fanout),
    lambda tracker, fanout: tracker.fail(fanout),
    lambda tracker, fanout: tracker.status(fanout),
])  # fmt: skip
def test_an_unknown_fanout_is_refused_and_not_made(
    tracker: EstimatedTracker, server: Redis, call: Callable[[EstimatedTracker, str], object]
) -> None:
    fanout = new_id()
    with pytest.raises(UnknownFanout, match=f"no fanout '{fanout}': it was never opened, or Redis no longer has it"):
        call(tracker, fanout)
    assert server.exists(KEY + fanout) == 0


@pytest.mark.parametrize("count", [0, -1, MOST_ITEMS + 1, 1.0, True, "1", None])
@pytest.mark.parametrize("verb", ["add", "ack", "fail"])
def test_a_count_that_cannot_be_is_refused(tracker: EstimatedTracker, verb: str, count: object) -> None:
    fanout = opened(tracker, items=1)
    with pytest.raises(InvalidCount, match="from 1 to 10,000,000"):
        getattr(tracker, verb)(fanout, count)
    assert tracker.status(fanout).pending == 1


@pytest.mark.parametrize("tolerate", [-1, 0.5, "0", False, 2**53 + 1])
def test_a_tolerance_that_cannot_be_is_refused(tracker: EstimatedTracker, tolerate: Any) -> None:
    with pytest.raises(InvalidCount, match="tolerate"):
        tracker.open(tolerate=tolerate)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 7, b"bytes", "\ud800"])
def test_a_name_that_cannot_be_kept_is_refused(tracker: EstimatedTracker, name: Any) -> None:
    for call in (tracker.open, tracker.seal, tracker.ack, tracker.fail, tracker.status):
        with pytest.raises(InvalidName):
            call(name)
    with pytest.raises(InvalidName):
        tracker.add(name, 1)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(days=-1), timedelta(days=36_501), 7])
def test_a_ttl_that_cannot_be_is_refused(store: EstimateStore, tracker: EstimatedTracker, ttl: Any) -> None:
    with pytest.raises(InvalidRules, match="ttl"):
        EstimatedTracker(store, ttl=ttl)
    with pytest.raises(InvalidRules, match="ttl"):
        tracker.open(ttl=ttl)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://localhost:port/0",
        "redis://localhost:99999/0",
        "redis://localhost/name",
        "redis://localhost/0/1",
        "redis://localhost/0?db=x",
        "redis://localhost/0?no_such_option=1",
        "redis://localhost/0?protocol=9",
        None,
    ],
)
def test_an_address_that_names_no_server_is_refused(url: Any) -> None:
    with pytest.raises(InvalidStore, match="expected redis://host:port/database"):
        EstimateStore(url)


def test_a_message_shows_no_password() -> None:
    for url in ("http://me:se@cret@localhost", "redis://:se@cret@localhost/x", "unix:///s?password=se@cret&db=x"):
        with pytest.raises(InvalidStore) as refused:
            EstimateStore(url)
        assert "cret" not in str(refused.value)


@pytest.mark.parametrize("ttl", [timedelta(days=7), timedelta(hours=2), timedelta(seconds=90)])
def test_every_key_has_a_ttl_from_the_first_call_on(tracker: EstimatedTracker, server: Redis, ttl: timedelta) -> None:
    key = KEY + opened(tracker, ttl=ttl)
    left = timedelta(milliseconds=int(server.pttl(key)))
    assert ttl - timedelta(minutes=1) < left <= ttl


@pytest.mark.parametrize("verb", ["open", "add", "seal", "ack", "fail"])
def test_every_change_keeps_a_fanout_for_another_ttl(tracker: EstimatedTracker, server: Redis, verb: str) -> None:
    fanout = opened(tracker, items=9, tolerate=None)
    server.expire(KEY + fanout, 60)
    getattr(tracker, verb)(fanout, *[3][: verb == "add"])
    assert server.ttl(KEY + fanout) > 6 * 86_400


def test_looking_keeps_nothing_alive_and_is_no_activity(
    tracker: EstimatedTracker, server: Redis, clock: HandClock
) -> None:
    fanout = opened(tracker)
    server.expire(KEY + fanout, 60)
    clock.us += 1
    assert tracker.status(fanout).last_activity_at == moment_of(BEGIN_US)
    assert server.ttl(KEY + fanout) <= 60


def test_a_refused_add_keeps_nothing_alive(tracker: EstimatedTracker, server: Redis) -> None:
    fanout = opened(tracker)
    tracker.seal(fanout)
    server.expire(KEY + fanout, 60)
    with pytest.raises(FanoutSealed):
        tracker.add(fanout, 1)
    assert server.ttl(KEY + fanout) <= 60


def test_a_ttl_is_rounded_up_to_what_redis_can_count(tracker: EstimatedTracker) -> None:
    assert tracker.open(ttl=timedelta(hours=1, microseconds=1)).ttl == timedelta(hours=1, milliseconds=1)


def test_what_redis_no_longer_has_is_unknown(tracker: EstimatedTracker, server: Redis) -> None:
    fanout = opened(tracker, items=2)
    server.pexpireat(KEY + fanout, 1)
    with pytest.raises(UnknownFanout):
        tracker.ack(fanout)


def test_labels_are_those_it_was_first_opened_with(tracker: EstimatedTracker) -> None:
    fanout = new_id()
    assert tracker.open(fanout, labels={"user_key": "Møller 1", "a": "b"}).labels == {"a": "b", "user_key": "Møller 1"}
    assert tracker.open(fanout, labels={"user_key": "2"}).labels["user_key"] == "Møller 1"
    assert tracker.status(fanout).labels["user_key"] == "Møller 1"
    assert tracker.open().labels == {}
    with pytest.raises(InvalidName, match="the value of the label 'a' must have 1 to 255 characters"):
        tracker.open(labels={"a": ""})


def test_a_fanout_is_forgotten_once(tracker: EstimatedTracker) -> None:
    fanout = opened(tracker)
    assert [tracker.forget(fanout), tracker.forget(fanout)] == [True, False]
    with pytest.raises(UnknownFanout):
        tracker.status(fanout)
