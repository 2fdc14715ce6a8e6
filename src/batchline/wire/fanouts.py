"""Fanouts over HTTP."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, field

from batchline.core.ack import AckOutcome, ItemError, SealOutcome
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import FailedItem, FanoutPage, FanoutStatus, State
from batchline.core.item_group import ItemGroup
from batchline.core.on_complete import OnComplete
from batchline.wire.form import MOST_AT_ONCE, AnswerForm, Form, Name, Span, body_of, moment_text, read_span, told_moment
from batchline.wire.problems import problem_type

__all__ = [
    "AckAnswer",
    "AckForm",
    "AddForm",
    "ExpireAnswer",
    "ExpireDueForm",
    "ExpireForm",
    "ExpiryForm",
    "FailForm",
    "FailedItemForm",
    "FailedItems",
    "FanoutForm",
    "Fanouts",
    "GroupForm",
    "Groups",
    "ItemErrorForm",
    "NewFanoutForm",
    "OnCompleteForm",
    "PendingItems",
    "SealAnswer",
    "SealForm",
    "ack_answer",
    "expiry_of",
    "failed_form",
    "fanout_form",
    "fanouts_form",
    "groups_form",
    "item_error_forms",
    "on_complete_of",
    "seal_answer",
]


class ExpiryForm(Form):
    """How long a fanout lives on without activity: spans such as 7d; without one, the usual."""

    unsealed: Span | None = None
    sealed: Span | None = None
    tombstone: Span | None = None


class OnCompleteForm(Form):
    """The message that is put on a topic when the fanout is complete."""

    topic: Name
    body: str | None = None
    body_base64: str | None = None
    id: Name | None = None
    #: How long after the completion it is due: a span such as 30s.
    after: Span = "0s"
    producer_group: str | None = None


class NewFanoutForm(Form):
    """A fanout to be opened. Without an id one is made."""

    id: Name | None = None
    labels: dict[str, str] = field(default_factory=dict)
    parent: Name | None = None
    #: How many items may fail; "any" for any number.
    tolerate: int | Literal["any"] = 0
    expiry: ExpiryForm | None = None
    on_complete: OnCompleteForm | None = None


class FanoutForm(AnswerForm):
    """What is known of a fanout; the counts are exact."""

    id: Name
    state: State
    total: int
    pending: int
    acked: int
    failed: int
    tolerate: int | Literal["any"]
    opened_at: str
    last_activity_at: str
    parent: Name | None = None
    sealed_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    expired_at: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


class Fanouts(AnswerForm):
    """Some fanouts, and where the next page begins."""

    fanouts: list[FanoutForm]
    next: int | None = None


class AddForm(Form):
    """How many items are added; the same `add_id` again adds nothing."""

    count: int
    add_id: Name | None = None


class GroupForm(AnswerForm):
    """Up to 64 items: their ids are `fanout:id:0` to `fanout:id:<upto - 1>`."""

    id: Name
    upto: int


class Groups(AnswerForm):
    """The groups of items that were added."""

    groups: list[GroupForm]


class SealForm(Form):
    """The same `call_id` again gets the same answer."""

    call_id: Name | None = None


class SealAnswer(AnswerForm, omit_defaults=False):
    """Whether this call, and no other, completed the fanout; and which parents ended with it."""

    fanout: str
    completed: bool
    parents_completed: list[str]
    parents_failed: list[str]


Items = Annotated[list[str | tuple[str, int]], Meta(max_length=MOST_AT_ONCE)]
Masks = Annotated[dict[str, int], Meta(max_length=MOST_AT_ONCE)]


class AckForm(Form):
    """Items that are done: ids, or a group's uuid with a mask; or, all of them, as masks by `fanout:uuid`."""

    items: Items = field(default_factory=list)
    masks: Masks = field(default_factory=dict)
    call_id: Name | None = None


class FailForm(AckForm):
    """Items that are given up for good, and why."""

    reason: str = ""


