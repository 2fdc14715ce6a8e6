"""Messages over HTTP: what producers put on the line, and what consumers hold of it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta, field

from batchline.core.due_time import Due
from batchline.core.message import (
    LeasedMessage,
    Message,
    MessagePage,
    MessageState,
    NewMessage,
    Outcome,
    OutcomeWord,
    Upcoming,
    lease_text,
)
from batchline.core.timeline_checks import LEASED_BYTES, MOST_CALL_NUMBER
from batchline.wire.form import (
    MOST_AT_ONCE,
    AfterMs,
    AnswerForm,
    At,
    Form,
    Name,
    Span,
    body_of,
    given_after,
    given_ms,
    moment_text,
    ms_of_at,
    ms_text,
    text_body,
)

__all__ = [
    "LONGEST_WAIT",
    "AfterForm",
    "AttemptForm",
    "CancelForm",
    "ExtendForm",
    "LeaseForm",
    "LeaseOneForm",
    "LeasedForm",
    "LeasedMessages",
    "LeasesForm",
    "MessageForm",
    "Messages",
    "MoveForm",
    "NewMessageForm",
    "NewMessages",
    "OutcomeForm",
    "Outcomes",
    "ReleaseForm",
    "UpcomingForm",
    "UpcomingMessages",
    "leased_messages",
    "message_form",
    "messages_form",
    "new_message",
    "new_moments",
    "outcomes_form",
    "upcoming_form",
]

Leases = Annotated[list[str], Meta(max_length=MOST_AT_ONCE, description="Leases as they were given out.")]


#: How errors name the due time of a message.
MOMENT: Final = "the moment of a message"
#: How long a request may wait for messages.
LONGEST_WAIT: Final = timedelta(seconds=30)


class NewMessageForm(Form):
    """A message to create. Without an id one is made; without `at` or `after_ms` it is due at once."""

    body: str | None = None
    body_base64: str | None = None
    at: At | None = None
    id: Name | None = None
    priority: int = 0
    #: In place of `at`: milliseconds from now, by the service's clock.
    after_ms: AfterMs | None = None


class NewMessages(Form):
    """Messages to be put on the line."""

    messages: Annotated[list[NewMessageForm], Meta(max_length=MOST_AT_ONCE)]
    #: A number that no other call has: repeated with the same one, it creates nothing twice. Up to 5,000 messages.
    call_number: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST_CALL_NUMBER})] | None = None


class AfterForm(Form):
    """A due time that is this many milliseconds from now, by the service's clock."""

    after_ms: AfterMs


class MoveForm(Form):
    """New due times of messages, by id: a moment, or `{"after_ms": …}`."""

    moments: Annotated[dict[str, At | AfterForm], Meta(max_length=MOST_AT_ONCE)]


class CancelForm(Form):
    """Messages to be taken off the line."""

    ids: Annotated[list[str], Meta(max_length=MOST_AT_ONCE)]


class LeaseForm(Form):
    """Who wants messages that are due, how many, for how long; and how long it waits if there are none."""

    consumer: Name
    limit: int = 1
    #: A span such as 30s; without it, the topic's.
    duration: Span | None = None
    #: From which bucket on, up to before which.
    buckets: tuple[int, int] | None = None
    #: A span up to 30s.
    wait: Span | None = None
    #: Bytes of bodies that the answer has at most, unless it is one message alone; up to 8 MiB, which is the default.
    max_bytes: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": LEASED_BYTES})] | None = None


class LeaseOneForm(Form):
    """Who wants the message that `upcoming` told of."""

    id: Name
    version: int
    consumer: Name
    duration: Span | None = None


class LeasesForm(Form):
    """Leases of messages that are done."""

    leases: Leases


class ExtendForm(Form):
    """Leases that are to hold for so long from now on."""

    leases: Leases
    duration: Span | None = None


class ReleaseForm(Form):
    """Leases to give back: the messages are due again at once, at a moment, or after a span."""

    leases: Leases
    at: At | None = None
    reason: str = ""
    #: In place of `at`: milliseconds from now, by the service's clock.
    after_ms: AfterMs | None = None


