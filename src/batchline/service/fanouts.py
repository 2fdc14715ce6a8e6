"""`/v1/fanouts`: is everything that came out of one event done?"""

from typing import Final

import msgspec
from msgspec import field

from batchline.core.ack import Item
from batchline.core.fanout import FanoutStatus, State
from batchline.errors import (
    FanoutExists,
    FanoutExpired,
    FanoutSealed,
    ForeignGroup,
    InvalidInput,
    TopicDeleted,
    UnknownFanout,
    UnknownTopic,
)
from batchline.runtime.tracker import ExpireOutcome, Tracker
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.fanouts import (
    AckAnswer,
    AckForm,
    AddForm,
    ExpireAnswer,
    ExpireDueForm,
    ExpireForm,
    FailedItems,
    FailForm,
    FanoutForm,
    Fanouts,
    Groups,
    NewFanoutForm,
    PendingItems,
    SealAnswer,
    SealForm,
    ack_answer,
    expiry_of,
    failed_form,
    fanout_form,
    fanouts_form,
    groups_form,
    on_complete_of,
    seal_answer,
)
from batchline.wire.form import Form, Name, Span, given_span

__all__ = ["OPERATIONS", "own_fanout"]


class ListQuery(Form):
    """Which fanouts, and which page: `after` is the `next` of the page before."""

    state: State | None = None
    #: Labels such as `job=import`.
    label: list[str] = field(default_factory=list)
    #: The same as a JSON object, for names of any kind.
    labels: str | None = None
    older_than: Span | None = None
    parent: Name | None = None
    after: int | None = None
    limit: int = 100
    #: Whether the newest come first.
    newest: bool = False


class ItemsQuery(Form):
    """Which page of items: `after` is the last of the page before."""

    after: str | None = None
    limit: int = 100


def open_fanout(call: Call[NewFanoutForm]) -> FanoutForm:
    """Open a fanout. Opening it again in the same way is activity and changes nothing else."""
    form, caller = call.form, call.caller
    if form.parent is not None:
        own_fanout(call, form.parent)
    if form.on_complete is not None:
        call.parts.internal.check(caller, caller.check_topic(form.on_complete.topic))
    try:
        return fanout_form(_opened(call))
    except FanoutExists:
        if form.id is not None and not caller.owns(call.parts.tracker.status(form.id).labels):
            raise FanoutExists(f"fanout {form.id!r} is there, and not of your producer group") from None
        raise


def _opened(call: Call[NewFanoutForm]) -> FanoutStatus:
    form, on_complete = call.form, call.form.on_complete
    return call.parts.tracker.open(
        form.id,
        labels=call.caller.labels_with_owner(form.labels),
        parent=form.parent,
        tolerate=None if form.tolerate == "any" else form.tolerate,
        expiry=expiry_of(form.expiry),
        on_complete=None if on_complete is None else on_complete_of(on_complete, _group(call)),
    )


def _group(call: Call[NewFanoutForm]) -> str:
    """The owner of the message that is published on completion."""
    said = call.form.on_complete and call.form.on_complete.producer_group
    return said or "tracker" if call.caller.is_anybody else call.caller.producer_group()


def own_fanout(call: Call[Form], fanout: str) -> Tracker:
    """The tracker, if a fanout is the caller's; where there are no tokens nobody needs to look."""
    if not call.caller.is_admin:
        call.caller.check_owner(call.parts.tracker.status(fanout).labels)
    return call.parts.tracker


def read_fanout(call: Call[NoForm]) -> FanoutForm:
    """What is known of a fanout; its counts are exact."""
    status = call.parts.tracker.status(call.fanout)
    call.caller.check_owner(status.labels)
    return fanout_form(status)


def list_fanouts(call: Call[ListQuery]) -> Fanouts:
    """Fanouts that meet all conditions, oldest first, in pages; of your producer group, unless you are an admin."""
    form = call.form
    owner = {} if call.caller.is_admin else call.caller.owner_labels()
    page = call.parts.tracker.list(
        form.state,
        _labels(form) | owner,
        given_span("older_than", form.older_than),
        parent=form.parent,
        after=form.after,
        limit=form.limit,
        newest=form.newest,
    )
    return fanouts_form(page)