class ItemErrorForm(AnswerForm):
    """An item that did not count, and why."""

    item: str | tuple[str, int]
    #: The problem, as a refused request would have it.
    type: str
    detail: str


class AckAnswer(AnswerForm, omit_defaults=False):
    """What an ack, or a fail, did."""

    changed: int
    repeated: int
    completed: list[str]
    failed: list[str]
    errors: list[ItemErrorForm]


class PendingItems(AnswerForm):
    """Ids of items that are pending, in order."""

    items: list[str]


class FailedItemForm(AnswerForm):
    """An item that failed for good."""

    id: Name
    reason: str
    failed_at: str


class FailedItems(AnswerForm):
    """Items that failed for good, in order."""

    items: list[FailedItemForm]


class ExpireForm(Form):
    """The same `call_id` again gets the same answer."""

    call_id: Name | None = None


class ExpireDueForm(Form):
    """How many fanouts are looked at."""

    limit: int = 100


class ExpireAnswer(AnswerForm, omit_defaults=False):
    """What expiry did."""

    expired: list[str]
    removed: list[str]
    completed: list[str]
    failed: list[str]
    more: bool


def expiry_of(form: ExpiryForm | None) -> ExpiryRules | None:
    """The rules that a form gives; None for none."""
    if form is None:
        return None
    given = {name: getattr(form, name) for name in ExpiryForm.__struct_fields__}
    return ExpiryRules(**{name: read_span(name, span) for name, span in given.items() if span is not None})


def on_complete_of(form: OnCompleteForm, producer_group: str) -> OnComplete:
    """The message of a form, owned by a producer group."""
    return OnComplete(form.topic, body_of(form), form.id, read_span("after", form.after), producer_group)


def fanout_form(status: FanoutStatus) -> FanoutForm:
    """A fanout as it is answered."""
    return FanoutForm(
        id=status.id,
        state=status.state,
        total=status.total,
        pending=status.pending,
        acked=status.acked,
        failed=status.failed,
        tolerate="any" if status.tolerate is None else status.tolerate,
        opened_at=moment_text(status.opened_at),
        last_activity_at=moment_text(status.last_activity_at),
        parent=status.parent,
        sealed_at=told_moment(status.sealed_at),
        completed_at=told_moment(status.completed_at),
        failed_at=told_moment(status.failed_at),
        expired_at=told_moment(status.expired_at),
        labels=status.labels,
    )


def fanouts_form(page: FanoutPage) -> Fanouts:
    """A page of fanouts as it is answered."""
    return Fanouts([fanout_form(status) for status in page.fanouts], page.next)


def groups_form(groups: list[ItemGroup]) -> Groups:
    """Groups as they are answered."""
    return Groups([GroupForm(group.id, group.upto) for group in groups])


def seal_answer(outcome: SealOutcome) -> SealAnswer:
    """What a seal did, as it is answered."""
    return SealAnswer(outcome.fanout, outcome.completed, list(outcome.parents_completed), list(outcome.parents_failed))


def failed_form(items: list[FailedItem]) -> FailedItems:
    """Failed items as they are answered."""
    return FailedItems([FailedItemForm(one.id, one.reason, moment_text(one.failed_at)) for one in items])


def ack_answer(outcome: AckOutcome) -> AckAnswer:
    """What an ack did, as it is answered."""
    return AckAnswer(
        outcome.changed,
        outcome.repeated,
        list(outcome.completed),
        list(outcome.failed),
        item_error_forms(outcome.errors),
    )


def item_error_forms(errors: Iterable[ItemError]) -> list[ItemErrorForm]:
    """Write the items that did not count as they are answered."""
    return [ItemErrorForm(_item(one.item), problem_type(one.error), str(one.error)) for one in errors]


def _item(item: object) -> str | tuple[str, int]:
    match item:
        case [str() as group, int() as mask]:
            return group, mask
    return str(item)
