"""Messages that were leased too often go to the dead-letter topic: with id, body, owner and history, and at once."""

from itertools import count

import pytest

from batchline import Lease, NewMessage, Timeline
from batchline.core.message import bucket_of, moment_ms
from batchline.errors import StoreError, UnknownMessage
from batchline.stores.burying import bury_expired
from batchline.stores.rows import Rows
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, leases_of, prune, rescue, words
from tests.doubles import HandClock, new_id


@pytest.fixture
def dying(fresh_timeline: Timeline, clock: HandClock) -> tuple[Line, Line]:
    """A topic that leases a message twice, and its dead-letter topic."""
    line = Line(fresh_timeline, clock)
    dead = Line(line.timeline, clock, group=line.group)
    line.make(max_attempts=2, dead_letter=dead.topic, buckets=89)
    return line, dead


def wear_out(line: Line, *ids: str, consumers: str = "vw") -> list[Lease]:
    """New messages, leased as often as they may be, whose last leases have just ended."""
    line.create(*ids)
    for consumer in consumers:
        leases = leases_of(line.lease(consumer, limit=1_000))
        line.wait(MINUTE_MS)
    return leases


def bury(line: Line, how: str) -> None:
    """Each of the ways in which it can happen."""
    if how == "rescue":
        rescue(line.timeline._store, line.clock)
    elif how == "lease":
        assert line.lease("x", limit=1_000) == []
    else:
        for one in line.messages():
            if one.topic == line.topic:
                assert line.timeline.lease_one(line.topic, one.id, one.version, "x") is None


@pytest.mark.parametrize("how", ["lease", "lease_one", "rescue"])
def test_after_so_many_leases_it_goes_to_the_dead_letter_topic(dying: tuple[Line, Line], how: str) -> None:
    line, dead = dying
    begin = line.now
    (lost,) = wear_out(line, "a")
    assert (line.read("a").attempts, line.read("a").state) == (2, "available")
    line.wait(5)
    bury(line, how)
    with pytest.raises(UnknownMessage):
        line.read("a")
    assert (line.counts(), dead.counts()) == ((0, 0, 0), (0, 0, 1))
    message = dead.read("a")
    assert (message.topic, message.body, message.producer_group) == (dead.topic, b"a", line.group)
    assert (message.at, message.attempts, message.consumer) == (moment_ms(line.now), 0, None)
    assert (message.version, message.bucket) == (4, bucket_of("a", 89))
    assert [tuple(one) for one in message.history] == [
        (1, "v", "lost", begin + MINUTE_MS, "the lease ran out"),
        (2, "w", "lost", begin + 2 * MINUTE_MS, "the lease ran out"),
    ]
    assert words(line.timeline.done(lost)) == ["lost"]
    assert ids_of(line.messages()) == ["a"]


@pytest.mark.parametrize("how", ["lease", "rescue"])
@pytest.mark.parametrize(("off", "buried"), [(-1, False), (0, True)])
def test_not_before_the_last_lease_has_ended(dying: tuple[Line, Line], how: str, off: int, buried: bool) -> None:
    line, dead = dying
    (lost,) = wear_out(line, "a")
    line.until(lost.until_ms + off)
    bury(line, how)
    assert (line.counts(), dead.counts()) == (((0, 0, 0), (0, 0, 1)) if buried else ((0, 1, 0), (0, 0, 0)))
    assert words(line.timeline.done(lost)) == ["lost" if buried else "done"]


