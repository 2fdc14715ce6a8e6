"""Leasing: what is due, the oldest first, each to one consumer."""

from datetime import timedelta

import pytest

from batchline import LeasedMessage, NewMessage, Timeline
from batchline.core.message import bucket_of, moment_ms
from batchline.errors import ForeignMessage
from tests.contract.timeline.line import MINUTE, MINUTE_MS, Line, ids_of, leases_of, words
from tests.doubles import HandClock


@pytest.mark.parametrize(("off", "count"), [(-1, 0), (0, 1), (1, 1)])
def test_a_message_is_leased_from_its_moment_on_and_never_before(line: Line, off: int, count: int) -> None:
    at = line.now + 1_000
    line.create("a", at=at)
    line.until(at + off)
    assert len(line.lease()) == count


def test_the_last_microsecond_before_is_before(line: Line) -> None:
    at = line.now + 1_000
    line.create("a", at=at)
    line.clock.us = 1_000 * at - 1
    assert line.lease() == []


def test_a_lease_tells_all_that_a_consumer_needs(line: Line) -> None:
    line.create("a", at=line.now - 7)
    (message,) = line.lease("worker-1")
    assert (message.id, message.body, message.attempts) == ("a", b"a", 1)
    assert (message.producer_group, message.at) == (line.group, moment_ms(line.now - 7))
    lease = message.lease
    assert (lease.topic, lease.id, lease.version, lease.consumer) == (line.topic, "a", 2, "worker-1")
    assert lease.until_ms == line.now + MINUTE_MS
    shown = line.read("a")
    assert (shown.state, shown.consumer, shown.version, shown.attempts) == ("processing", "worker-1", 2, 1)
    assert shown.at == moment_ms(lease.until_ms)
    assert line.counts() == (0, 1, 0)


def test_who_has_leased_a_message_has_it_alone_until_the_lease_ends(line: Line) -> None:
    (first,) = line.leased("a", consumer="v")
    for ms in (0, 1, MINUTE_MS - 2):
        line.wait(ms)
        assert line.lease("w") == line.lease("v") == []
    line.until(first.until_ms)
    assert line.read("a").state == "available"
    (second,) = line.lease("w")
    assert (second.lease.version, second.attempts, second.at_ms) == (3, 2, first.until_ms)
    assert [tuple(one) for one in line.read("a").history] == [(1, "v", "lost", first.until_ms, "the lease ran out")]


def test_a_lost_lease_cannot_do_anything_any_more(line: Line) -> None:
    (lost,) = line.leased("a", consumer="v")
    line.until(lost.until_ms)
    for verb in (line.timeline.extend, line.timeline.release, line.timeline.done):
        assert words(verb(lost)) == ["lost"]
    (held,) = line.lease("w")
    for verb in (line.timeline.extend, line.timeline.release, line.timeline.done):
        assert words(verb(lost)) == ["lost"]
        assert words(verb(held.lease._replace(consumer="v"))) == ["lost"]
        assert words(verb(held.lease._replace(version=2))) == ["lost"]
    with pytest.raises(ForeignMessage):
        line.timeline.read(line.topic, "a", lease=lost)
    assert (line.read("a").consumer, line.read("a").version) == ("w", 3)


def test_the_same_consumer_that_leases_anew_has_a_new_lease_only(line: Line) -> None:
    (lost,) = line.leased("a")
    line.until(lost.until_ms)
    (held,) = leases_of(line.lease())
    assert words(line.timeline.done(lost)) == ["lost"]
    assert words(line.timeline.done(held)) == ["done"]


def test_the_oldest_go_first_and_of_one_age_the_higher_priority(line: Line) -> None:
    now = line.now
    for id, at, priority in (("d", 0, -1), ("a", -9, 0), ("c", 0, 0), ("b", 0, 5), ("late", 1, 1_000)):
        line.create(id, at=now + at, priority=priority)
    assert [ids_of(line.lease(limit=2)), ids_of(line.lease(limit=2)), line.lease(limit=2)] == [
        ["a", "b"],
        ["c", "d"],
        [],
    ]


@pytest.mark.parametrize("limit", [1, 7, 1_000])
@pytest.mark.parametrize("every", [1, 3])
def test_messages_due_together_come_in_order_of_creation(line: Line, limit: int, every: int) -> None:
    """With chosen ids, within one call and over several bundles; `every` third id is chosen, or each."""
    numbers = range(150 if limit > 1 else 20)
    at = line.now + 5
    new = [NewMessage(b"%d" % n, at, None if n % every else f"order-{n * 7919 % 1000}") for n in numbers]
    line.timeline.create(line.topic, new, producer_group=line.group)
    upcoming = [one.id for one in line.timeline.upcoming(line.topic, "w", limit=1_000)]
    line.wait(5)
    leased: list[LeasedMessage] = []
    while found := line.lease(limit=limit):
        leased += found
    assert [int(one.body) for one in leased] == list(numbers)
    assert [one.id for one in leased] == upcoming


