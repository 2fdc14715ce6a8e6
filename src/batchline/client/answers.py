"""From what the service answers to what the tracker and the timeline give."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby

from batchline.core.ack import SealOutcome
from batchline.core.attendance import Subscription
from batchline.core.fanout import FailedItem, FanoutStatus
from batchline.core.future_load import Bin, Load
from batchline.core.message import Attempt, Held, Lease, LeasedMessage, Message, Outcome, Upcoming, read_lease
from batchline.core.moment import span_of
from batchline.core.topic import Topic
from batchline.runtime.tracker import ExpireOutcome
from batchline.stores.timeline_rows import ConsumerRow
from batchline.wire.fanouts import ExpireAnswer, FailedItems, FanoutForm, SealAnswer
from batchline.wire.form import at_of, body_of
from batchline.wire.messages import LeasedForm, LeasedMessages, MessageForm, Outcomes, UpcomingMessages
from batchline.wire.topics import Consumers, LoadForm, SubscriptionForm, TopicForm

__all__ = [
    "consumers_of",
    "expired_of",
    "failed_of",
    "leased_of",
    "load_of",
    "message_of",
    "outcomes_of",
    "sealed_of",
    "status_of",
    "subscription_of",
    "topic_of",
    "upcoming_of",
]


def status_of(form: FanoutForm) -> FanoutStatus:
    """What is known of a fanout."""
    return FanoutStatus(
        id=form.id,
        state=form.state,
        total=form.total,
        pending=form.pending,
        acked=form.acked,
        failed=form.failed,
        tolerate=None if form.tolerate == "any" else form.tolerate,
        parent=form.parent,
        opened_at=datetime.fromisoformat(form.opened_at),
        sealed_at=_moment(form.sealed_at),
        completed_at=_moment(form.completed_at),
        failed_at=_moment(form.failed_at),
        expired_at=_moment(form.expired_at),
        last_activity_at=datetime.fromisoformat(form.last_activity_at),
        labels=form.labels,
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def sealed_of(form: SealAnswer) -> SealOutcome:
    """What a seal did."""
    return SealOutcome(form.fanout, form.completed, tuple(form.parents_completed), tuple(form.parents_failed))


def failed_of(form: FailedItems) -> list[FailedItem]:
    """Items that failed for good."""
    return [FailedItem(one.id, one.reason, datetime.fromisoformat(one.failed_at)) for one in form.items]


def expired_of(form: ExpireAnswer) -> ExpireOutcome:
    """What expiry did."""
    return ExpireOutcome(form.expired, form.removed, form.completed, form.failed, form.more)


def topic_of(form: TopicForm) -> Topic:
    """A topic and its rules."""
    return Topic(
        form.name,
        form.buckets,
        span_of(form.max_ahead),
        span_of(form.lease),
        span_of(form.longest_lease),
        form.max_attempts,
        form.dead_letter,
        form.rate_limit,
        span_of(form.keep),
        form.deleted,
        form.internal,
    )


def subscription_of(form: SubscriptionForm) -> Subscription:
    """A consumer's share."""
    buckets = range(form.buckets.begin, form.buckets.end)
    return Subscription(form.topic, form.consumer, buckets, form.consumers, timedelta(milliseconds=form.drift_ms))


def consumers_of(form: Consumers) -> list[ConsumerRow]:
    """Those who take part in a topic."""
    return [ConsumerRow(one.consumer, at_of(one.seen), one.drift_ms, one.messages_per_second) for one in form.consumers]


def load_of(form: LoadForm) -> Load:
    """The future load of a topic."""
    bins = (
        Bin(datetime.fromisoformat(one.begin), datetime.fromisoformat(one.end), one.count, one.spike)
        for one in form.bins
    )
    return Load(tuple(bins), form.messages_per_second)


def outcomes_of(form: Outcomes) -> list[Outcome]:
    """What became of the messages of a call."""
    return [
        Outcome(one.id, one.outcome, None if one.lease is None else read_lease(one.lease), one.reason)
        for one in form.outcomes
    ]


def message_of(form: MessageForm) -> Message:
    """A message as its owner, or who holds its lease, may read it."""
    return Message(
        topic=form.topic,
        id=form.id,
        body=body_of(form),
        state=form.state,
        at=datetime.fromisoformat(form.at),
        producer_group=form.producer_group,
        consumer=form.consumer,
        version=form.version,
        attempts=form.attempts,
        priority=form.priority,
        bucket=form.bucket,
        history=tuple(
            Attempt(one.attempt, one.consumer, one.ending, at_of(one.ended), one.reason) for one in form.history
        ),
    )


def upcoming_of(form: UpcomingMessages) -> list[Upcoming]:
    """Messages that will be due."""
    return [Upcoming(one.id, one.version, at_of(one.at)) for one in form.messages]


def leased_of(form: LeasedMessages) -> list[LeasedMessage]:
    """Messages in the hands of a consumer; those that were leased together are kept together."""
    found = [(read_lease(one.lease), one) for one in form.messages]
    return [message for _, together in groupby(found, key=_together) for message in _held(list(together))]


def _together(one: tuple[Lease, LeasedForm]) -> tuple[object, ...]:
    lease, form = one
    return lease.topic, lease.bundle, lease.spot, lease.version, form.at


def _held(found: list[tuple[Lease, LeasedForm]]) -> Iterator[LeasedMessage]:
    lease, form = found[0]
    places = 1 + max(one.place for one, _ in found)
    ids, bodies = [""] * places, [b""] * places
    for one, said in found:
        ids[one.place], bodies[one.place] = one.id, body_of(said)
    shared = (lease.topic, lease.version, lease.consumer, lease.until_ms, lease.bundle, lease.spot)
    held = Held(*shared, form.attempts, form.producer_group, at_of(form.at), ids, bodies)
    return (LeasedMessage(held, one.place) for one, _ in found)