def _labels(form: ListQuery) -> dict[str, str]:
    try:
        named = {} if form.labels is None else msgspec.json.decode(form.labels, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise InvalidInput(f'expected labels such as {{"job": "import"}}, got {form.labels!r}'[:300]) from error
    return dict(map(_label, form.label)) | named


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InvalidInput(f"expected a label such as job=import, got {text[:300]!r}")
    return name, value


def add_items(call: Call[AddForm]) -> Groups:
    """Add items, and answer their groups, 64 to a group. With an `add_id` used before: the same groups again."""
    tracker = own_fanout(call, call.fanout)
    return groups_form(tracker.add(call.fanout, call.form.count, add_id=call.form.add_id))


def seal_fanout(call: Call[SealForm]) -> SealAnswer:
    """Take no more items; tells whether this call, and no other, completed the fanout."""
    return seal_answer(own_fanout(call, call.fanout).seal(call.fanout, call_id=call.form.call_id))


def ack_items(call: Call[AckForm]) -> AckAnswer:
    """Acknowledge items, in any order and any number of times."""
    return ack_answer(call.parts.tracker.ack(_items(call.form), call_id=call.form.call_id))


def fail_items(call: Call[FailForm]) -> AckAnswer:
    """Give items up for good: they are done, counted and listed apart."""
    return ack_answer(call.parts.tracker.fail(_items(call.form), call.form.reason, call_id=call.form.call_id))


def _items(form: AckForm) -> list[Item] | dict[str, int]:
    if form.items and form.masks:
        raise InvalidInput("expected items or masks, got both")
    return form.masks or list(form.items)


def pending_items(call: Call[ItemsQuery]) -> PendingItems:
    """The ids of pending items, in order, in pages."""
    tracker = own_fanout(call, call.fanout)
    return PendingItems(tracker.pending_items(call.fanout, call.form.limit, after=call.form.after))


def failed_items(call: Call[ItemsQuery]) -> FailedItems:
    """The items that failed, with their reasons, in order, in pages."""
    tracker = own_fanout(call, call.fanout)
    return failed_form(tracker.failed_items(call.fanout, call.form.limit, after=call.form.after))


def expire_fanout(call: Call[ExpireForm]) -> ExpireAnswer:
    """Give a fanout up now, whatever its activity; a late ack is answered `expired`."""
    return _expired(own_fanout(call, call.fanout).expire(call.fanout, call_id=call.form.call_id))


def expire_due(call: Call[ExpireDueForm]) -> ExpireAnswer:
    """One step of expiry; services take such steps by themselves."""
    return _expired(call.parts.tracker.expire_due(call.form.limit))


def _expired(outcome: ExpireOutcome) -> ExpireAnswer:
    return ExpireAnswer(outcome.expired, outcome.removed, outcome.completed, outcome.failed, outcome.more)


FANOUTS: Final = "/v1/fanouts"
FANOUT: Final = f"{FANOUTS}/{{fanout}}"
KNOWN: Final = (UnknownFanout,)
LIVE: Final = (UnknownFanout, FanoutExpired)
PAGE: Final = (*LIVE, ForeignGroup)

OPERATIONS: Final = (
    Operation("GET", FANOUTS, "read", list_fanouts, ListQuery, Fanouts, refusals=KNOWN),
    Operation(
        "POST",
        FANOUTS,
        "produce",
        open_fanout,
        NewFanoutForm,
        FanoutForm,
        201,
        (FanoutExists, UnknownFanout, FanoutSealed, FanoutExpired, UnknownTopic, TopicDeleted),
    ),
    Operation("GET", FANOUT, "read", read_fanout, answer=FanoutForm, refusals=KNOWN),
    Operation("POST", f"{FANOUT}/items", "produce", add_items, AddForm, Groups, refusals=(*LIVE, FanoutSealed)),
    Operation("POST", f"{FANOUT}/seal", "produce", seal_fanout, SealForm, SealAnswer, refusals=LIVE),
    Operation("GET", f"{FANOUT}/pending", "read", pending_items, ItemsQuery, PendingItems, refusals=PAGE),
    Operation("GET", f"{FANOUT}/failed", "read", failed_items, ItemsQuery, FailedItems, refusals=PAGE),
    Operation("POST", f"{FANOUT}/expire", "produce", expire_fanout, ExpireForm, ExpireAnswer, refusals=KNOWN),
    Operation("POST", f"{FANOUTS}/ack", "finish", ack_items, AckForm, AckAnswer),
    Operation("POST", f"{FANOUTS}/fail", "finish", fail_items, FailForm, AckAnswer),
    Operation("POST", f"{FANOUTS}/expire-due", "admin", expire_due, ExpireDueForm, ExpireAnswer),
)
