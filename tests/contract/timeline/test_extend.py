"""Extending: by who holds the lease, while it is active, any number of times; each time with a new token."""

from datetime import timedelta

import pytest

from batchline import Lease, Outcome, Timeline
from batchline.core.message import moment_ms
from batchline.errors import InvalidRules
from tests.contract.timeline.line import MINUTE, MINUTE_MS, Line, ids_of, words
from tests.doubles import HandClock


def new_lease(outcomes: list[Outcome]) -> Lease:
    (outcome,) = outcomes
    assert outcome.lease is not None
    return outcome.lease


def test_a_lease_is_held_for_so_long_from_now_on(line: Line) -> None:
    (lease,) = line.leased("a")
    line.wait(10_000)
    (outcome,) = line.timeline.extend(lease, MINUTE)
    assert (outcome.id, outcome.outcome, outcome.ok) == ("a", "extended", True)
    new = outcome.lease
    assert new is not None
    assert new[:5] == (line.topic, "a", 3, "w", line.now + MINUTE_MS)
    shown = line.read("a")
    assert (shown.version, shown.attempts, shown.consumer, shown.at) == (3, 1, "w", moment_ms(new.until_ms))
    line.until(lease.until_ms)
    assert line.lease("v") == []
    line.until(new.until_ms)
    assert ids_of(line.lease("v")) == ["a"]


@pytest.mark.parametrize(("off", "word"), [(-1, "extended"), (0, "lost"), (1, "lost")])
def test_only_while_the_lease_is_active(line: Line, off: int, word: str) -> None:
    (lease,) = line.leased("a")
    line.until(lease.until_ms + off)
    (outcome,) = line.timeline.extend(lease)
    assert (outcome.outcome, outcome.ok, outcome.lease is None) == (word, word == "extended", word == "lost")
    assert line.read("a").version == (3 if word == "extended" else 2)


def test_the_old_token_is_void(line: Line) -> None:
    (old,) = line.leased("a")
    new = new_lease(line.timeline.extend(old))
    for verb in (line.timeline.extend, line.timeline.release, line.timeline.done):
        assert words(verb(old)) == ["lost"]
    assert line.read("a").version == 3
    assert words(line.timeline.done(new)) == ["done"]


def test_a_lease_can_be_made_shorter(line: Line) -> None:
    (lease,) = line.leased("a")
    assert new_lease(line.timeline.extend(lease, timedelta(milliseconds=1))).until_ms == line.now + 1
    line.wait(1)
    assert ids_of(line.lease("v")) == ["a"]


def test_any_number_of_times_and_the_message_was_still_leased_once(line: Line) -> None:
    (lease,) = line.leased("a")
    for _ in range(20):
        line.wait(MINUTE_MS - 1)
        lease = new_lease(line.timeline.extend(lease, MINUTE))
    assert (line.read("a").attempts, line.read("a").version) == (1, 22)
    assert line.read("a").history == ()


def test_the_duration_is_that_of_the_topic_and_never_longer_than_it_allows(
    timeline: Timeline, clock: HandClock
) -> None:
    line = Line(timeline, clock).make(lease=timedelta(seconds=7), longest_lease=MINUTE)
    (lease,) = line.leased("a")
    with pytest.raises(InvalidRules, match="extend the lease while you work"):
        timeline.extend(lease, MINUTE + timedelta(microseconds=1))
    assert line.read("a").version == 2
    lease = new_lease(timeline.extend(lease))
    assert lease.until_ms == line.now + 7_000
    assert new_lease(timeline.extend(lease, MINUTE)).until_ms == line.now + MINUTE_MS


def test_a_mixture_is_answered_in_its_order(line: Line) -> None:
    other = Line(line.timeline, line.clock).make(lease=timedelta(seconds=3))
    (elsewhere,) = other.leased("a")
    kept, done, foreign, again = line.leased("kept", "done", "foreign", "again")
    line.timeline.done(done)
    leases = [done, kept, foreign._replace(consumer="v"), again, elsewhere, again, kept._replace(version=9)]
    outcomes = line.timeline.extend(leases)
    assert [one.id for one in outcomes] == [lease.id for lease in leases]
    assert words(outcomes) == ["lost", "extended", "lost", "extended", "extended", "extended", "lost"]
    ends = [one.lease.until_ms - line.now if one.lease else None for one in outcomes]
    assert ends == [None, 300_000, None, 300_000, 3_000, 300_000, None]
    held = [one.lease for one in outcomes if one.lease]
    assert words(line.timeline.done(held)) == ["done"] * 4
    assert ids_of(line.messages()) == ["foreign"]


def test_some_of_those_leased_together_are_extended_and_the_others_end(line: Line) -> None:
    ids = [f"m{number:02}" for number in range(70)]
    leases = line.leased(*ids)
    outcomes = line.timeline.extend(leases[::2], 2 * MINUTE)
    assert words(outcomes) == ["extended"] * 35
    line.wait(MINUTE_MS)
    assert sorted(ids_of(line.lease("v"))) == ids[1::2]
    assert sorted(ids_of(line.timeline.my_leases("w", topic=line.topic))) == ids[::2]


def test_nothing_extended_is_no_outcome(line: Line) -> None:
    assert line.timeline.extend([]) == []
