"""Cancelling: by the owner, while nobody has leased the message."""

import pytest

from batchline import NewMessage
from batchline.errors import UnknownMessage
from tests.contract.timeline.line import Line, ids_of, words
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


def test_what_was_cancelled_is_unknown_from_then_on(line: Line) -> None:
    line.create("a")
    assert line.cancel("a") == ["cancelled"]
    assert line.cancel("a") == ["unknown"]
    assert line.move(a=line.now) == ["unknown"]
    assert line.timeline.lease_one(line.topic, "a", 1, "w") is None
    assert line.counts() == (0, 0, 0)


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
