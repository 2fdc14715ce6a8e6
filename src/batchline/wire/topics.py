"""Topics over HTTP: their rules, who consumes them, and how many messages stand where."""

from typing import Any

from msgspec import UNSET, UnsetType

from batchline.core.attendance import Subscription
from batchline.core.future_load import Counts, Load
from batchline.core.topic import Topic
from batchline.wire.form import AnswerForm, At, Form, Name, Span, moment_text, read_span, span_text

__all__ = [
    "BinForm",
    "BucketsForm",
    "ConsumerForm",
    "Consumers",
    "CountsForm",
    "HeartbeatForm",
    "LoadForm",
    "NewTopicForm",
    "NextDue",
    "SubscriptionForm",
    "TopicForm",
    "TopicRulesForm",
    "Topics",
    "counts_form",
    "load_form",
    "rules_of",
    "subscription_form",
    "topic_form",
]

SPANS = ("max_ahead", "lease", "longest_lease", "keep")


class TopicRulesForm(Form):
    """Rules of a topic to be changed; what is not given stays as it is."""

    buckets: int | UnsetType = UNSET
    max_ahead: Span | UnsetType = UNSET
    lease: Span | UnsetType = UNSET
    longest_lease: Span | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    dead_letter: Name | UnsetType | None = UNSET
    rate_limit: float | UnsetType | None = UNSET
    keep: Span | UnsetType = UNSET


class NewTopicForm(TopicRulesForm, kw_only=True):
    """A topic to be created; rules that are not given have the usual values."""

    name: Name


class TopicForm(AnswerForm, omit_defaults=False):
    """A topic and its rules."""

    name: Name
    buckets: int
    max_ahead: Span
    lease: Span
    longest_lease: Span
    max_attempts: int | None
    dead_letter: Name | None
    rate_limit: float | None
    keep: Span
    deleted: bool
    internal: bool = False


class Topics(AnswerForm):
    """Topics, by name."""

    topics: list[TopicForm]


class HeartbeatForm(Form):
    """What a consumer's clock shows, and how fast it has been."""

    clock: At | None = None
    messages_per_second: float = 0.0


class BucketsForm(AnswerForm):
    """From which bucket on, up to before which."""

    begin: int
    end: int


class SubscriptionForm(AnswerForm):
    """A consumer's share of a topic."""

    topic: Name
    consumer: Name
    buckets: BucketsForm
    consumers: int
    #: How far the consumer's clock is ahead of the broker's, in milliseconds.
    drift_ms: float


class ConsumerForm(AnswerForm):
    """A consumer that takes part in a topic."""

    consumer: Name
    seen: str
    drift_ms: int
    messages_per_second: float


class Consumers(AnswerForm):
    """Those who take part in a topic."""

    consumers: list[ConsumerForm]


class NextDue(AnswerForm, omit_defaults=False):
    """When the next message is, or was, due."""

    at: str | None


class CountsForm(AnswerForm):
    """Messages by state, in a range."""

    waiting: int
    processing: int
    available: int


class BinForm(AnswerForm):
    """A stretch of the future, and how many messages become due in it."""

    begin: str
    end: str
    count: int
    spike: bool


class LoadForm(AnswerForm, omit_defaults=False):
    """The future load of a topic."""

    bins: list[BinForm]
    messages_per_second: float | None


def rules_of(form: TopicRulesForm) -> dict[str, Any]:
    """The rules that a form gives."""
    given = {name: getattr(form, name) for name in TopicRulesForm.__struct_fields__}
    rules = {name: value for name, value in given.items() if value is not UNSET}
    return {name: read_span(name, value) if name in SPANS else value for name, value in rules.items()}


def topic_form(topic: Topic) -> TopicForm:
    """A topic as it is answered."""
    return TopicForm(
        topic.name,
        topic.buckets,
        span_text(topic.max_ahead),
        span_text(topic.lease),
        span_text(topic.longest_lease),
        topic.max_attempts,
        topic.dead_letter,
        topic.rate_limit,
        span_text(topic.keep),
        topic.deleted,
        topic.internal,
    )


def subscription_form(subscription: Subscription) -> SubscriptionForm:
    """A share as it is answered."""
    buckets = BucketsForm(subscription.buckets.start, subscription.buckets.stop)
    drift_ms = subscription.drift.total_seconds() * 1_000
    return SubscriptionForm(subscription.topic, subscription.consumer, buckets, subscription.consumers, drift_ms)


def counts_form(counts: Counts) -> CountsForm:
    """Counts as they are answered."""
    return CountsForm(counts.waiting, counts.processing, counts.available)


def load_form(load: Load) -> LoadForm:
    """A load as it is answered."""
    bins = [BinForm(moment_text(one.begin), moment_text(one.end), one.count, one.spike) for one in load.bins]
    return LoadForm(bins, load.messages_per_second)
