"""The verbs of topics: their rules, who consumes them, and how many messages stand where."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from batchline.client.answers import consumers_of, load_of, subscription_of, topic_of
from batchline.client.asking import Calls, Nothing
from batchline.client.exchange import Steps, address, request
from batchline.client.verb import Verb
from batchline.core.attendance import Subscription
from batchline.core.future_load import Counts, Load
from batchline.core.message import LATEST_MS, check_at
from batchline.core.moment import span_text
from batchline.core.name import check_name
from batchline.core.timeline_checks import MOST_BINS, check_number, check_range, check_speed
from batchline.core.topic import Topic
from batchline.errors import InvalidInput
from batchline.stores.timeline_rows import ConsumerRow
from batchline.wire.topics import (
    SPANS,
    Consumers,
    CountsForm,
    HeartbeatForm,
    LoadForm,
    NewTopicForm,
    SubscriptionForm,
    TopicForm,
    TopicRulesForm,
    Topics,
)

__all__ = ["TopicVerbs", "topic_path"]

TOPICS: Final = "/v1/topics"


def topic_path(topic: str, *rest: str) -> str:
    """The address of a topic, or of something of it."""
    return address("v1", "topics", check_name("the name of a topic", topic), *rest)


class TopicVerbs(Calls):
    """Topics on a service: see `Timeline`."""

    @Verb
    def create_topic(self, /, name: str, **rules: Any) -> Steps[Topic]:
        """Create a topic, with the rules of `Topic`. Creating it again in the same way changes nothing."""
        Topic(name, **rules)
        return topic_of((yield from self._send("POST", TOPICS, NewTopicForm(name=name, **_said(rules)), TopicForm)))

    @Verb
    def update_topic(self, /, name: str, **rules: Any) -> Steps[Topic]:
        """Change rules of a topic, all but its buckets."""
        path = topic_path(name)
        replace(topic_of((yield from self._ask(request("GET", path), TopicForm))), **rules)
        return topic_of((yield from self._send("PATCH", path, TopicRulesForm(**_said(rules)), TopicForm)))

    @Verb
    def delete_topic(self, name: str) -> Steps[None]:
        """Let a topic take no more messages. Its name is free again when all of them are removed."""
        yield from self._ask(request("DELETE", topic_path(name)), Nothing)

    @Verb
    def topic(self, name: str) -> Steps[Topic]:
        """A topic and its rules."""
        return topic_of((yield from self._ask(request("GET", topic_path(name)), TopicForm)))

    @Verb
    def topics(self) -> Steps[list[Topic]]:
        """All topics that the token is for, by name."""
        return [topic_of(form) for form in (yield from self._ask(request("GET", TOPICS), Topics)).topics]

    @Verb
    def count(self, topic: str, from_: datetime | int = 0, to: datetime | int = LATEST_MS) -> Steps[Counts]:
        """Messages by state whose moments are in a range, from a moment on and up to before another."""
        span = check_range(from_, to)
        asked = request("GET", topic_path(topic, "count"), from_=span.begin_ms, to=span.end_ms)
        answer = yield from self._ask(asked, CountsForm)
        return Counts(answer.waiting, answer.processing, answer.available)

    @Verb
    def load(
        self, topic: str, *, from_: datetime | int | None = None, to: datetime | int, bins: int = 60
    ) -> Steps[Load]:
        """How many messages wait over a range of the future, and where they are more than the consumers can take."""
        path = topic_path(topic, "load")
        check_number("bins", bins, MOST_BINS)
        begin_ms = None if from_ is None else check_at("the beginning of a range", from_)
        end_ms = check_at("the end of a range", to)
        return load_of((yield from self._ask(request("GET", path, from_=begin_ms, to=end_ms, bins=bins), LoadForm)))

    # --- who is there ---

    @Verb
    def subscribe(self, topic: str, consumer: str) -> Steps[Subscription]:
        """Take part in a topic: a share of its buckets, for as long as `heartbeat` is called."""
        return (yield from self._beat(topic, consumer, HeartbeatForm()))

    @Verb
    def heartbeat(
        self, topic: str, consumer: str, *, clock_ms: int | None = None, messages_per_second: float = 0.0
    ) -> Steps[Subscription]:
        """Say that a consumer is there, what its clock shows, and how fast it has been; answers its share."""
        check_speed(messages_per_second)
        clock = None if clock_ms is None else check_at("the clock of a consumer", clock_ms)
        return (yield from self._beat(topic, consumer, HeartbeatForm(clock, float(messages_per_second))))

    def _beat(self, topic: str, consumer: str, form: HeartbeatForm) -> Steps[Subscription]:
        share = subscription_of((yield from self._send("PUT", _consumer(topic, consumer), form, SubscriptionForm)))
        self._shares[topic, consumer] = (share.buckets, self._now_us())
        return share

    @Verb
    def unsubscribe(self, topic: str, consumer: str) -> Steps[None]:
        """Leave a topic: the others share its buckets from their next heartbeat on."""
        path = _consumer(topic, consumer)
        self._shares.pop((topic, consumer), None)
        yield from self._ask(request("DELETE", path), Nothing)

    @Verb
    def consumers(self, topic: str) -> Steps[list[ConsumerRow]]:
        """The consumers that take part in a topic."""
        return consumers_of((yield from self._ask(request("GET", topic_path(topic, "consumers")), Consumers)))


def _consumer(topic: str, consumer: str) -> str:
    return topic_path(topic, "consumers", check_name("the consumer", consumer))


def _said(rules: dict[str, Any]) -> dict[str, Any]:
    """Rules as the service reads them."""
    for name in rules.keys() - set(TopicRulesForm.__struct_fields__):
        raise InvalidInput(f"{name} is no rule that can be given to a topic")
    return {name: span_text(rule) if name in SPANS else rule for name, rule in rules.items()}
