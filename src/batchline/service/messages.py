"""`/v1/topics/{topic}/messages`: what producers do with messages of theirs."""

from typing import Final

from batchline.core.message import LARGEST_BODY, read_lease
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.errors import CallTaken, ForeignMessage, TopicDeleted, UnknownMessage, UnknownTopic
from batchline.service.operation import Call, Operation
from batchline.wire.form import Form
from batchline.wire.messages import (
    CancelForm,
    MessageForm,
    Messages,
    MoveForm,
    NewMessages,
    Outcomes,
    message_form,
    messages_form,
    new_message,
    new_moments,
    outcomes_form,
)

__all__ = ["MESSAGES", "OPERATIONS"]

MESSAGES: Final = "/v1/topics/{topic}/messages"


class ReadQuery(Form):
    """By whose right a message is read: its owner's, or that of who holds this lease."""

    lease: str | None = None


class PageQuery(Form):
    """Which page: `after` is the `next` of the page before."""

    after: str | None = None
    limit: int = 100


def create_messages(call: Call[NewMessages]) -> Outcomes:
    """Create messages; they are stored before the answer is sent."""
    messages = [new_message(form) for form in call.form.messages]
    group, number = call.caller.producer_group(), call.form.call_number
    outcomes = call.parts.timeline.create(call.topic, messages, producer_group=group, call_number=number)
    call.parts.pumps.wake(call.topic)
    return outcomes_form(outcomes)


def move_messages(call: Call[MoveForm]) -> Outcomes:
    """Reschedule messages of your producer group; a message with an active lease stays as it is."""
    group = call.caller.producer_group()
    outcomes = call.parts.timeline.move(call.topic, new_moments(call.form), producer_group=group)
    call.parts.pumps.wake(call.topic)
    return outcomes_form(outcomes)


def cancel_messages(call: Call[CancelForm]) -> Outcomes:
    """Take messages of yours off the line; not while somebody has leased them."""
    group = call.caller.producer_group()
    return outcomes_form(call.parts.timeline.cancel(call.topic, call.form.ids, producer_group=group))


def read_message(call: Call[ReadQuery]) -> MessageForm:
    """A message, its state and its history; for its owner, for who holds its lease, or for an admin."""
    timeline, id = call.parts.timeline, call.path["id"]
    if call.form.lease is None and call.caller.is_admin and call.caller.said_group is None:
        return message_form(timeline.read_any(call.topic, id))
    if call.form.lease is None:
        return message_form(timeline.read(call.topic, id, producer_group=call.caller.producer_group()))
    lease = read_lease(call.form.lease)
    call.caller.check_consumer(lease.consumer)
    return message_form(timeline.read(call.topic, id, lease=lease))


def my_messages(call: Call[PageQuery]) -> Messages:
    """The messages of your producer group on all topics, oldest first, in pages."""
    group = call.caller.producer_group()
    return messages_form(call.parts.timeline.my_messages(group, after=call.form.after, limit=call.form.limit))


CHANGED: Final = (UnknownTopic, TopicDeleted)
READ: Final = (UnknownTopic, UnknownMessage, ForeignMessage)

OPERATIONS: Final = (
    Operation("POST", MESSAGES, "produce", create_messages, NewMessages, Outcomes, refusals=(*CHANGED, CallTaken)),
    Operation("POST", f"{MESSAGES}/move", "produce", move_messages, MoveForm, Outcomes, refusals=CHANGED),
    Operation("POST", f"{MESSAGES}/cancel", "produce", cancel_messages, CancelForm, Outcomes, refusals=(UnknownTopic,)),
    Operation(
        "GET",
        f"{MESSAGES}/{{id}}",
        "read",
        read_message,
        ReadQuery,
        MessageForm,
        refusals=READ,
        most_bytes=LARGEST_BODY,
    ),
    Operation("GET", "/v1/messages", "produce", my_messages, PageQuery, Messages, most_bytes=LEASED_BYTES),
)
