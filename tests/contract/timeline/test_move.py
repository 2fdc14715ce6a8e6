"""Moving: by the owner, while nobody has leased the message."""

from datetime import timedelta

import pytest

from batchline import NewMessage, Timeline
from batchline.core.message import moment_ms
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, leases_of, words
from tests.doubles import HandClock, new_id


@pytest.mark.parametrize("to", [-5, -1, 0, 1, 60_000])
@pytest.mark.parametrize("at", [-1, 0, 1])
def test_an_owner_moves_what_waits_and_what_is_available(line: Line, at: int, to: int) -> None:
    line.create("a", at=line.now + at)
    assert line.move(a=line.now + to) == ["moved"]
    message = line.read("a")
    assert (message.at, message.version, message.attempts) == (moment_ms(line.now + to), 2, 0)
    assert message.state == ("waiting" if to > 0 else "available")
    assert line.counts() == ((1, 0, 0) if to > 0 else (0, 0, 1))


def test_some_of_those_created_together_are_moved_and_the_others_stay(line: Line) -> None:
    ids = [f"m{number}" for number in range(20)]
    line.create(*ids, at=line.now + 5)
    moments = {id: line.now + 100 + number for number, id in enumerate(ids[5:12])}
    outcomes = line.timeline.move(line.topic, moments, producer_group=line.group)
    assert [(one.id, one.outcome) for one in outcomes] == [(id, "moved") for id in moments]
    assert {one.id: (one.at, one.version) for one in line.messages()} == {
        id: (moment_ms(moments.get(id, line.now + 5)), 2 if id in moments else 1) for id in ids
    }
    assert line.counts() == (20, 0, 0)


@pytest.mark.parametrize(("off", "word"), [(-1, "leased"), (0, "moved"), (1, "moved")])
def test_not_while_a_lease_is_active_and_again_from_its_end_on(line: Line, off: int, word: str) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    (outcome,) = line.timeline.move(line.topic, {"a": line.now + 9}, producer_group=line.group)
    assert (outcome.outcome, outcome.ok, outcome.lease) == (word, word == "moved", None)
    message = line.read("a")
    if word == "leased":
        assert outcome.reason == f"'w' has leased the message until {moment_ms(lease.until_ms).isoformat()}"
        assert (message.version, message.at, message.consumer) == (2, moment_ms(lease.until_ms), "w")
    else:
        assert (message.version, message.at, message.consumer) == (3, moment_ms(line.now + 9), None)
        assert [(one.attempt, one.consumer, one.ending) for one in message.history] == [(1, "w", "lost")]
        assert words(line.timeline.done(lease)) == ["lost"]


def test_others_move_nothing(line: Line) -> None:
    line.create("a", at=line.now + 5)
    (outcome,) = line.timeline.move(line.topic, {"a": line.now}, producer_group=new_id())
    assert (outcome.id, outcome.outcome, outcome.ok) == ("a", "foreign", False)
    assert (line.read("a").version, line.read("a").at) == (1, moment_ms(line.now + 5))


@pytest.mark.parametrize(("off", "word"), [(0, "moved"), (1, "moved"), (2, "too_far")])
def test_a_message_is_moved_up_to_max_ahead(timeline: Timeline, clock: HandClock, off: int, word: str) -> None:
    line = Line(timeline, clock).make(max_ahead=timedelta(minutes=1))
    line.create("a")
    assert line.move(a=line.now + MINUTE_MS + off) == [word]
    assert line.read("a").version == (2 if word == "moved" else 1)


def test_a_mixture_is_answered_in_its_order(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(max_ahead=timedelta(minutes=1))
    line.leased("leased")
    line.create("mine", "far")
    timeline.create(line.topic, [NewMessage(id="theirs")], producer_group=new_id())
    (made,) = timeline.create(line.topic, [NewMessage()], producer_group=line.group)
    line.create("gone")
    line.cancel("gone")
    to = line.now + 7
    moments = {"nobody": to, "leased": to, "far": to + MINUTE_MS, made.id: to, "theirs": to, "mine": to, "gone": to}
    outcomes = timeline.move(line.topic, moments, producer_group=line.group)
    assert [one.id for one in outcomes] == list(moments)
    assert words(outcomes) == ["unknown", "leased", "too_far", "moved", "foreign", "moved", "unknown"]
    assert [id for id in ("mine", "far", made.id) if line.read(id).version == 2] == ["mine", made.id]


def test_what_was_moved_is_leased_at_its_new_moment_and_not_before(line: Line) -> None:
    line.create("a", "b")
    line.move(a=line.now + 5)
    assert ids_of(line.lease()) == ["b"]
    line.wait(4)
    assert line.lease() == []
    line.wait(1)
    assert ids_of(line.lease()) == ["a"]


def test_a_message_of_another_topic_is_unknown(line: Line) -> None:
    other = Line(line.timeline, line.clock, group=line.group).make()
    line.create("a")
    (made,) = line.timeline.create(line.topic, [NewMessage()], producer_group=line.group)
    outcomes = line.timeline.move(other.topic, {"a": 5, made.id: 5}, producer_group=line.group)
    assert words(outcomes) == ["unknown", "unknown"]
    assert {one.version for one in line.messages()} == {1}


def test_no_moves_are_no_outcomes(line: Line) -> None:
    assert line.move() == []


def test_many_are_moved_at_once(line: Line) -> None:
    ids = [f"m{number}" for number in range(300)]
    line.create(*ids)
    moments = dict.fromkeys(ids[::2], line.now + 1)
    assert line.move(**moments) == ["moved"] * 150
    assert line.counts() == (150, 0, 150)
    assert sorted(ids_of(line.lease(limit=1_000))) == sorted(ids[1::2])
    line.wait(1)
    assert sorted(ids_of(line.lease(limit=1_000))) == sorted(ids[::2])
    assert words(line.timeline.done(leases_of(line.timeline.my_leases("w", topic=line.topic)))) == ["done"] * 300