def test_a_message_is_leased_as_often_as_it_may_be_and_not_once_more(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    line.create("a")
    for attempt in (1, 2):
        (message,) = line.lease()
        assert message.attempts == attempt
        assert words(line.timeline.release(message.lease, reason="broken")) == ["released"]
    assert line.lease() == []
    assert [(one.attempt, one.ending, one.reason) for one in dead.read("a").history] == [
        (1, "released", "broken"),
        (2, "released", "broken"),
    ]


def test_extending_is_no_attempt(dying: tuple[Line, Line]) -> None:
    line, _ = dying
    (lease,) = line.leased("a")
    for _ in range(5):
        (outcome,) = line.timeline.extend(lease)
        assert outcome.lease is not None
        lease = outcome.lease
    assert line.read("a").attempts == 1
    line.until(lease.until_ms)
    assert ids_of(line.lease()) == ["a"]


def test_a_made_id_goes_alone_from_among_chosen_ones(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    chosen, made = NewMessage(b"chosen", id="a"), NewMessage(b"made")
    _, created = line.timeline.create(line.topic, [chosen, made], producer_group=line.group)
    assert line.cancel("a") == ["cancelled"]
    for consumer in "vw":
        assert ids_of(line.lease(consumer)) == [created.id]
        line.wait(MINUTE_MS)
    assert line.lease("x") == []
    assert ids_of(dead.lease()) == [created.id]


def test_others_are_leased_in_the_same_call(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    old = [f"old{number}" for number in range(70)]
    wear_out(line, *old)
    line.create("new", "newer")
    assert sorted(ids_of(line.lease(limit=100))) == ["new", "newer"]
    assert sorted(ids_of(one for one in line.messages() if one.topic == dead.topic)) == sorted(old)
    assert (line.counts(), dead.counts()) == ((0, 2, 0), (0, 0, 70))


def test_what_is_dead_can_be_leased_moved_cancelled_and_done(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    wear_out(line, "a", "b", "c", "d")
    rescue(line.timeline._store, line.clock)
    assert dead.move(a=dead.now + 5, b=dead.now + 6) == ["moved", "moved"]
    assert dead.cancel("b") == ["cancelled"]
    found = dead.lease("undertaker")
    assert sorted((one.id, one.attempts) for one in found) == [("c", 1), ("d", 1)]
    assert words(dead.timeline.done(leases_of(found))) == ["done", "done"]
    dead.wait(5)
    assert ids_of(dead.lease(buckets=range(bucket_of("a", 89), bucket_of("a", 89) + 1))) == ["a"]


def test_the_dead_are_found_in_their_buckets(fresh_timeline: Timeline, clock: HandClock) -> None:
    """The dead-letter topic has other buckets."""
    line, dead = (Line(fresh_timeline, clock, group="pipeline") for _ in range(2))
    dead.make(buckets=13)
    line.make(max_attempts=2, dead_letter=dead.topic, buckets=89)
    ids = [f"m{number}" for number in range(100)]
    wear_out(line, *ids)
    made = line.timeline.create(line.topic, [NewMessage()] * 5, producer_group=line.group)
    for _ in range(2):
        line.lease(limit=1_000)
        line.wait(MINUTE_MS)
    rescue(fresh_timeline._store, clock)
    ids += [one.id for one in made]
    for bucket in range(13):
        found = ids_of(dead.lease(limit=1_000, buckets=range(bucket, bucket + 1)))
        assert sorted(found) == sorted(id for id in ids if bucket_of(id, 13) == bucket)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_the_id_is_free_again_on_the_first_topic_and_taken_on_the_other(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    wear_out(line, "a")
    rescue(line.timeline._store, line.clock)
    again = [NewMessage(b"a", id="a")]
    assert words(line.timeline.create(dead.topic, again, producer_group=line.group)) == ["exists"]
    assert words(line.timeline.create(dead.topic, again, producer_group=new_id())) == ["conflict"]
    assert words(line.timeline.create(line.topic, again, producer_group=line.group)) == ["created"]
    assert (line.read("a").version, dead.read("a").version) == (1, 4)
    assert line.cancel("a") == ["cancelled"]
    assert dead.read("a").version == 4


def test_an_id_that_is_taken_there_stays_with_who_has_it_and_both_are_leased(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    dead.create("a", at=line.now + 10**7)
    wear_out(line, "a")
    rescue(line.timeline._store, line.clock)
    assert dead.read("a").version == 1
    assert [(one.id, one.version) for one in line.messages() if one.topic == dead.topic] == [("a", 1), ("a", 4)]
    (message,) = dead.lease()
    assert (message.id, message.lease.version) == ("a", 5)
    assert words(dead.timeline.done(message.lease)) == ["done"]
    line.wait(MINUTE_MS)
    prune(line.timeline._store, line.clock)
    assert dead.read("a").version == 1
    assert words(dead.timeline.create(dead.topic, [NewMessage(b"a", id="a")], producer_group=line.group)) == ["exists"]


def test_ids_are_free_everywhere_when_the_dead_are_removed(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    wear_out(line, "a", "b")
    rescue(line.timeline._store, line.clock)
    dead.timeline.done(leases_of(dead.lease()))
    line.wait(MINUTE_MS)
    prune(line.timeline._store, line.clock)
    line.create("a", "b")
    dead.create("a", "b")
    assert (line.counts(), dead.counts()) == ((0, 0, 2), (0, 0, 2))


def test_the_dead_of_the_dead(fresh_timeline: Timeline, clock: HandClock) -> None:
    """Down a chain of topics, each id follows its own message, also where another has the same."""
    first, second, third = (Line(fresh_timeline, clock, group="pipeline") for _ in range(3))
    second.make(max_attempts=1, dead_letter=third.topic)
    first.make(max_attempts=1, dead_letter=second.topic)
    second.create("a", at=first.now + 10**7)
    first.create("a", "b")
    for line in (first, second):
        assert sorted(ids_of(line.lease())) == ["a", "b"]
        line.wait(MINUTE_MS)
        rescue(fresh_timeline._store, clock)
    assert second.read("a").version == 1, "it never was leased"
    assert [(one.topic, one.id) for one in first.messages()] == [
        (second.topic, "a"),
        *((third.topic, one.id) for one in first.messages()[1:]),
    ]
    assert sorted(ids_of(third.lease())) == ["a", "b"]
    assert (third.read("a").version, third.read("b").version) == (6, 6)
    assert [one.attempt for one in third.read("a").history] == [1, 1]


# --- all or nothing ---------------------------------------------------------------------------------------------------


def test_it_happens_whole_or_not_at_all(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    wear_out(line, "a", "b")
    store, before, topic = line.timeline._store, line.messages(), line.stored

    def half(rows: Rows) -> None:
        assert bury_expired(rows, topic, line.now, 10, count(10**6)) > 0
        raise StoreError("the end of the world")

    with pytest.raises(StoreError, match="the end of the world"):
        store.transact(half)
    assert line.messages() == before
    assert (line.counts(), dead.counts()) == ((0, 0, 2), (0, 0, 0))
    assert [one.attempt for one in line.read("a").history] == [1]


def test_without_a_dead_letter_topic_that_takes_messages_they_are_leased_on(dying: tuple[Line, Line]) -> None:
    line, dead = dying
    wear_out(line, "a")
    dead.timeline.delete_topic(dead.topic)
    rescue(line.timeline._store, line.clock)
    assert [(one.id, one.attempts) for one in line.lease()] == [("a", 3)]


def test_topics_without_a_limit_lease_for_ever(line: Line) -> None:
    line.create("a")
    for attempt in range(1, 12):
        (message,) = line.lease()
        assert message.attempts == attempt
        line.wait(MINUTE_MS)
