"""Removal in the background, in bounded steps; until then ids stay taken."""

from datetime import timedelta

import pytest

from batchline import NewMessage, Prune, Store
from batchline.errors import UnknownTopic
from batchline.stores.pruning import prune_ended
from batchline.stores.rows import Rows
from tests.contract.timeline.line import MINUTE, MINUTE_MS, Line, ids_of, leases_of, prune, rescue, words
from tests.doubles import HandClock


def again(line: Line, *ids: str) -> list[str]:
    new = [NewMessage(id.encode(), id=id) for id in ids]
    return words(line.timeline.create(line.topic, new, producer_group=line.group))


def test_ids_of_done_messages_are_free_after_they_were_removed(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    line.create("a", "b")
    line.timeline.done(leases_of(line.lease()))
    assert again(line, "a", "b") == ["exists", "exists"]
    line.wait(MINUTE_MS)
    prune(fresh_store, line.clock)
    assert again(line, "a", "b") == ["created", "created"]
    assert [one.version for one in line.messages()] == [1, 1]


def test_ids_of_messages_created_together_are_free_one_by_one(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    line.create("b", "c", "a")
    line.timeline.done(leases_of(line.lease(limit=1)))
    assert again(line, "a", "b", "c") == ["exists"] * 3
    line.wait(MINUTE_MS)
    prune(fresh_store, line.clock)
    assert again(line, "a", "b", "c") == ["exists", "created", "exists"]
    assert sorted(ids_of(line.lease())) == ["a", "b", "c"]


@pytest.mark.parametrize(("off", "word"), [(-1, "exists"), (0, "created"), (1, "created")])
def test_ids_are_kept_for_as_long_as_the_topic_was_changed_to(
    fresh_line: Line, fresh_store: Store, off: int, word: str
) -> None:
    line = fresh_line
    line.create("b", "a")
    line.timeline.update_topic(line.topic, keep=3 * MINUTE)
    first, last = leases_of(line.lease())
    line.timeline.done(first)
    line.wait(10)
    line.timeline.done(last)
    line.wait(3 * MINUTE_MS + off)
    prune(fresh_store, line.clock)
    assert again(line, "a") == [word], "each by its own end, although they were created together"


def test_what_stands_on_the_line_stays(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    ids = [f"m{number:02}" for number in range(70)]
    line.create(*ids)
    leases = leases_of(line.lease(limit=20, duration=3 * MINUTE))
    line.timeline.done(leases[:10])
    line.cancel(*ids[-5:])
    before = line.messages()
    assert len(before) in range(55, 61)
    for _ in range(3):
        line.wait(MINUTE_MS // 2)
        prune(fresh_store, line.clock)
        assert line.messages() == before
    assert words(line.timeline.done(leases)) == ["done"] * 20


def test_nothing_is_left_of_what_was_removed(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    for _ in range(3):
        line.create(*(f"m{number}" for number in range(100)))
        leases = leases_of(line.lease(limit=100))
        line.timeline.release(leases[::2])
        line.timeline.done(leases_of([*line.timeline.my_leases("w"), *line.lease("v")]))
        assert line.messages() == ()
        line.wait(MINUTE_MS)
        prune(fresh_store, line.clock)
    number = line.stored.number

    def left(rows: Rows) -> tuple[bool, list[int]]:
        return rows.has_spots(number), rows.bundles_of_group(rows.producer_group(line.group), 0, 10)

    assert fresh_store.read(left) == (False, [])


def test_a_step_is_bounded_and_tells_whether_there_is_more(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    moments = [NewMessage(at=number) for number in range(1_100)]  # each is a spot of its own
    ids = [one.id for one in line.timeline.create(line.topic, moments, producer_group=line.group)]
    line.timeline.cancel(line.topic, ids, producer_group=line.group)
    line.wait(MINUTE_MS)
    one = Prune(fresh_store, clock=line.clock)
    assert [one.run_once() for _ in range(4)] == [True, True, False, False]


def test_a_step_takes_no_more_than_it_is_told(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    line.timeline.create(line.topic, [NewMessage(at=number) for number in range(10)], producer_group=line.group)
    line.cancel(*ids_of(line.messages()))
    topic = line.stored
    steps = [fresh_store.transact(lambda rows: prune_ended(rows, topic, line.now + 1, 4)) for _ in range(4)]
    assert steps == [4, 4, 2, 0]


def test_two_at_once_do_no_harm(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    line.create(*(f"m{number}" for number in range(100)))
    line.timeline.done(leases_of(line.lease(limit=50)))
    line.wait(MINUTE_MS)
    one, other = (Prune(fresh_store, clock=line.clock) for _ in range(2))
    for _ in range(3):
        assert not one.run_once()
        assert not other.run_once()
    assert len(line.messages()) == 50


def test_a_topic_with_much_on_it_goes_in_steps_and_is_free_then(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    new = [NewMessage(at=line.now + number) for number in range(1_100)]
    line.timeline.create(line.topic, new, producer_group=line.group)
    line.timeline.delete_topic(line.topic)
    one = Prune(fresh_store, clock=line.clock)
    steps = 0
    while one.run_once():
        steps += 1
        assert steps < 20
    assert steps >= 3
    with pytest.raises(UnknownTopic):
        line.timeline.topic(line.topic)
    assert line.messages() == ()
    line.make(buckets=3)
    assert line.counts() == (0, 0, 0)


def test_a_topic_that_is_deleted_honours_active_leases_until_they_end(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    held, lost = line.leased("held", "lost")
    line.wait(MINUTE_MS - 1)
    line.timeline.extend(held)
    line.timeline.delete_topic(line.topic)
    prune(fresh_store, line.clock)
    assert sorted(ids_of(line.messages())) == ["held", "lost"]
    line.until(lost.until_ms)
    prune(fresh_store, line.clock)
    assert ids_of(line.messages()) == ["held"]
    assert words(line.timeline.done(leases_of(line.timeline.my_leases("w")))) == ["done"]
    prune(fresh_store, line.clock)
    assert line.timeline.topics() == []


def test_the_name_of_a_deleted_topic_is_free_at_once_whatever_it_kept(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    line.timeline.update_topic(line.topic, keep=timedelta(days=9))
    line.timeline.done(line.leased("a", "b"))
    line.create("c")
    prune(fresh_store, line.clock)
    assert again(line, "a", "b", "c") == ["exists"] * 3
    line.timeline.delete_topic(line.topic)
    prune(fresh_store, line.clock)
    assert line.timeline.topics() == []
    line.make()
    assert again(line, "a", "b", "c") == ["created"] * 3


def test_the_dead_outlive_the_topic_they_came_from(fresh_line: Line, fresh_store: Store, clock: HandClock) -> None:
    dead = fresh_line
    line = Line(dead.timeline, clock, group=dead.group).make(max_attempts=1, dead_letter=dead.topic)
    line.create("a", "b")
    line.lease(limit=1)
    line.wait(MINUTE_MS)
    rescue(fresh_store, clock)
    line.timeline.delete_topic(line.topic)
    prune(fresh_store, clock)
    assert [topic.name for topic in line.timeline.topics()] == [dead.topic]
    (message,) = dead.messages()
    assert [(one.consumer, one.ending) for one in dead.read(message.id).history] == [("w", "lost")]
    assert words(dead.timeline.done(leases_of(dead.lease()))) == ["done"]
    line.wait(MINUTE_MS)
    prune(fresh_store, clock)
    line.make()
    assert again(line, "a", "b") == ["created", "created"]
    assert again(dead, "a", "b") == ["created", "created"]


def test_history_goes_with_its_message(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    (lease,) = line.leased("a")
    line.timeline.release(lease, reason="broken")
    assert len(line.read("a").history) == 1
    line.cancel("a")
    line.wait(MINUTE_MS)
    prune(fresh_store, line.clock)
    assert fresh_store.read(lambda rows: rows.attempts_of([lease.bundle])) == []
    line.create("a")
    assert line.read("a").history == ()


def test_an_empty_store_has_nothing_to_prune(fresh_store: Store, clock: HandClock) -> None:
    one = Prune(fresh_store, clock=clock)
    assert [one.run_once() for _ in range(2)] == [False, False]
