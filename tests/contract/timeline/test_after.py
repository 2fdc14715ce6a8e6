"""Relative due times: `after` a span from now, by the broker's clock, for create, move and release."""

from datetime import timedelta

import pytest

from batchline import NewMessage, Store, Timeline
from batchline.core.message import moment_ms, ms_of
from batchline.stores.fresh_numbers import fresh_number
from tests.contract.remote import CLIENT
from tests.contract.timeline.line import MINUTE, MINUTE_MS, Line, ids_of, words
from tests.doubles import HandClock

#: The clock of these tests shows 457 µs past a whole millisecond.
SPANS = [timedelta(microseconds=us) for us in (1, 542, 543, 544, 999, 1_000, 90_000_000, 3_600_000_001)]
SPAN_IDS = [str(span) for span in SPANS]


def assert_due(line: Line, id: str, after: timedelta, kind: str) -> None:
    """The message is due the span after now, at most a millisecond late for each rounding up, and never early."""
    wanted_us, due_ms = line.clock.us + after // timedelta(microseconds=1), ms_of(line.read(id).at)
    roundings = 2 if kind == CLIENT else 1  # HTTP has the span in whole milliseconds
    assert 0 <= due_ms * 1_000 - wanted_us < roundings * 1_000
    line.until(due_ms - 1)
    assert line.lease("v") == []
    line.until(due_ms)
    assert ids_of(line.lease("v")) == [id]


@pytest.mark.parametrize("after", SPANS, ids=SPAN_IDS)
def test_a_message_is_created_for_a_span_from_now_and_never_early(line: Line, kind: str, after: timedelta) -> None:
    line.create("a", after=after)
    assert_due(line, "a", after, kind)


@pytest.mark.parametrize("after", SPANS, ids=SPAN_IDS)
def test_a_message_is_moved_to_a_span_from_now_and_never_early(line: Line, kind: str, after: timedelta) -> None:
    line.create("a")
    (outcome,) = line.timeline.move(line.topic, ["a"], after=after, producer_group=line.group)
    assert (outcome.id, outcome.outcome) == ("a", "moved")
    assert_due(line, "a", after, kind)


@pytest.mark.parametrize("after", SPANS, ids=SPAN_IDS)
def test_a_message_is_released_for_a_span_from_now_and_never_early(line: Line, kind: str, after: timedelta) -> None:
    (lease,) = line.leased("a")
    line.wait(7)
    assert words(line.timeline.release(lease, after=after, reason="why")) == ["released"]
    assert [one.reason for one in line.read("a").history] == ["why"]
    assert_due(line, "a", after, kind)


def test_a_span_of_nothing_is_due_at_once(line: Line) -> None:
    line.create("a", after=timedelta(0))
    line.create("b", at=line.now + 5)
    assert words(line.timeline.move(line.topic, {"b": timedelta(0)}, producer_group=line.group)) == ["moved"]
    leased = line.lease()
    assert sorted(ids_of(leased)) == ["a", "b"]
    assert words(line.timeline.release(leased, after=timedelta(0))) == ["released"] * 2
    assert sorted(ids_of(line.lease())) == ["a", "b"]


def test_each_message_of_a_call_has_its_own_span_or_moment(line: Line) -> None:
    at = line.now + 500
    new: list[NewMessage | bytes] = [
        NewMessage(id="later", after=2 * MINUTE),
        b"now",
        NewMessage(id="at", at=at),
        NewMessage(id="soon", after=MINUTE),
    ]
    assert words(line.timeline.create(line.topic, new, producer_group=line.group)) == ["created"] * 4
    minute = line.now + 1 + MINUTE_MS
    expected = {"later": minute + MINUTE_MS, "at": at, "soon": minute}
    assert {id: line.read(id).at for id in expected} == {id: moment_ms(ms) for id, ms in expected.items()}
    moves = {"soon": at, "nothing": MINUTE, "at": 3 * MINUTE, "later": moment_ms(at)}
    outcomes = line.timeline.move(line.topic, moves, producer_group=line.group)
    assert [(one.id, one.outcome) for one in outcomes] == [
        ("soon", "moved"),
        ("nothing", "unknown"),
        ("at", "moved"),
        ("later", "moved"),
    ]
    expected = {"later": at, "at": minute + 2 * MINUTE_MS, "soon": at}
    assert {id: line.read(id).at for id in expected} == {id: moment_ms(ms) for id, ms in expected.items()}


def test_one_span_moves_many_messages_and_the_outcomes_are_in_their_order(line: Line) -> None:
    line.create(*"abc")
    moved = line.timeline.move(line.topic, iter(["c", "x", "a"]), after=MINUTE, producer_group=line.group)
    assert [(one.id, one.outcome) for one in moved] == [("c", "moved"), ("x", "unknown"), ("a", "moved")]
    assert line.read("a").at == line.read("c").at == moment_ms(line.now + 1 + MINUTE_MS)
    assert line.timeline.move(line.topic, [], after=MINUTE, producer_group=line.group) == []


def test_a_repeated_create_exists_and_its_due_time_stays(line: Line) -> None:
    line.create("a", after=MINUTE)
    due = line.read("a").at
    line.wait(5_000)
    for again in (NewMessage(b"a", id="a", after=MINUTE), NewMessage(b"a", id="a", after=9 * MINUTE)):
        assert words(line.timeline.create(line.topic, [again], producer_group=line.group)) == ["exists"]
    assert (line.read("a").at, line.read("a").version, line.counts()) == (due, 1, (1, 0, 0))


def test_a_numbered_call_with_spans_is_repeated_later_and_creates_nothing_twice(store: Store, clock: HandClock) -> None:
    line = Line(Timeline(store, clock=clock), clock).make()
    new = [NewMessage(b"a", after=MINUTE), NewMessage(b"b", at=line.now + MINUTE_MS + 3), NewMessage(id="c")]
    number = fresh_number(line.now, 2 * len(new))
    first = line.timeline.create(line.topic, new, producer_group=line.group, call_number=number)
    due = [line.read(one.id).at for one in first]
    line.wait(5)
    assert line.timeline.create(line.topic, new, producer_group=line.group, call_number=number) == first
    assert [line.read(one.id).at for one in first] == due
    assert line.counts() == (2, 0, 1)


@pytest.mark.parametrize(("more", "is_near"), [(timedelta(0), True), (timedelta(milliseconds=1), False)])
def test_a_span_is_as_long_as_max_ahead_at_most(
    timeline: Timeline, clock: HandClock, more: timedelta, is_near: bool
) -> None:
    line = Line(timeline, clock).make(max_ahead=MINUTE)
    after = MINUTE + more
    (lease,) = line.leased("leased")
    line.create("moved")
    created = timeline.create(line.topic, [NewMessage(id="new", after=after)], producer_group=line.group)
    moved = timeline.move(line.topic, ["moved"], after=after, producer_group=line.group)
    released = timeline.release(lease, after=after)
    expected = ["created", "moved", "released"] if is_near else ["too_far"] * 3
    assert words(created + moved + released) == expected
    assert line.counts() == ((3, 0, 0) if is_near else (0, 1, 1))
