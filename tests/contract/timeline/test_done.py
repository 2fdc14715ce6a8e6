"""Finishing: by who holds the lease, while it is active; again without harm."""

import pytest

from batchline import lease_text, read_lease
from batchline.errors import UnknownMessage
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, prune, words
from tests.doubles import new_id


def test_a_message_that_is_done_is_gone(line: Line) -> None:
    first, _ = line.leased("a", "b")
    (outcome,) = line.timeline.done(first)
    assert (outcome.id, outcome.outcome, outcome.ok, outcome.lease) == ("a", "done", True, None)
    with pytest.raises(UnknownMessage):
        line.read("a")
    assert ids_of(line.messages()) == ["b"]
    assert ids_of(line.timeline.my_leases("w", topic=line.topic)) == ["b"]
    assert line.counts() == (0, 1, 0)
    line.wait(10**8)
    assert ids_of(line.lease("v")) == ["b"]


@pytest.mark.parametrize(("off", "word"), [(-1, "done"), (0, "lost"), (1, "lost")])
def test_only_while_the_lease_is_active(line: Line, off: int, word: str) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    (outcome,) = line.timeline.done(lease)
    assert (outcome.outcome, outcome.ok) == (word, word == "done")
    assert ids_of(line.messages()) == ([] if word == "done" else ["a"])


def test_repeating_it_succeeds_and_changes_nothing(fresh_line: Line) -> None:
    line = fresh_line
    first, _ = line.leased("a", "b")
    for ms in (0, 1, 10**8):
        line.wait(ms)
        assert words(line.timeline.done([first, first])) == ["done", "done"]
    line.wait(MINUTE_MS)
    prune(line.timeline._store, line.clock)
    assert words(line.timeline.done(first)) == ["done"]
    assert ids_of(line.messages()) == ["b"]


def test_what_another_has_finished_since_is_done(line: Line) -> None:
    (lost,) = line.leased("a", consumer="v")
    line.until(lost.until_ms)
    (held,) = line.lease("w")
    assert words(line.timeline.done(lost)) == ["lost"]
    assert words(line.timeline.done(held.lease)) == ["done"]
    assert words(line.timeline.done(lost)) == ["done"]


def test_a_mixture_is_answered_in_its_order(line: Line) -> None:
    other = Line(line.timeline, line.clock, group=line.group).make()
    (elsewhere,) = other.leased("x")
    kept, done, foreign, old, released = line.leased("kept", "done", "foreign", "old", "released")
    line.timeline.done(done)
    line.timeline.extend(old)
    line.timeline.release(released)
    leases = [released, kept, done, elsewhere, foreign._replace(consumer="v"), old, kept]
    outcomes = line.timeline.done(leases)
    assert [one.id for one in outcomes] == [lease.id for lease in leases]
    assert words(outcomes) == ["lost", "done", "done", "done", "lost", "lost", "done"]
    assert sorted(ids_of(line.messages())) == ["foreign", "old", "released"]


def test_some_of_those_leased_together_are_done_and_the_others_stay(line: Line) -> None:
    ids = [f"m{number:03}" for number in range(200)]
    line.create(*ids)
    leases = {one.id: one.lease for one in line.lease(limit=200)}
    assert words(line.timeline.done([leases[id] for id in ids[::3]])) == ["done"] * 67
    left = sorted(set(ids) - set(ids[::3]))
    assert sorted(ids_of(line.messages())) == left
    assert words(line.timeline.done([leases[id] for id in ids])) == ["done"] * 200
    assert line.messages() == ()
    assert line.counts() == (0, 0, 0)


def test_a_lease_can_be_handed_on_as_a_text(line: Line) -> None:
    (lease,) = line.leased("a/b %2F")
    assert words(line.timeline.done(read_lease(lease_text(lease)))) == ["done"]


def test_nothing_done_is_no_outcome(line: Line) -> None:
    assert line.timeline.done([]) == []


def test_messages_stand_for_their_leases(line: Line) -> None:
    line.leased("a", "b", "c", "d")
    a, b, c, d = line.timeline.my_leases("w", topic=line.topic)
    (extended,) = line.timeline.extend(a)
    assert words(line.timeline.release([b])) == ["released"]
    outcomes = line.timeline.done([c, a, d.lease, b])
    assert [outcome.id for outcome in outcomes] == [c.id, a.id, d.id, b.id]
    assert words(outcomes) == ["done", "lost", "done", "lost"]
    assert words(line.timeline.done(extended.lease or a)) == ["done"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_lease_that_names_another_topic_is_good_for_nothing(line: Line, count: int) -> None:
    other, leases = line.timeline.create_topic(new_id()).name, line.leased("a", "b")
    forged = [lease._replace(topic=name) for name in (other, new_id()) for lease in leases[:count]]
    for lease in forged:
        assert words(line.timeline.extend(lease)) == ["lost"]
        assert words(line.timeline.release(lease)) == ["lost"]
    assert words(line.timeline.done(forged[:count])) == ["lost"] * count
    assert line.counts() == (0, 2, 0)
    assert words(line.timeline.done(leases)) == ["done", "done"]
