"""A fanout that is complete publishes its message, once, in the transaction that completes it."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import NewMessage, OnComplete, Store, Timeline, Tracker
from batchline.errors import BatchlineError, FanoutExists, InvalidInput, UnknownTopic
from tests.contract.remote import Remote, timeline_on
from tests.contract.tracking import Finishing
from tests.doubles import HandClock, new_id


@pytest.fixture
def timeline(store: Store, clock: HandClock, remote: Remote | None) -> Timeline:
    return timeline_on(store, clock, remote)


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(new_id()).name


def published(timeline: Timeline, topic: str) -> list[tuple[str, bytes]]:
    return [(message.id, message.body) for message in timeline.lease(topic, "worker", limit=100)]


def test_the_last_ack_publishes_it(tracker: Tracker, timeline: Timeline, topic: str, finishing: Finishing) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic, b"all is done"))
    (group,) = tracker.add(fanout.id, 3)
    tracker.seal(fanout.id)
    items = [f"{fanout.id}:{group.id}:{index}" for index in range(3)]
    for item in items[:2]:
        finishing.ack([item])
    assert timeline.count(topic).total == 0
    finishing.ack([items[2]])
    finishing.ack(items)
    assert published(timeline, topic) == [(fanout.id, b"all is done")]


def test_the_seal_publishes_it_if_it_comes_last(tracker: Tracker, timeline: Timeline, topic: str) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic, b"x", id="follow-up", producer_group="imports"))
    (group,) = tracker.add(fanout.id, 1)
    tracker.ack([f"{fanout.id}:{group.id}:0"])
    assert timeline.count(topic).total == 0
    tracker.seal(fanout.id)
    tracker.seal(fanout.id)
    (message,) = timeline.lease(topic, "worker", limit=2)
    assert (message.id, message.body, message.producer_group) == ("follow-up", b"x", "imports")


@pytest.mark.parametrize(("after_us", "due_ms"), [(0, 0), (543, 1), (544, 2), (300_000_000, 300_001)])
def test_it_is_due_after_its_span_and_never_early(
    tracker: Tracker, timeline: Timeline, topic: str, clock: HandClock, after_us: int, due_ms: int
) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic, after=timedelta(microseconds=after_us)))
    clock.us += 7_000_000  # it shows 457 µs past a whole millisecond
    tracker.seal(fanout.id)
    assert timeline.next_due(topic, "worker") == clock.us // 1_000 + due_ms


def test_a_fanout_that_fails_publishes_nothing(tracker: Tracker, timeline: Timeline, topic: str) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic))
    (group,) = tracker.add(fanout.id, 1)
    tracker.seal(fanout.id)
    assert tracker.fail([f"{fanout.id}:{group.id}:0"], "broken").failed == (fanout.id,)
    tracker.expire(fanout.id)
    assert timeline.count(topic).total == 0


def test_a_child_and_its_parent_publish_both_with_one_ack(tracker: Tracker, timeline: Timeline, topic: str) -> None:
    parent = tracker.open(new_id(), on_complete=OnComplete(topic, b"parent"))
    child = tracker.open(new_id(), parent=parent.id, on_complete=OnComplete(topic, b"child"))
    (group,) = tracker.add(child.id, 1)
    tracker.seal(parent.id)
    tracker.seal(child.id)
    tracker.ack([f"{child.id}:{group.id}:0"])
    assert sorted(body for _, body in published(timeline, topic)) == [b"child", b"parent"]


def test_an_id_that_is_taken_costs_no_message(tracker: Tracker, timeline: Timeline, topic: str) -> None:
    timeline.create(topic, [NewMessage(b"something else", id="taken")], producer_group="p")
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic, b"mine", id="taken"))
    assert tracker.seal(fanout.id).completed
    assert sorted(body for _, body in published(timeline, topic)) == [b"mine", b"something else"]


def test_a_topic_that_was_deleted_does_not_keep_a_fanout_from_completing(
    tracker: Tracker, timeline: Timeline, topic: str
) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic))
    timeline.delete_topic(topic)
    assert tracker.seal(fanout.id).completed


def test_opening_again_must_name_the_same_message(tracker: Tracker, topic: str) -> None:
    fanout = tracker.open(new_id(), on_complete=OnComplete(topic, b"x"))
    assert tracker.open(fanout.id, on_complete=OnComplete(topic, b"x")) == fanout
    for other in (None, OnComplete(topic, b"y"), OnComplete(topic, b"x", after=timedelta(seconds=1))):
        with pytest.raises(FanoutExists, match="message"):
            tracker.open(fanout.id, on_complete=other)


def test_a_message_that_cannot_be_is_refused_before_anything_is_opened(tracker: Tracker) -> None:
    id = new_id()
    with pytest.raises(UnknownTopic):
        tracker.open(id, on_complete=OnComplete(new_id()))
    with pytest.raises(InvalidInput, match="OnComplete"):
        tracker.open(id, on_complete="topic")  # type: ignore[arg-type]
    wrongs: list[dict[str, Any]] = [
        {"topic": ""},
        {"body": "text"},
        {"id": "a\n"},
        {"after": 3},
        {"producer_group": ""},
    ]
    for wrong in wrongs:
        with pytest.raises(BatchlineError):
            OnComplete(**({"topic": "t"} | wrong))
    tracker.open(id)


def test_no_limit_of_the_topic_keeps_it_away(tracker: Tracker, timeline: Timeline) -> None:
    topic = timeline.create_topic(new_id(), rate_limit=0.001, max_ahead=timedelta(seconds=1)).name
    for _ in range(3):
        tracker.seal(tracker.open(new_id(), on_complete=OnComplete(topic, after=timedelta(days=1))).id)
    assert timeline.count(topic).waiting == 3
