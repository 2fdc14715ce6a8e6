"""Topics: created once, changed but for their buckets, deleted when nothing is left of them."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import NewMessage, Timeline, Topic
from batchline.errors import InvalidRules, TopicDeleted, TopicExists, UnknownTopic
from tests.contract.timeline.line import Line, prune
from tests.doubles import HandClock, new_id

RULES: dict[str, Any] = {
    "buckets": 89,
    "max_ahead": timedelta(days=2, microseconds=1),
    "lease": timedelta(seconds=1),
    "longest_lease": timedelta(hours=1),
    "rate_limit": 12.5,
}


def test_a_topic_is_kept_with_its_rules(timeline: Timeline) -> None:
    name, dead = new_id(), new_id()
    made = timeline.create_topic(name, max_attempts=3, dead_letter=dead, **RULES)
    assert made == Topic(name, max_attempts=3, dead_letter=dead, number=made.number, **RULES)
    assert timeline.topic(name) == made
    assert made in timeline.topics()


def test_a_topic_has_the_usual_rules_unless_it_is_said_otherwise(timeline: Timeline) -> None:
    name = new_id()
    made = timeline.create_topic(name)
    assert made == Topic(name, number=made.number)


def test_creating_a_topic_again_in_the_same_way_changes_nothing(timeline: Timeline) -> None:
    name = new_id()
    assert timeline.create_topic(name, **RULES) == timeline.create_topic(name, **RULES)


@pytest.mark.parametrize("other", [{"buckets": 88}, {"lease": timedelta(seconds=2)}, {"rate_limit": None}], ids=str)
def test_a_topic_of_this_name_with_other_rules_is_in_the_way(timeline: Timeline, other: dict[str, Any]) -> None:
    name = new_id()
    made = timeline.create_topic(name, **RULES)
    with pytest.raises(TopicExists, match="is there with other rules"):
        timeline.create_topic(name, **(RULES | other))
    assert timeline.topic(name) == made


def test_a_dead_letter_topic_is_made_unless_it_is_there(timeline: Timeline) -> None:
    name, other, dead = new_id(), new_id(), new_id()
    timeline.create_topic(name, max_attempts=1, dead_letter=dead, buckets=7)
    made = timeline.topic(dead)
    assert (made.buckets, made.max_attempts, made.dead_letter) == (7, None, None)
    timeline.create_topic(other, max_attempts=1, dead_letter=dead, buckets=9)
    assert timeline.topic(dead) == made


def test_topics_are_listed_by_name(fresh_line: Line) -> None:
    timeline = fresh_line.timeline
    for name in ("zebra", "apple", "mango"):
        timeline.create_topic(name)
    names = [topic.name for topic in timeline.topics()]
    assert names == sorted([fresh_line.topic, "apple", "mango", "zebra"])


def test_names_that_look_alike_are_two_topics(timeline: Timeline) -> None:
    name = new_id()
    alike = (name, f"{name} ", name.upper(), f"{name}é", f"{name}e\u0301")
    for buckets, one in enumerate(alike, 1):
        timeline.create_topic(one, buckets=buckets)
    assert [(timeline.topic(one).name, timeline.topic(one).buckets) for one in alike] == list(
        zip(alike, range(1, 6), strict=True)
    )


# --- update -----------------------------------------------------------------------------------------------------------


def test_rules_can_be_changed_and_the_others_stay(timeline: Timeline) -> None:
    name, dead = new_id(), new_id()
    made = timeline.create_topic(name, **RULES)
    timeline.update_topic(name, lease=timedelta(seconds=7), rate_limit=None)
    changed = timeline.topic(name)
    assert (changed.number, changed.lease, changed.rate_limit) == (made.number, timedelta(seconds=7), None)
    assert (changed.max_ahead, changed.longest_lease) == (made.max_ahead, made.longest_lease)
    assert timeline.update_topic(name, max_attempts=2, dead_letter=dead).dead_letter == dead
    assert timeline.topic(dead).buckets == 89
    assert timeline.update_topic(name, max_attempts=None, dead_letter=None).max_attempts is None


def test_the_buckets_of_a_topic_stay(timeline: Timeline) -> None:
    name = new_id()
    made = timeline.create_topic(name)
    with pytest.raises(InvalidRules, match="was made with 1024 buckets and keeps them"):
        timeline.update_topic(name, buckets=8)
    assert timeline.topic(name) == made


def test_rules_that_contradict_themselves_change_nothing(timeline: Timeline) -> None:
    name = new_id()
    made = timeline.create_topic(name)
    with pytest.raises(InvalidRules):
        timeline.update_topic(name, lease=timedelta(hours=13))
    with pytest.raises(InvalidRules):
        timeline.update_topic(name, max_attempts=5)
    assert timeline.topic(name) == made


def test_new_rules_hold_from_the_next_call_on(line: Line) -> None:
    line.create("a", "b")
    line.timeline.update_topic(line.topic, max_ahead=timedelta(0), lease=timedelta(seconds=2))
    assert line.move(a=line.now + 2) == ["too_far"]
    (leased,) = line.timeline.lease(line.topic, "w")
    assert leased.lease.until_ms == line.now + 2_000


# --- delete -----------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_being_deleted_takes_nothing_new(line: Line) -> None:
    line.create("a")
    line.timeline.delete_topic(line.topic)
    line.timeline.delete_topic(line.topic)
    assert line.timeline.topic(line.topic).deleted
    calls: list[Any] = [
        lambda: line.create("b"),
        lambda: line.move(a=line.now),
        lambda: line.lease(),
        lambda: line.timeline.lease_one(line.topic, "a", 1, "w"),
        lambda: line.timeline.upcoming(line.topic, "w"),
        lambda: line.timeline.next_due(line.topic, "w"),
        lambda: line.timeline.subscribe(line.topic, "w"),
        lambda: line.timeline.create_topic(line.topic),
        lambda: line.timeline.update_topic(line.topic, lease=timedelta(seconds=5)),
    ]
    for call in calls:
        with pytest.raises(TopicDeleted, match="is being deleted: its name is free again when its messages are gone"):
            call()
    assert line.read("a").version == 1
    assert line.counts() == (0, 0, 1)
    assert line.cancel("a") == ["cancelled"]


def test_a_name_is_free_again_when_the_messages_are_gone(fresh_line: Line, clock: HandClock) -> None:
    line, timeline = fresh_line, fresh_line.timeline
    line.create("a", "b", at=line.now + 5)
    number = line.stored.number
    timeline.delete_topic(line.topic)
    prune(timeline._store, clock)
    with pytest.raises(UnknownTopic):
        timeline.topic(line.topic)
    assert timeline.topics() == []
    assert line.messages() == ()
    assert timeline.create_topic(line.topic, buckets=8).buckets == 8
    assert line.stored.number != number
    assert line.counts() == (0, 0, 0)
    line.create("a", "b")
    assert line.counts() == (0, 0, 2)


def test_who_has_a_lease_finishes_before_a_topic_goes(fresh_line: Line, clock: HandClock) -> None:
    line, timeline = fresh_line, fresh_line.timeline
    first, second, third = line.leased("a", "b", "c")
    line.create("d")
    timeline.delete_topic(line.topic)
    prune(timeline._store, clock)
    assert sorted(one.id for one in line.messages()) == ["a", "b", "c"]
    assert sorted(one.id for one in timeline.my_leases("w")) == ["a", "b", "c"]
    (extended,) = timeline.extend(first)
    assert extended.outcome == "extended"
    assert [one.outcome for one in timeline.done([second])] == ["done"]
    assert [one.outcome for one in timeline.release([third], line.now + 10_000)] == ["released"]
    prune(timeline._store, clock)
    assert [one.id for one in line.messages()] == ["a"]
    assert timeline.topic(line.topic).deleted
    assert extended.lease is not None
    line.until(extended.lease.until_ms)
    prune(timeline._store, clock)
    assert timeline.topics() == []
    assert [one.outcome for one in timeline.done([extended.lease])] == ["done"]


@pytest.mark.parametrize("verb", ["topic", "delete_topic", "update_topic", "count", "consumers"])
def test_a_topic_that_is_not_there_is_unknown(timeline: Timeline, verb: str) -> None:
    with pytest.raises(UnknownTopic, match="create it first"):
        getattr(timeline, verb)(new_id())


def test_nothing_can_be_created_where_there_is_no_topic(timeline: Timeline) -> None:
    with pytest.raises(UnknownTopic):
        timeline.create(new_id(), [NewMessage()], producer_group="pipeline")
    with pytest.raises(UnknownTopic):
        timeline.lease(new_id(), "w")


def test_a_share_of_a_topic_that_was_made_anew_is_none_of_the_old(fresh_line: Line, clock: HandClock) -> None:
    """A consumer that had a share of many buckets asks a topic that has few."""
    line, timeline = fresh_line, fresh_line.timeline
    timeline.subscribe(line.topic, "w")
    timeline.delete_topic(line.topic)
    prune(timeline._store, clock)
    line.make(buckets=2)
    line.create("a", "b", "c")
    assert sorted(one.id for one in line.lease("w")) == ["a", "b", "c"]
