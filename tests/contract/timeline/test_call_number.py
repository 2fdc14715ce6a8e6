"""A call with a number of its own can be repeated after a lost answer: it creates nothing twice."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import NewMessage, Outcome, Store, Timeline
from batchline.errors import CallTaken, InvalidInput
from batchline.stores.fresh_numbers import fresh_number
from tests.contract.timeline.line import Line, prune, words
from tests.doubles import HandClock, new_id


@pytest.fixture
def stored_line(store: Store, clock: HandClock) -> Line:
    return Line(Timeline(store, clock=clock), clock).make()


def created(line: Line, messages: list[NewMessage | bytes], number: Any, **other: str) -> list[Outcome]:
    topic, group = other.get("topic", line.topic), other.get("group", line.group)
    return line.timeline.create(topic, messages, producer_group=group, call_number=number)


def test_nothing_is_created_twice_however_late_it_is_repeated(stored_line: Line) -> None:
    line = stored_line
    new: list[NewMessage | bytes] = [NewMessage(b"a"), NewMessage(b"b", id="b"), b"c", *[b""] * 100]
    number = fresh_number(line.now, 2 * len(new))
    first = created(line, new, number)
    assert set(words(first)) == {"created"}
    for ms in (0, 1, 1_000):
        line.wait(ms)
        assert created(line, new, number) == first
        assert line.counts() == (0, 0, 103)
    assert words(line.timeline.done(line.lease(limit=50))) == ["done"] * 50
    assert created(line, new, number) == first
    assert line.counts() == (0, 0, 53)
    line.timeline.done(line.lease(limit=100))
    assert created(line, new, number) == first
    assert line.counts() == (0, 0, 0)


def test_a_repeated_call_does_not_take_an_id_that_was_cancelled_meanwhile(stored_line: Line) -> None:
    line, number = stored_line, fresh_number(stored_line.now, 4)
    line.create("a")
    new: list[NewMessage | bytes] = [NewMessage(b"a", id="a"), NewMessage(b"b", id="b")]
    assert words(created(line, new, number)) == ["exists", "created"]
    line.cancel("a")
    assert words(created(line, new, number)) == ["conflict", "created"], "it is not there, and is not said to be"
    assert line.counts() == (0, 0, 1)
    line.create("a")
    assert line.counts() == (0, 0, 2)


def test_a_repeated_call_leaves_the_id_of_a_pruned_message_free(fresh_store: Store, clock: HandClock) -> None:
    line = Line(Timeline(fresh_store, clock=clock), clock).make(keep=timedelta(0))
    number, topic = fresh_number(line.now, 4), line.stored.number
    new: list[NewMessage | bytes] = [NewMessage(b"a", id="a"), NewMessage(b"b", id="b")]
    first = created(line, new, number)
    line.cancel("a")
    prune(fresh_store, clock)
    assert created(line, new, number) == first
    known = fresh_store.read(lambda rows: rows.message_ids(topic, ["a", "b"]))
    assert known.keys() == {"b"}, "no row leads to a message that is gone, for nothing would remove it"


def test_what_was_finished_is_known_for_as_long_as_it_is_kept(stored_line: Line, store: Store) -> None:
    line, number = stored_line, fresh_number(stored_line.now, 2)
    first = created(line, [b"a"], number)
    line.timeline.done(line.lease())
    line.wait(59_999)
    prune(store, line.clock)
    assert created(line, [b"a"], number) == first
    assert line.counts() == (0, 0, 0)


def test_a_repeated_call_on_a_limited_topic_is_answered_as_before(store: Store, clock: HandClock) -> None:
    line = Line(Timeline(store, clock=clock), clock).make(rate_limit=80)
    new: list[NewMessage | bytes] = [b"a", NewMessage(b"b", id="b"), *[b"c"] * 76, NewMessage(b"d", id="d"), b"e", b"f"]
    number = fresh_number(line.now, 2 * len(new))
    line.create("d")
    first = created(line, new, number)
    assert words(first) == ["created"] * 78 + ["exists", "created", "limited"]
    for ms in (0, 2_000):
        line.wait(ms)
        assert created(line, new, number) == first, "a repeated call creates nothing more"
    assert line.counts() == (0, 0, 80)
    with pytest.raises(CallTaken):
        created(line, [*new[:3], b"other", *new[4:]], number)


@pytest.mark.parametrize("other", ["body", "group", "topic"])
def test_the_number_of_another_call_is_taken(stored_line: Line, other: str) -> None:
    line = stored_line
    elsewhere = Line(line.timeline, line.clock, group=line.group).make()
    number = fresh_number(line.now, 2)
    created(line, [b"a"], number)
    how = {"group": {"group": new_id()}, "topic": {"topic": elsewhere.topic}}.get(other, {})
    with pytest.raises(CallTaken, match="is taken by another call"):
        created(line, [b"b" if other == "body" else b"a"], number, **how)
    assert (line.counts(), elsewhere.counts()) == ((0, 0, 1), (0, 0, 0))


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "5", 1 << 63])
def test_what_is_no_number_of_a_call_is_refused(stored_line: Line, bad: Any) -> None:
    with pytest.raises(InvalidInput, match="call_number must be a whole number from 1 to"):
        created(stored_line, [b"a"], bad)


def test_a_call_with_a_number_is_one_transaction(stored_line: Line) -> None:
    with pytest.raises(InvalidInput, match="at most 5,000 messages"):
        created(stored_line, [b""] * 5_001, 5)
    assert stored_line.counts() == (0, 0, 0)
