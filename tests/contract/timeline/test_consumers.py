"""Consumers share a topic's buckets, and together get all of its messages."""

from datetime import timedelta

import pytest

from batchline import Expire, NewMessage, Store, Timeline
from batchline.core.message import bucket_of
from tests.contract.timeline.line import Line, ids_of, words
from tests.doubles import HandClock


@pytest.fixture
def shared(timeline: Timeline, clock: HandClock) -> Line:
    """A topic with 89 buckets."""
    return Line(timeline, clock).make(buckets=89)


def test_one_consumer_has_all_buckets(shared: Line) -> None:
    share = shared.timeline.subscribe(shared.topic, "w")
    assert (share.topic, share.consumer, share.buckets, share.consumers) == (shared.topic, "w", range(89), 1)
    assert share.drift == timedelta(0)


def test_three_share_89_buckets_by_the_order_of_their_ids(shared: Line) -> None:
    for consumer in ("c", "a", "b"):
        shared.timeline.subscribe(shared.topic, consumer)
    shares = [shared.timeline.heartbeat(shared.topic, consumer) for consumer in "abc"]
    assert [one.buckets for one in shares] == [range(30), range(30, 60), range(60, 89)]
    assert {one.consumers for one in shares} == {3}


def test_who_was_seen_in_the_far_future_has_no_share(shared: Line, clock: HandClock) -> None:
    """Its clock was off, and it is gone: its messages would wait until that future has come."""
    clock.us += 3_600_000_000
    shared.timeline.subscribe(shared.topic, "a")
    clock.us -= 3_600_000_000
    share = shared.timeline.subscribe(shared.topic, "b")
    assert (share.buckets, share.consumers) == (range(89), 1)


def test_of_more_consumers_than_buckets_the_rest_get_none_and_lease_nothing(
    timeline: Timeline, clock: HandClock
) -> None:
    line = Line(timeline, clock).make(buckets=2)
    line.create(*(f"m{number}" for number in range(20)))
    for consumer in "abca":
        timeline.subscribe(line.topic, consumer)
    shares = [timeline.heartbeat(line.topic, consumer).buckets for consumer in "abc"]
    assert [len(share) for share in shares] == [1, 1, 0]
    assert line.lease("c") == []
    assert timeline.upcoming(line.topic, "c") == []
    assert timeline.next_due(line.topic, "c") is None
    assert len(line.lease("a")) + len(line.lease("b")) == 20


def test_each_gets_only_messages_in_its_buckets_and_together_they_get_all(shared: Line) -> None:
    ids = [f"m{number}" for number in range(300)]
    shared.create(*ids)
    made = shared.timeline.create(shared.topic, [NewMessage()] * 100, producer_group=shared.group)
    ids += [one.id for one in made]
    for consumer in "abcabc":
        shared.timeline.heartbeat(shared.topic, consumer)
    found: list[str] = []
    for consumer in "abc":
        share = shared.timeline.heartbeat(shared.topic, consumer).buckets
        while batch := ids_of(shared.lease(consumer, limit=50)):
            assert all(bucket_of(id, 89) in share for id in batch)
            found += batch
    assert sorted(found) == sorted(ids)


def test_the_buckets_asked_for_go_before_the_consumers_own(shared: Line) -> None:
    ids = [f"m{number}" for number in range(50)]
    shared.create(*ids)
    for consumer in "ab":
        shared.timeline.subscribe(shared.topic, consumer)
    found = ids_of(shared.lease("b", buckets=range(10)))
    assert sorted(found) == sorted(id for id in ids if bucket_of(id, 89) < 10)


def test_who_never_subscribed_is_offered_all(shared: Line) -> None:
    shared.create(*(f"m{number}" for number in range(50)))
    shared.timeline.subscribe(shared.topic, "a")
    assert len(shared.lease("stranger")) == 50


