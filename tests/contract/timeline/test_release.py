"""Releasing: a message goes back, to be offered again at a moment."""

from datetime import timedelta

import pytest

from batchline import Timeline
from batchline.core.message import moment_ms
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, words
from tests.doubles import HandClock


@pytest.mark.parametrize(("at", "due"), [(None, 0), (-1_000, 0), (0, 0), (1, 1), (90_000, 90_000)])
def test_a_message_is_offered_again_at_its_moment_now_or_later(line: Line, at: int | None, due: int) -> None:
    (lease,) = line.leased("a")
    line.wait(500)
    due += line.now
    (outcome,) = line.timeline.release(lease, None if at is None else line.now + at)
    assert (outcome.id, outcome.outcome, outcome.ok, outcome.lease) == ("a", "released", True, None)
    shown = line.read("a")
    assert (shown.version, shown.attempts, shown.consumer, shown.at) == (3, 1, None, moment_ms(due))
    if due > line.now:
        line.until(due - 1)
        assert line.lease("v") == []
        line.until(due)
    (message,) = line.lease("v")
    assert (message.attempts, message.lease.version, message.at_ms) == (2, 4, due)


@pytest.mark.parametrize(("off", "word"), [(-1, "released"), (0, "lost"), (1, "lost")])
def test_only_while_the_lease_is_active(line: Line, off: int, word: str) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    assert words(line.timeline.release(lease)) == [word]
    assert line.read("a").version == (3 if word == "released" else 2)


def test_the_token_is_void_afterwards(line: Line) -> None:
    (lease,) = line.leased("a")
    line.timeline.release(lease, line.now + 5)
    for verb in (line.timeline.extend, line.timeline.done):
        assert words(verb(lease)) == ["lost"]
    assert (line.read("a").version, line.read("a").state) == (3, "waiting")
    assert line.move(a=line.now) == ["moved"], "its owner is in control again"


def test_a_repeated_release_is_recognised_and_changes_nothing(line: Line) -> None:
    first, other = line.leased("a", "b")
    line.wait(3)
    assert words(line.timeline.release([first, other], line.now + 5)) == ["released"] * 2
    line.wait(1)
    assert words(line.timeline.release([first, other], line.now + 500)) == ["released"] * 2, "the answer was lost"
    assert (line.read("a").version, len(line.read("a").history)) == (3, 1)
    line.wait(4)
    (again, _) = line.lease("w")
    assert words(line.timeline.release(first)) == ["released"], "whoever has the message now"
    assert line.read("a").state == "processing"
    line.until(again.lease.until_ms)
    assert words(line.timeline.release([first, again.lease])) == ["released", "lost"], "each by its own version"


def test_the_reason_is_kept_in_the_history(line: Line) -> None:
    (lease,) = line.leased("a", consumer="v")
    line.wait(3)
    first = line.now
    line.timeline.release(lease, reason=ValueError("broken \0"))
    (message,) = line.lease("w")
    line.timeline.release(message.lease, reason="x" * 2_000)
    assert [tuple(one) for one in line.read("a").history] == [
        (1, "v", "released", first, "broken \N{REPLACEMENT CHARACTER}"),
        (2, "w", "released", line.now, "x" * 1_000),
    ]


@pytest.mark.parametrize(("off", "word"), [(0, "released"), (1, "released"), (2, "too_far")])
def test_no_further_ahead_than_the_topic_takes_messages(
    timeline: Timeline, clock: HandClock, off: int, word: str
) -> None:
    line = Line(timeline, clock).make(max_ahead=timedelta(minutes=1))
    (lease,) = line.leased("a")
    assert words(timeline.release(lease, line.now + MINUTE_MS + off)) == [word]
    assert line.read("a").consumer == (None if word == "released" else "w")


def test_each_topic_says_how_far_is_too_far(line: Line) -> None:
    near = Line(line.timeline, line.clock).make(max_ahead=timedelta(0))
    (theirs,) = near.leased("b")
    mine, lost = line.leased("a", "c")
    outcomes = line.timeline.release([theirs, mine, lost._replace(version=9)], line.now + 2)
    assert [(one.id, one.outcome) for one in outcomes] == [("b", "too_far"), ("a", "released"), ("c", "lost")]
    assert (near.read("b").consumer, line.read("a").consumer) == ("w", None)


def test_a_mixture_is_answered_in_its_order(line: Line) -> None:
    kept, done, foreign, again = line.leased("kept", "done", "foreign", "again")
    line.timeline.done(done)
    leases = [again, done, foreign._replace(consumer="v"), kept, again]
    outcomes = line.timeline.release(leases, line.now + 5)
    assert [(one.id, one.outcome) for one in outcomes] == [
        ("again", "released"),
        ("done", "lost"),
        ("foreign", "lost"),
        ("kept", "released"),
        ("again", "released"),
    ]
    assert (line.read("again").version, line.read("foreign").consumer) == (3, "w")
    assert len(line.read("again").history) == 1
    assert line.counts() == (2, 1, 0)


def test_some_of_those_leased_together_are_released_and_the_others_stay(line: Line) -> None:
    ids = [f"m{number:02}" for number in range(70)]
    leases = line.leased(*ids)
    assert words(line.timeline.release(leases[:30])) == ["released"] * 30
    assert sorted(ids_of(line.lease("v"))) == ids[:30]
    assert sorted(ids_of(line.timeline.my_leases("w", topic=line.topic))) == ids[30:]
    assert words(line.timeline.done(leases)) == ["lost"] * 30 + ["done"] * 40


def test_nothing_released_is_no_outcome(line: Line) -> None:
    assert line.timeline.release([]) == []
