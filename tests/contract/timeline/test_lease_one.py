"""Messages that will be due, and leasing them one by one, if they still are what they were."""

from datetime import timedelta

import pytest

from batchline import NewMessage, Timeline, Upcoming
from batchline.core.message import bucket_of
from tests.contract.timeline.line import MINUTE, MINUTE_MS, Line, words
from tests.doubles import HandClock


def test_upcoming_tells_what_is_due_by_then_the_oldest_first(line: Line) -> None:
    now = line.now
    for id, at in (("b", 999), ("a", -5), ("c", 1_000), ("late", 1_001)):
        line.create(id, at=now + at)
    line.move(b=now + 500)
    found = line.timeline.upcoming(line.topic, "w")
    assert found == [Upcoming("a", 1, now - 5), Upcoming("b", 2, now + 500), Upcoming("c", 1, now + 1_000)]
    assert line.timeline.upcoming(line.topic, "w", limit=2) == found[:2]
    assert line.timeline.upcoming(line.topic, "w", within=timedelta(0)) == found[:1]
    assert line.counts() == (3, 0, 1)


def test_upcoming_tells_of_leases_that_end(line: Line) -> None:
    (lease,) = line.leased("a")
    assert line.timeline.upcoming(line.topic, "w") == []
    assert line.timeline.upcoming(line.topic, "w", within=MINUTE) == [Upcoming("a", 2, lease.until_ms)]


@pytest.mark.parametrize(("off", "leased"), [(-1, False), (0, True), (1, True)])
def test_one_is_leased_from_its_moment_on(line: Line, off: int, leased: bool) -> None:
    line.create("a", "b", at=line.now + 100)
    ((id, version, at), _) = sorted(line.timeline.upcoming(line.topic, "w"))
    line.until(at + off)
    message = line.timeline.lease_one(line.topic, id, version, "w", duration=MINUTE)
    assert (message is not None) == leased
    if message is None:
        assert line.read("a").version == 1
        return
    assert (message.id, message.body, message.attempts, message.at_ms) == ("a", b"a", 1, at)
    assert message.lease[:5] == (line.topic, "a", 2, "w", line.now + MINUTE_MS)
    assert (line.read("a").consumer, line.read("b").consumer) == ("w", None)
    assert words(line.timeline.done(message.lease)) == ["done"]
    assert line.read("b").version == 1


@pytest.mark.parametrize("change", ["moved", "leased", "lost", "released", "cancelled", "done"])
def test_one_that_was_changed_since_is_stale(line: Line, change: str) -> None:
    line.create("a", at=line.now)
    if change == "moved":
        line.move(a=line.now)
    elif change == "cancelled":
        line.cancel("a")
    else:
        (message,) = line.lease("v")
        if change == "lost":
            line.until(message.lease.until_ms)
        elif change == "released":
            line.timeline.release(message.lease)
        elif change == "done":
            line.timeline.done(message.lease)
    assert line.timeline.lease_one(line.topic, "a", 1, "w") is None
    assert all(one.consumer != "w" for one in line.messages())


def test_a_lost_one_is_leased_by_its_new_version_and_its_history_tells(line: Line) -> None:
    (lost,) = line.leased("a", consumer="v")
    line.until(lost.until_ms - 1)
    assert line.timeline.lease_one(line.topic, "a", 2, "w") is None
    line.until(lost.until_ms)
    message = line.timeline.lease_one(line.topic, "a", 2, "w")
    assert message is not None
    assert (message.lease.version, message.attempts) == (3, 2)
    assert [(one.consumer, one.ending) for one in line.read("a").history] == [("v", "lost")]
    assert words(line.timeline.done(lost)) == ["lost"]


def test_one_is_leased_once(line: Line) -> None:
    line.create("a")
    assert line.timeline.lease_one(line.topic, "a", 1, "v") is not None
    assert line.timeline.lease_one(line.topic, "a", 1, "w") is None
    assert line.timeline.lease_one(line.topic, "a", 2, "w") is None


def test_an_id_that_is_not_there_is_stale(line: Line) -> None:
    other = Line(line.timeline, line.clock).make()
    (made,) = line.timeline.create(other.topic, [NewMessage()], producer_group=line.group)
    for id in ("nobody", made.id, "_000000000000000"):
        assert line.timeline.lease_one(line.topic, id, 1, "w") is None
    assert line.timeline.lease_one(other.topic, made.id, 1, "w") is not None


def test_upcoming_is_in_the_consumers_own_buckets(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(buckets=16)
    ids = [f"m{number}" for number in range(60)]
    line.create(*ids, at=line.now + 5)
    for consumer in "vwv":
        share = timeline.subscribe(line.topic, consumer).buckets
    assert share == range(8)
    found = [one.id for one in timeline.upcoming(line.topic, "v")]
    assert sorted(found) == sorted(id for id in ids if bucket_of(id, 16) in share)


def test_a_lease_is_as_long_as_the_topic_says_unless_asked(line: Line) -> None:
    line.create("a", "b")
    one = line.timeline.lease_one(line.topic, "a", 1, "w")
    other = line.timeline.lease_one(line.topic, "b", 1, "w", duration=timedelta(milliseconds=3))
    assert one is not None
    assert other is not None
    assert [found.lease.until_ms - line.now for found in (one, other)] == [300_000, 3]


def test_what_others_are_due_hides_nothing_and_keeps_nobody_awake(timeline: Timeline, clock: HandClock) -> None:
    """Messages of others' buckets, created together, stand in one place on both sides of one's own."""
    line = Line(timeline, clock).make(buckets=80)
    ids = {bucket_of(id, 80): id for id in (f"m{number}" for number in range(3_000))}
    for number in range(40):
        timeline.subscribe(line.topic, f"c{number:02}")
    assert timeline.heartbeat(line.topic, "c00").buckets == range(2)
    assert timeline.heartbeat(line.topic, "c02").buckets == range(4, 6)
    line.create(ids[0], ids[9])
    assert timeline.next_due(line.topic, "c02") is None
    assert timeline.upcoming(line.topic, "c02", limit=1) == []
    line.create(ids[4], at=line.now + 5)
    assert timeline.next_due(line.topic, "c02") == line.now + 5
    assert timeline.upcoming(line.topic, "c02", limit=1) == [Upcoming(ids[4], 1, line.now + 5)]
    assert timeline.next_due(line.topic, "c00") == line.now
    assert line.lease("c02") == []
