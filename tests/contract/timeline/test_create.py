"""Creating messages: stored when the call returns, in bulk, and again without harm."""

from datetime import datetime, timedelta, timezone

import pytest

from batchline import NewMessage, Store, Timeline
from batchline.core.message import LARGEST_BODY, bucket_of, made_place, moment_ms
from batchline.errors import InvalidMessage
from tests.contract.timeline.line import MINUTE_MS, Line, ids_of, prune, words
from tests.doubles import HandClock, new_id


def test_a_message_is_kept_as_it_was_given(line: Line) -> None:
    at = line.now + 5
    (outcome,) = line.timeline.create(
        line.topic, [NewMessage(b"\0\xff body", at, "a", priority=7)], producer_group=line.group
    )
    assert (outcome.id, outcome.outcome, outcome.ok) == ("a", "created", True)
    message = line.read("a")
    assert (message.topic, message.id, message.body) == (line.topic, "a", b"\0\xff body")
    assert (message.state, message.at, message.producer_group) == ("waiting", moment_ms(at), line.group)
    assert (message.consumer, message.version, message.attempts) == (None, 1, 0)
    assert (message.priority, message.bucket, message.history) == (7, bucket_of("a", 1024), ())


def test_without_a_moment_it_is_due_at_once(line: Line) -> None:
    line.create("a")
    assert line.read("a").at == moment_ms(line.now)
    assert line.read("a").state == "available"


@pytest.mark.parametrize(("off", "state"), [(-1, "available"), (0, "available"), (1, "waiting")])
def test_it_is_available_from_its_moment_on(line: Line, off: int, state: str) -> None:
    line.create("a", at=line.now + off)
    assert line.read("a").state == state