def test_messages_given_back_one_by_one_come_in_order_of_creation_again(line: Line) -> None:
    ids = [f"order-{number * 7919 % 1000}" for number in range(40)]
    line.create(*ids)
    at = line.now + 5
    for lease in leases_of(line.lease())[::-1]:
        line.timeline.release(lease, at)
    line.wait(5)
    assert [ids_of(line.lease(limit=13)) for _ in range(4)] == [ids[:13], ids[13:26], ids[26:39], ids[39:]]


def test_a_lost_message_has_the_age_of_its_lost_lease(line: Line) -> None:
    (lease,) = line.leased("old")
    line.create("new", at=lease.until_ms + 1)
    line.create("mid", at=lease.until_ms - 1)
    line.until(lease.until_ms + 1)
    assert ids_of(line.lease()) == ["mid", "old", "new"]


@pytest.mark.parametrize("limit", [1, 7, 64, 65, 200])
def test_no_more_than_the_limit_and_all_in_the_end(line: Line, limit: int) -> None:
    line.create(*(f"m{number}" for number in range(130)))
    found: list[str] = []
    while batch := ids_of(line.lease(limit=limit)):
        assert len(batch) == min(limit, 130 - len(found))
        found += batch
        if limit == 1 and len(found) == 5:
            break
    assert len(set(found)) == len(found) == (5 if limit == 1 else 130)
    assert line.counts() == (0, len(found), 130 - len(found))


def test_many_bundles_of_many_ages_come_in_their_order(line: Line) -> None:
    for batch in range(30):
        new = [NewMessage(at=line.now - (batch * 7 + number) % 31) for number in range(10)]
        line.timeline.create(line.topic, new, producer_group=line.group)
    found = [message.at_ms for _ in range(3) for message in line.lease(limit=100)]
    assert len(found) == 300
    assert found == sorted(found)


def test_the_duration_is_that_of_the_topic_unless_it_is_said(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(lease=timedelta(seconds=7))
    line.create("a", "b", "c")
    (first,) = timeline.lease(line.topic, "w")
    (second,) = timeline.lease(line.topic, "w", duration=timedelta(microseconds=1_001))
    (third,) = timeline.lease(line.topic, "w", duration=timedelta(hours=12))
    assert [one.lease.until_ms - line.now for one in (first, second, third)] == [7_000, 2, 43_200_000]


def test_two_consumers_share_and_never_the_same_message(line: Line) -> None:
    ids = [f"m{number}" for number in range(100)]
    line.create(*ids)
    found: dict[str, list[str]] = {"v": [], "w": []}
    for turn in range(20):
        consumer = "vw"[turn % 2]
        found[consumer] += ids_of(line.lease(consumer, limit=7))
    assert sorted(found["v"] + found["w"]) == sorted(ids)
    assert found["v"]
    assert found["w"]


@pytest.mark.parametrize("buckets", [range(16), range(5), range(5, 11), range(15, 16), range(3, 3)], ids=str)
def test_only_what_is_in_the_buckets_asked_for(timeline: Timeline, clock: HandClock, buckets: range) -> None:
    line = Line(timeline, clock).make(buckets=16)
    ids = [f"m{number}" for number in range(90)]
    line.create(*ids)
    inside = sorted(id for id in ids if bucket_of(id, 16) in buckets)
    assert sorted(ids_of(line.lease(limit=100, buckets=buckets))) == inside
    assert line.counts() == (0, len(inside), 90 - len(inside))
    assert sorted(ids_of(line.lease(limit=100))) == sorted(set(ids) - set(inside))


def test_some_in_a_bucket_at_a_time(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(buckets=16)
    ids = [f"m{number}" for number in range(90)]
    line.create(*ids)
    inside = sorted(id for id in ids if bucket_of(id, 16) in range(3, 9))
    found: list[str] = []
    while batch := ids_of(line.lease(limit=4, buckets=range(3, 9))):
        found += batch
    assert sorted(found) == inside


def test_a_topic_leases_its_own_messages_only(line: Line) -> None:
    other = Line(line.timeline, line.clock).make()
    line.create("a")
    assert other.lease() == []
    assert ids_of(line.lease()) == ["a"]


def test_an_empty_topic_leases_nothing(line: Line) -> None:
    assert line.lease() == []
    assert line.timeline.lease(line.topic, "w", duration=MINUTE, limit=10_000) == []


def test_next_due_is_when_the_next_message_is_due(line: Line) -> None:
    assert line.timeline.next_due(line.topic, "w") is None
    line.create("a", at=line.now + 9)
    line.create("b", at=line.now + 5)
    assert line.timeline.next_due(line.topic, "w") == line.now + 5
    line.cancel("b")
    assert line.timeline.next_due(line.topic, "w") == line.now + 9