@pytest.mark.parametrize(
    ("silent_ms", "sharing", "listed"), [(10_000, 2, 2), (10_001, 1, 2), (30_000, 1, 2), (30_001, 1, 1)]
)
def test_a_silent_consumer_loses_its_buckets_after_a_third_of_live_for_and_is_listed_for_all_of_it(
    store: Store, clock: HandClock, silent_ms: int, sharing: int, listed: int
) -> None:
    timeline = Timeline(store, clock=clock, live_for=timedelta(seconds=30))
    line = Line(timeline, clock).make(buckets=89)
    timeline.subscribe(line.topic, "dead")
    line.wait(silent_ms)
    share = timeline.heartbeat(line.topic, "live")
    assert share.consumers == sharing
    assert share.buckets == (range(45, 89) if sharing == 2 else range(89))
    assert [one.consumer for one in timeline.consumers(line.topic)] == ["dead", "live"][-listed:]


def test_the_messages_of_who_dropped_out_go_to_the_others(shared: Line) -> None:
    ids = [f"m{number}" for number in range(100)]
    shared.create(*ids)
    for consumer in "ab":
        shared.timeline.subscribe(shared.topic, consumer)
    shared.timeline.heartbeat(shared.topic, "a")
    half = ids_of(shared.lease("a"))
    assert 0 < len(half) < 100
    shared.wait(30_001)
    shared.timeline.heartbeat(shared.topic, "a")
    assert sorted(half + ids_of(shared.lease("a"))) == sorted(ids)


def test_who_has_not_beaten_for_long_is_offered_all(shared: Line) -> None:
    """Its share may be anybody's by now: the ranges are a hint, and safety is in the lease."""
    shared.create(*(f"m{number}" for number in range(50)))
    for consumer in "aba":
        shared.timeline.subscribe(shared.topic, consumer)
    shared.wait(30_001)
    assert len(shared.lease("a")) == 50


def test_who_leaves_drops_out_at_once(shared: Line) -> None:
    for consumer in "ab":
        shared.timeline.subscribe(shared.topic, consumer)
    shared.timeline.unsubscribe(shared.topic, "a")
    shared.timeline.unsubscribe(shared.topic, "a")
    assert [one.consumer for one in shared.timeline.consumers(shared.topic)] == ["b"]
    assert shared.timeline.heartbeat(shared.topic, "b").buckets == range(89)


def test_leases_outlive_a_change_of_shares(shared: Line) -> None:
    (lease,) = shared.leased("m1", consumer="a")
    for consumer in "abcd":
        shared.timeline.subscribe(shared.topic, consumer)
    assert [one.lease for one in shared.timeline.my_leases("a", topic=shared.topic)] == [lease]
    assert words(shared.timeline.done(lease)) == ["done"]


def test_a_consumer_has_a_share_of_each_topic(shared: Line) -> None:
    other = Line(shared.timeline, shared.clock).make(buckets=10)
    shared.timeline.subscribe(shared.topic, "a")
    assert shared.timeline.subscribe(other.topic, "b").buckets == range(10)
    assert shared.timeline.heartbeat(shared.topic, "a").consumers == 1


@pytest.mark.parametrize("drift_ms", [-90_000, -1, 0, 1, 5_000])
def test_the_drift_of_a_consumers_clock_is_measured_and_told(shared: Line, drift_ms: int) -> None:
    share = shared.timeline.heartbeat(shared.topic, "w", clock_ms=shared.now + drift_ms, messages_per_second=2.5)
    assert share.drift == timedelta(milliseconds=drift_ms)
    (row,) = shared.timeline.consumers(shared.topic)
    assert (row.consumer, row.seen_ms, row.drift_ms, row.messages_per_second) == ("w", shared.now, drift_ms, 2.5)


def test_other_brokers_see_the_same_consumers(store: Store, shared: Line) -> None:
    other = Timeline(store, clock=shared.clock)
    shared.timeline.subscribe(shared.topic, "a")
    assert other.subscribe(shared.topic, "b").buckets == range(45, 89)
    assert shared.timeline.heartbeat(shared.topic, "a").buckets == range(45)


def test_who_is_gone_for_a_day_is_forgotten(fresh_line: Line, fresh_store: Store) -> None:
    fresh_line.timeline.subscribe(fresh_line.topic, "a")
    fresh_line.wait(24 * 3_600_000)
    expire = Expire(fresh_store, clock=fresh_line.clock)
    expire.run_once()
    number = fresh_line.stored.number
    assert len(fresh_store.read(lambda rows: rows.consumers(number, 0))) == 1
    fresh_line.wait(1)
    assert not expire.run_once()
    assert fresh_store.read(lambda rows: rows.consumers(number, 0)) == []