def test_a_time_with_a_zone_is_rounded_up_to_a_millisecond(line: Line) -> None:
    at = datetime(2030, 1, 1, 5, 30, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    line.timeline.update_topic(line.topic, max_ahead=timedelta(days=3_650))
    line.timeline.create(line.topic, [NewMessage(at=at, id="a")], producer_group=line.group)
    assert line.read("a").at == at + timedelta(microseconds=999)


@pytest.mark.parametrize(("off", "word"), [(0, "created"), (1, "created"), (2, "too_far")])
def test_a_topic_takes_messages_up_to_its_max_ahead(timeline: Timeline, clock: HandClock, off: int, word: str) -> None:
    line = Line(timeline, clock).make(max_ahead=timedelta(minutes=1))
    new = [NewMessage(at=line.now, id="near"), NewMessage(at=line.now + MINUTE_MS + off, id="far")]
    assert words(timeline.create(line.topic, new, producer_group=line.group)) == ["created", word]
    assert ids_of(line.messages()) == ["near", "far"][: 1 + (word == "created")]


# --- again ------------------------------------------------------------------------------------------------------------


def test_the_same_again_exists_and_changes_nothing(line: Line) -> None:
    line.create("a", "b", at=line.now + 5)
    before = line.messages()
    again = [NewMessage(b"b", line.now + 99, "b", priority=9), NewMessage(b"a", None, "a")]
    outcomes = line.timeline.create(line.topic, again, producer_group=line.group)
    assert [(one.id, one.outcome, one.ok) for one in outcomes] == [("b", "exists", True), ("a", "exists", True)]
    assert line.messages() == before
    assert line.counts() == (2, 0, 0)


def test_another_body_or_another_owner_is_in_conflict(line: Line) -> None:
    line.create("a")
    (body,) = line.timeline.create(line.topic, [NewMessage(b"other", id="a")], producer_group=line.group)
    (owner,) = line.timeline.create(line.topic, [NewMessage(b"a", id="a")], producer_group=new_id())
    assert (body.outcome, body.ok, body.reason) == (
        "conflict",
        False,
        "there is a message of this id with another body",
    )
    assert (owner.outcome, owner.ok) == ("conflict", False)
    assert owner.reason == "another producer group has a message of this id"
    assert line.counts() == (0, 0, 1)
    assert line.read("a").body == b"a"


def test_the_outcomes_of_a_mixture_are_in_its_order(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(max_ahead=timedelta(minutes=1))
    line.create("old", "other")
    new = [
        NewMessage(b"", line.now + MINUTE_MS + 2, "far"),
        NewMessage(b"old", id="old"),
        NewMessage(b"x"),
        NewMessage(b"changed", id="other"),
        NewMessage(b"", id="new"),
        NewMessage(b"y"),
    ]
    outcomes = timeline.create(line.topic, new, producer_group=line.group)
    assert words(outcomes) == ["too_far", "exists", "created", "conflict", "created", "created"]
    assert [one.id for one in outcomes][:2] == ["far", "old"]
    assert {one.id: one.body for one in line.messages()} == {
        "old": b"old",
        "other": b"other",
        outcomes[2].id: b"x",
        "new": b"",
        outcomes[5].id: b"y",
    }


def test_an_id_is_one_messages_in_each_topic(line: Line) -> None:
    other = Line(line.timeline, line.clock, group=line.group).make()
    line.create("a")
    other.create("a", at=line.now + 5)
    assert (line.read("a").state, other.read("a").state) == ("available", "waiting")


@pytest.mark.parametrize("id", ["A", "a ", " a", "á", "a\u0301", "ａ", "a/b", "a%2Fb", "'; --", "😀" * 255])
def test_ids_are_kept_to_the_character(line: Line, id: str) -> None:
    line.create("a", id)
    assert line.read(id).body == id.encode()
    assert line.read("a").body == b"a"
    assert line.cancel(id) == ["cancelled"]
    assert ids_of(line.messages()) == ["a"]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("keep", [0, 1, MINUTE_MS, 3 * MINUTE_MS])
def test_an_id_stays_taken_for_the_keep_of_its_topic(
    fresh_timeline: Timeline, fresh_store: Store, clock: HandClock, keep: int, pruned: bool
) -> None:
    line = Line(fresh_timeline, clock).make(keep=timedelta(milliseconds=keep))
    again = [NewMessage(b"a", id="a"), NewMessage(b"b", id="b")]
    line.timeline.done(line.leased("a", "b"))
    if keep:
        line.wait(keep - 1)
        assert words(line.timeline.create(line.topic, again, producer_group=line.group)) == ["exists"] * 2
        assert line.counts() == (0, 0, 0)
        line.wait(1)
    if pruned:
        prune(fresh_store, clock)
    assert words(line.timeline.create(line.topic, again, producer_group=line.group)) == ["created"] * 2
    prune(fresh_store, clock)
    assert words(line.timeline.create(line.topic, again, producer_group=line.group)) == ["exists"] * 2
    assert (line.read("a").version, line.counts()) == (1, (0, 0, 2))


# --- ids that we make -------------------------------------------------------------------------------------------------


def test_ids_that_we_make_are_unique_and_sort_by_when_they_were_made(line: Line) -> None:
    made = []
    for _ in range(3):
        outcomes = line.timeline.create(line.topic, [NewMessage()] * 70, producer_group=line.group)
        made += [one.id for one in outcomes]
        line.wait(1)
    assert made == sorted(set(made))
    assert all(made_place(id) for id in made)
    assert ids_of(line.messages()) == made


def test_a_made_id_can_be_created_again(line: Line) -> None:
    (made,) = line.timeline.create(line.topic, [NewMessage(b"x")], producer_group=line.group)
    again = [NewMessage(b"x", id=made.id), NewMessage(b"new", id="new")]
    assert words(line.timeline.create(line.topic, again, producer_group=line.group)) == ["exists", "created"]
    changed = [NewMessage(b"y", id=made.id)]
    assert words(line.timeline.create(line.topic, changed, producer_group=line.group)) == ["conflict"]
    assert words(line.timeline.create(line.topic, again[:1], producer_group=new_id())) == ["conflict"]


def test_an_id_that_only_looks_like_ours_is_refused_and_nothing_of_the_call_is_kept(line: Line) -> None:
    other = Line(line.timeline, line.clock).make()
    (elsewhere,) = line.timeline.create(other.topic, [NewMessage()], producer_group=line.group)
    for id in ("_000000000000000", elsewhere.id, elsewhere.id[:-2] + "01"):
        with pytest.raises(InvalidMessage, match="looks as if it were made here, and was not: choose another"):
            line.timeline.create(line.topic, [NewMessage(id="a"), NewMessage(id=id)], producer_group=line.group)
    assert line.counts() == (0, 0, 0)


# --- in bulk ----------------------------------------------------------------------------------------------------------


def test_nothing_is_a_call_too(line: Line) -> None:
    assert line.timeline.create(line.topic, [], producer_group=line.group) == []


def test_many_messages_of_many_moments(line: Line) -> None:
    ids = [f"m{number}" for number in range(500)]
    new = [NewMessage(id.encode(), line.now + number % 7, id) for number, id in enumerate(ids)]
    outcomes = line.timeline.create(line.topic, new, producer_group=line.group)
    assert [(one.id, one.outcome) for one in outcomes] == [(id, "created") for id in ids]
    assert {one.id: one.at for one in line.messages()} == {
        id: moment_ms(line.now + number % 7) for number, id in enumerate(ids)
    }
    assert line.counts() == (sum(1 for number in range(500) if number % 7), 0, sum(1 for n in range(500) if n % 7 == 0))


def test_the_largest_bodies(line: Line) -> None:
    bodies = [bytes([number]) * LARGEST_BODY for number in range(9)]
    outcomes = line.timeline.create(line.topic, [NewMessage(body) for body in bodies], producer_group=line.group)
    assert words(outcomes) == ["created"] * 9
    assert [line.read(one.id).body for one in outcomes] == bodies


def test_more_than_one_transaction_takes(line: Line) -> None:
    new = [NewMessage(at=line.now + 1, id=f"m{number}") for number in range(5_001)]
    assert set(words(line.timeline.create(line.topic, new, producer_group=line.group))) == {"created"}
    assert set(words(line.timeline.create(line.topic, new, producer_group=line.group))) == {"exists"}
    assert line.counts() == (5_001, 0, 0)


# --- rate -------------------------------------------------------------------------------------------------------------


def test_a_producer_group_creates_a_seconds_worth_at_once_and_then_as_time_goes_by(
    timeline: Timeline, clock: HandClock
) -> None:
    line = Line(timeline, clock).make(rate_limit=10)

    def create(count: int, group: str = line.group) -> list[str]:
        return words(timeline.create(line.topic, [NewMessage()] * count, producer_group=group))

    assert create(15) == ["created"] * 10 + ["limited"] * 5
    assert create(1) == ["limited"]
    assert create(2, new_id()) == ["created"] * 2, "each group has its own"
    line.wait(100)
    assert create(2) == ["created", "limited"]
    line.wait(60_000)
    assert create(100) == ["created"] * 10 + ["limited"] * 90
    assert line.counts()[2] == 23


def test_what_is_too_far_uses_nothing_of_the_rate(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(rate_limit=2, max_ahead=timedelta(0))
    new = [NewMessage(at=line.now + 2, id="far"), *(NewMessage(id=id) for id in "abc")]
    outcomes = timeline.create(line.topic, new, producer_group=line.group)
    assert words(outcomes) == ["too_far", "created", "created", "limited"]
    assert outcomes[3].reason == f"'{line.group}' may create 2 messages a second on '{line.topic}'"
    assert not outcomes[3].ok


def test_a_repeated_create_is_not_limited(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(rate_limit=3)

    def create(*ids: str) -> list[str]:
        return words(timeline.create(line.topic, [NewMessage(id=id) for id in ids], producer_group=line.group))

    assert create("a", "b", "c", "d") == ["created"] * 3 + ["limited"]
    assert create("d", "a", "b", "c") == ["limited", "exists", "exists", "exists"]
    assert line.cancel("a") == ["cancelled"]
    assert create("a") == ["limited"], "its id is free, so it is a new message"
    line.wait(1_000)
    assert create("b", "a", "d", "c", "e") == ["exists", "created", "created", "exists", "created"]
    assert line.counts() == (0, 0, 5)


def test_repeated_made_ids_are_not_limited(timeline: Timeline, clock: HandClock) -> None:
    line = Line(timeline, clock).make(rate_limit=1)
    (first,) = timeline.create(line.topic, [b"a"], producer_group=line.group)
    again = timeline.create(line.topic, [NewMessage(b"a", id=first.id), b"b"], producer_group=line.group)
    assert words(again) == ["exists", "limited"]


def test_two_brokers_create_the_same_message_once(store: Store, line: Line) -> None:
    other = Timeline(store, clock=line.clock)
    line.create("a")
    assert words(other.create(line.topic, [NewMessage(b"a", id="a")], producer_group=line.group)) == ["exists"]
    assert line.counts() == (0, 0, 1)