class OutcomeForm(AnswerForm):
    """What became of one message of a call."""

    id: Name
    outcome: OutcomeWord
    #: The lease that holds from now on, after it was extended.
    lease: str | None = None
    reason: str = ""


class Outcomes(AnswerForm):
    """What became of the messages of a call, in their order."""

    outcomes: list[OutcomeForm]


class LeasedForm(AnswerForm):
    """A message in the hands of a consumer."""

    id: Name
    #: The right to it: extend, release and done take it.
    lease: str
    #: When the lease ends, unless it is extended.
    until: str
    at: str
    attempts: int
    producer_group: str
    body: str | None = None
    body_base64: str | None = None


class LeasedMessages(AnswerForm):
    """Messages in the hands of a consumer; of a list in pages, `next` is the `after` of the next page."""

    messages: list[LeasedForm]
    next: str | None = None


class AttemptForm(AnswerForm):
    """A lease that came to nothing."""

    attempt: int
    consumer: Name
    ending: str
    ended: str
    reason: str = ""


class MessageForm(AnswerForm):
    """A message as its owner, or who holds its lease, may read it."""

    topic: Name
    id: Name
    state: MessageState
    at: str
    producer_group: str
    version: int
    attempts: int
    priority: int
    bucket: int
    consumer: Name | None = None
    body: str | None = None
    body_base64: str | None = None
    history: list[AttemptForm] = field(default_factory=list)


class Messages(AnswerForm):
    """Some messages, and where the next page begins."""

    messages: list[MessageForm]
    next: str | None = None


class UpcomingForm(AnswerForm):
    """A message that will be due."""

    id: Name
    version: int
    at: str


class UpcomingMessages(AnswerForm):
    """Messages that will be due."""

    messages: list[UpcomingForm]


def new_message(form: NewMessageForm) -> NewMessage:
    """The message of a form."""
    at = given_ms(MOMENT, form.at)
    return NewMessage(body_of(form), at, form.id, form.priority, given_after(MOMENT, form.after_ms))


def new_moments(form: MoveForm) -> dict[str, Due]:
    """Return the due times of a form, by id."""
    return {id: _due(due) for id, due in form.moments.items()}


def _due(due: At | AfterForm) -> Due:
    if not isinstance(due, AfterForm):
        return ms_of_at(MOMENT, due)
    return given_after(MOMENT, due.after_ms) or timedelta(0)


def outcomes_form(outcomes: list[Outcome]) -> Outcomes:
    """Outcomes as they are answered."""
    return Outcomes(
        [OutcomeForm(id, word, None if lease is None else lease_text(lease), why) for id, word, lease, why in outcomes]
    )


def leased_messages(messages: Iterable[LeasedMessage], after: str | None = None) -> LeasedMessages:
    """Return leased messages as they are answered, with where the next page begins."""
    return LeasedMessages([_leased(message) for message in messages], after)


def _leased(message: LeasedMessage) -> LeasedForm:
    held, lease = message.held, message.lease
    return LeasedForm(
        lease.id,
        lease_text(lease),
        ms_text(lease.until_ms),
        ms_text(held.at_ms),
        held.attempts,
        held.producer_group,
        *text_body(message.body),
    )


def message_form(message: Message) -> MessageForm:
    """A message as it is answered."""
    body, body_base64 = text_body(message.body)
    return MessageForm(
        topic=message.topic,
        id=message.id,
        state=message.state,
        at=moment_text(message.at),
        producer_group=message.producer_group,
        version=message.version,
        attempts=message.attempts,
        priority=message.priority,
        bucket=message.bucket,
        consumer=message.consumer,
        body=body,
        body_base64=body_base64,
        history=[
            AttemptForm(one.attempt, one.consumer, one.ending, ms_text(one.ended_ms), one.reason)
            for one in message.history
        ],
    )


def messages_form(page: MessagePage) -> Messages:
    """A page of messages as it is answered."""
    return Messages([message_form(message) for message in page.messages], page.next)


def upcoming_form(messages: list[Upcoming]) -> UpcomingMessages:
    """Upcoming messages as they are answered."""
    return UpcomingMessages([UpcomingForm(one.id, one.version, ms_text(one.at_ms)) for one in messages])
