"""Cancelling: by the owner, while nobody has leased the message."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from batchline import NewMessage, Store
from batchline.errors import UnknownMessage
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, prune, words
from tests.doubles import new_id


@pytest.mark.parametrize("at", [-1, 0, 1])
def test_an_owner_cancels_what_waits_and_what_is_available(line: Line, at: int) -> None:
    line.create("a", "b", at=line.now + at)
    assert line.cancel("a") == ["cancelled"]
    with pytest.raises(UnknownMessage):
        line.read("a")
    assert ids_of(line.messages()) == ["b"]
    line.wait(2)
    assert ids_of(line.lease()) == ["b"]


def test_what_was_cancelled_is_unknown_to_all_but_a_repeated_cancel(line: Line) -> None:
    line.create("a")
    assert line.cancel("a") == ["cancelled"]
    assert line.cancel("a") == ["cancelled"], "the answer may have been lost"
    assert words(line.timeline.cancel(line.topic, ["a"], producer_group=new_id())) == ["unknown"]
    assert line.move(a=line.now) == ["unknown"]
    assert line.timeline.lease_one(line.topic, "a", 1, "w") is None
    assert line.counts() == (0, 0, 0)


@pytest.mark.parametrize("body", [b"a", b"another body"])
def test_cancel_frees_the_id_at_once(line: Line, body: bytes) -> None:
    line.create("a", "b", at=line.now + 5)
    assert line.cancel("a") == ["cancelled"]
    new = NewMessage(body, line.now + 7, "a")
    assert words(line.timeline.create(line.topic, [new], producer_group=line.group)) == ["created"]
    assert words(line.timeline.create(line.topic, [new], producer_group=line.group)) == ["exists"]
    assert line.counts() == (2, 0, 0)
    assert (line.read("a").body, line.read("a").version) == (body, 1)
    line.wait(7)
    assert [(one.id, one.body) for one in line.lease()] == [("b", b"b"), ("a", body)]


def test_another_producer_group_may_create_a_cancelled_id(line: Line) -> None:
    other = new_id()
    line.create("a")
    line.cancel("a")
    assert words(line.timeline.create(line.topic, [NewMessage(id="a")], producer_group=other)) == ["created"]
    assert line.cancel("a") == ["foreign"]


def test_cancel_and_create_in_turns_leave_the_last_message(fresh_line: Line, fresh_store: Store) -> None:
    line = fresh_line
    for turn in range(5):
        line.create("a", "b", at=line.now + turn)
        assert line.cancel("a", "b") == ["cancelled"] * 2
        if turn == 2:
            line.wait(MINUTE_MS)
            prune(fresh_store, line.clock)
            assert line.cancel("a", "b") == ["unknown"] * 2, "the record of it is gone"
    line.create("a")
    line.wait(MINUTE_MS)
    prune(fresh_store, line.clock)
    assert line.read("a").version == 1, "what was cancelled before goes without it"
    assert line.counts() == (0, 0, 1)


def test_a_made_id_is_not_given_to_another_message(line: Line) -> None:
    (made,) = line.timeline.create(line.topic, [b"a"], producer_group=line.group)
    line.cancel(made.id)
    (again,) = line.timeline.create(line.topic, [NewMessage(b"a", id=made.id)], producer_group=line.group)
    assert (again.outcome, again.ok) == ("conflict", False)
    assert again.reason == "the message that had this id has ended: create it without an id, or in another call"
    assert line.counts() == (0, 0, 0)


def test_one_of_two_calls_gets_a_cancelled_id(line: Line) -> None:
    line.create("a")
    line.cancel("a")

    def create(number: int) -> str:
        new = NewMessage(str(number).encode(), id="a")
        return words(line.timeline.create(line.topic, [new], producer_group=line.group))[0]

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(create, range(4))) == ["conflict"] * 3 + ["created"]
    assert line.counts() == (0, 0, 1)


@pytest.mark.parametrize(("off", "word"), [(-1, "leased"), (0, "cancelled"), (1, "cancelled")])
def test_not_while_a_lease_is_active_and_again_from_its_end_on(line: Line, off: int, word: str) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    assert line.cancel("a") == [word]
    assert ids_of(line.messages()) == (["a"] if word == "leased" else [])
    # Who had it is told that it is gone, as it would be by a repeated `done`.
    assert words(line.timeline.done(lease)) == ["done"]
    assert words(line.timeline.extend(lease)) == ["lost"]


def test_others_cancel_nothing(line: Line) -> None:
    line.create("a")
    (outcome,) = line.timeline.cancel(line.topic, ["a"], producer_group=new_id())
    assert (outcome.outcome, outcome.ok) == ("foreign", False)
    assert ids_of(line.messages()) == ["a"]


def test_a_mixture_is_answered_in_its_order_and_an_id_may_stand_twice(line: Line) -> None:
    line.leased("leased")
    line.create("mine")
    line.timeline.create(line.topic, [NewMessage(id="theirs")], producer_group=new_id())
    (made,) = line.timeline.create(line.topic, [NewMessage()], producer_group=line.group)
    ids = ["mine", "nobody", "leased", made.id, "mine", "theirs"]
    outcomes = line.timeline.cancel(line.topic, ids, producer_group=line.group)
    assert [one.id for one in outcomes] == ids
    assert words(outcomes) == ["cancelled", "unknown", "leased", "cancelled", "cancelled", "foreign"]
    assert ids_of(line.messages()) == ["leased"]


def test_some_of_those_created_together_are_cancelled_and_the_others_stay(line: Line) -> None:
    ids = [f"m{number}" for number in range(100)]
    line.create(*ids)
    assert line.cancel(*ids[10:90]) == ["cancelled"] * 80
    assert sorted(ids_of(line.messages())) == sorted(ids[:10] + ids[90:])
    assert line.counts() == (0, 0, 20)
    assert sorted(ids_of(line.lease())) == sorted(ids[:10] + ids[90:])


def test_a_message_of_another_topic_is_unknown(line: Line) -> None:
    other = Line(line.timeline, line.clock, group=line.group).make()
    line.create("a")
    (made,) = line.timeline.create(line.topic, [NewMessage()], producer_group=line.group)
    assert words(line.timeline.cancel(other.topic, ["a", made.id], producer_group=line.group)) == ["unknown"] * 2
    assert len(line.messages()) == 2


def test_nothing_cancelled_is_no_outcome(line: Line) -> None:
    assert line.cancel() == []
