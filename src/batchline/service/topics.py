"""`/v1/topics`: topics, who consumes them, and how many messages stand where."""

from datetime import timedelta
from typing import Final

from batchline.core.message import LATEST_MS
from batchline.errors import InvalidRules, TopicDeleted, TopicExists, UnknownTopic
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.form import At, Form, Span, given_ms, ms_of_at, ms_text, read_span
from batchline.wire.topics import (
    ConsumerForm,
    Consumers,
    CountsForm,
    HeartbeatForm,
    LoadForm,
    NewTopicForm,
    SubscriptionForm,
    TopicForm,
    TopicRulesForm,
    Topics,
    counts_form,
    load_form,
    rules_of,
    subscription_form,
    topic_form,
)

__all__ = ["OPERATIONS", "TOPIC"]


class RangeQuery(Form, rename={"from_": "from"}):
    """A range of moments: from one on, up to before another."""

    from_: At | None = None
    to: At | None = None


class LoadQuery(Form, rename={"from_": "from"}):
    """The range of a histogram, and how many bins it has."""

    to: At | None = None
    from_: At | None = None
    #: In place of `to`: a span from the beginning on.
    within: Span | None = None
    bins: int = 60


def list_topics(call: Call[NoForm]) -> Topics:
    """All topics that the token is for, by name."""
    return Topics([topic_form(topic) for topic in call.parts.timeline.topics() if call.caller.may_see(topic.name)])


def create_topic(call: Call[NewTopicForm]) -> TopicForm:
    """Create a topic. Creating it again in the same way changes nothing."""
    call.caller.check_topic(call.form.name)
    return topic_form(call.parts.timeline.create_topic(call.form.name, **rules_of(call.form)))


def read_topic(call: Call[NoForm]) -> TopicForm:
    """A topic and its rules."""
    return topic_form(call.parts.timeline.topic(call.topic))


def update_topic(call: Call[TopicRulesForm]) -> TopicForm:
    """Change rules of a topic, all but its buckets."""
    return topic_form(call.parts.timeline.update_topic(call.topic, **rules_of(call.form)))


def delete_topic(call: Call[NoForm]) -> None:
    """Let a topic take no more messages; its name is free again when all of them are removed."""
    call.parts.timeline.delete_topic(call.topic)


def count_messages(call: Call[RangeQuery]) -> CountsForm:
    """Messages by state whose moments are in a range."""
    begin = 0 if call.form.from_ is None else ms_of_at("from", call.form.from_)
    end = LATEST_MS if call.form.to is None else ms_of_at("to", call.form.to)
    return counts_form(call.parts.timeline.count(call.topic, begin, end))


def read_load(call: Call[LoadQuery]) -> LoadForm:
    """How many messages wait over a range of the future, and where they are more than the consumers can take."""
    timeline, form = call.parts.timeline, call.form
    begin = timeline.now_ms() if form.from_ is None else ms_of_at("from", form.from_)
    return load_form(timeline.load(call.topic, from_=begin, to=_end(form, begin), bins=form.bins))


def _end(form: LoadQuery, begin: int) -> int:
    if (form.to is None) == (form.within is None):
        raise InvalidRules("expected to, a moment, or within, a span such as 1h: one of them")
    if form.within is None:
        return ms_of_at("to", form.to or 0)
    return min(begin + read_span("within", form.within) // timedelta(milliseconds=1), LATEST_MS)


def list_consumers(call: Call[NoForm]) -> Consumers:
    """The consumers that take part in a topic."""
    return Consumers(
        [
            ConsumerForm(one.consumer, ms_text(one.seen_ms), one.drift_ms, one.messages_per_second)
            for one in call.parts.timeline.consumers(call.topic)
        ]
    )


def heartbeat(call: Call[HeartbeatForm]) -> SubscriptionForm:
    """Say that a consumer is there; answers its share of the buckets, for as long as it says so."""
    clock_ms = given_ms("clock", call.form.clock)
    return subscription_form(
        call.parts.timeline.heartbeat(
            call.topic,
            call.caller.check_consumer(call.path["consumer"]),
            clock_ms=clock_ms,
            messages_per_second=call.form.messages_per_second,
        )
    )


def unsubscribe(call: Call[NoForm]) -> None:
    """Leave a topic: the others share its buckets."""
    call.parts.timeline.unsubscribe(call.topic, call.caller.check_consumer(call.path["consumer"]))


TOPIC: Final = "/v1/topics/{topic}"
CONSUMER: Final = f"{TOPIC}/consumers/{{consumer}}"
CHANGED: Final = (UnknownTopic, TopicDeleted)

OPERATIONS: Final = (
    Operation("GET", "/v1/topics", "read", list_topics, answer=Topics),
    Operation("POST", "/v1/topics", "admin", create_topic, NewTopicForm, TopicForm, 201, (TopicExists, TopicDeleted)),
    Operation("GET", TOPIC, "read", read_topic, answer=TopicForm, refusals=(UnknownTopic,)),
    Operation("PATCH", TOPIC, "admin", update_topic, TopicRulesForm, TopicForm, refusals=CHANGED),
    Operation("DELETE", TOPIC, "admin", delete_topic, refusals=(UnknownTopic,)),
    Operation("GET", f"{TOPIC}/count", "read", count_messages, RangeQuery, CountsForm, refusals=(UnknownTopic,)),
    Operation("GET", f"{TOPIC}/load", "read", read_load, LoadQuery, LoadForm, refusals=(UnknownTopic,)),
    Operation("GET", f"{TOPIC}/consumers", "read", list_consumers, answer=Consumers, refusals=(UnknownTopic,)),
    Operation("PUT", CONSUMER, "consume", heartbeat, HeartbeatForm, SubscriptionForm, refusals=CHANGED),
    Operation("DELETE", CONSUMER, "consume", unsubscribe, refusals=(UnknownTopic,)),
)
