"""`/api/v1/batch/exact`: Carlyle's own routes, on the tracker. A batch is a fanout whose id is a number.

As in Carlyle, an ack or a close that is repeated is told of the completion again: its clients have no ids for calls.
"""

import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from batchline.core.ack import ItemError
from batchline.core.fanout import FanoutStatus, State
from batchline.errors import (
    FanoutExpired,
    FanoutSealed,
    MalformedItem,
    UnknownFanout,
    WrongContent,
    shown,
)
from batchline.runtime.tracker import Tracker
from batchline.service.fanouts import own_fanout
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.carlyle import (
    BatchClosed,
    BatchCompletion,
    BatchCompletions,
    BatchesRemoved,
    BatchForm,
    BatchGroups,
    BatchId,
    BatchItems,
    BatchItemsForm,
    NewBatchForm,
)
from batchline.wire.fanouts import groups_form, item_error_forms
from batchline.wire.form import At, Form, ms_of_at

__all__ = ["OPERATIONS", "USER_KEY"]

#: The label of a batch's user key.
USER_KEY: Final = "user_key"
#: The label of fanouts that are Carlyle's batches.
MARK: Final = {"carlyle": "exact"}
#: As many as a number of JSON can tell apart everywhere.
ID_BITS: Final = 53
ITEM: Final = re.compile(r"(\d{1,19}):[0-9a-fA-F-]{36}:\d{1,19}", re.ASCII)
#: Batches that one call removes.
MOST_REMOVED: Final = 1_000
CLOSED: Final[tuple[State, ...]] = ("sealed", "complete", "failed")


class SinceQuery(Form):
    """Batches without activity since this moment."""

    since: At


def create_batch(call: Call[NewBatchForm]) -> BatchId:
    """Create a batch; its user key is told with its completion."""
    id = _free_id(call.parts.tracker)
    user_key = {USER_KEY: call.form.user_key} if call.form.user_key else {}
    call.parts.tracker.open(str(id), labels=MARK | user_key | call.caller.owner_labels())
    return BatchId(id)


def _free_id(tracker: Tracker) -> int:
    while True:
        id = secrets.randbits(ID_BITS)
        try:
            tracker.status(str(id))
        except UnknownFanout:
            return id


def read_batch(call: Call[NoForm]) -> BatchForm:
    """What is known of a batch."""
    id = _id(call)
    status = call.parts.tracker.status(id)
    call.caller.check_owner(status.labels)
    if status.state == "expired":
        raise FanoutExpired(f"batch {id} expired")
    is_closed = status.sealed_at is not None
    return BatchForm(int(id), status.state == "complete", is_closed, status.labels.get(USER_KEY))


def close_batch(call: Call[NoForm]) -> BatchClosed:
    """Take no more items; tells whether the batch is complete."""
    id = _id(call)
    tracker = own_fanout(call, id)
    return BatchClosed(tracker.seal(id).completed or tracker.status(id).state == "complete")


def add_batch_items(call: Call[BatchItemsForm]) -> BatchGroups:
    """Add items, and answer their groups, 64 to a group."""
    id = str(call.form.batch_id)
    return BatchGroups(groups_form(own_fanout(call, id).add(id, call.form.items)).groups)


def ack_batch_items(call: Call[BatchItems]) -> BatchCompletions:
    """Acknowledge items, and answer which of their batches are complete; refused only if every id is malformed."""
    found = {item: match for item in call.form.batch_item_ids if (match := ITEM.fullmatch(item))}
    malformed = [
        ItemError(item, _malformed(item)) for item in dict.fromkeys(call.form.batch_item_ids) if item not in found
    ]
    if malformed and not found:
        raise malformed[0].error
    tracker = call.parts.tracker
    outcome = tracker.ack(list(found))
    batches = {match[1] for match in found.values()} if outcome.repeated else set()
    complete = [status for id in sorted(batches | set(outcome.completed)) if (status := _complete(tracker, id))]
    return BatchCompletions(
        [BatchCompletion(int(one.id), one.labels.get(USER_KEY)) for one in complete],
        item_error_forms([*malformed, *outcome.errors]),
    )


def _malformed(item: str) -> MalformedItem:
    return MalformedItem(f"expected batchId:uuid:index as expanded from an answer of /items, got {shown(item)}")


def _complete(tracker: Tracker, id: str) -> FanoutStatus | None:
    """A batch, if it is complete; what else is known of it is not told to who acknowledges items."""
    try:
        status = tracker.status(id)
    except UnknownFanout:
        return None
    return status if status.state == "complete" and id.isdecimal() else None


def remove_open_batches(call: Call[SinceQuery]) -> BatchesRemoved:
    """Give up batches that are open and without activity since a moment, up to 1,000 of them."""
    return _removed(call, ("open",))


def remove_closed_batches(call: Call[SinceQuery]) -> BatchesRemoved:
    """Give up batches that are closed and without activity since a moment, up to 1,000 of them."""
    return _removed(call, CLOSED)


def _removed(call: Call[SinceQuery], states: tuple[State, ...]) -> BatchesRemoved:
    since = datetime.fromtimestamp(ms_of_at("since", call.form.since) / 1_000, UTC)
    tracker, removed = call.parts.tracker, BatchesRemoved(0, 0)
    for state in states:
        for status in _idle(tracker, state, since, MOST_REMOVED - removed.batches_removed):
            with suppress(UnknownFanout):  # its tombstone was removed meanwhile
                tracker.expire(status.id)
            removed.batches_removed += 1
            removed.items_removed += status.total
    return removed


def _idle(tracker: Tracker, state: State, since: datetime, most: int) -> list[FanoutStatus]:
    found: list[FanoutStatus] = []
    after: int | None = 0
    while after is not None and len(found) < most:
        page = tracker.list(state, MARK, after=after, limit=MOST_REMOVED)
        found += [status for status in page.fanouts if status.last_activity_at <= since]
        after = page.next
    return found[:most]


def _id(call: Call[Form]) -> str:
    text = call.path["batchId"]
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise WrongContent(f"expected the number of a batch, got {shown(text)}")
    return str(int(text))


EXACT: Final = "/api/v1/batch/exact"
LIVE: Final = (UnknownFanout, FanoutExpired)

OPERATIONS: Final = (
    Operation("POST", EXACT, "produce", create_batch, NewBatchForm, BatchId, aliases=(f"{EXACT}/",)),
    Operation("GET", f"{EXACT}/{{batchId}}", "read", read_batch, answer=BatchForm, refusals=LIVE),
    Operation("POST", f"{EXACT}/close/{{batchId}}", "produce", close_batch, answer=BatchClosed, refusals=LIVE),
    Operation(
        "POST",
        f"{EXACT}/items",
        "produce",
        add_batch_items,
        BatchItemsForm,
        BatchGroups,
        refusals=(*LIVE, FanoutSealed),
    ),
    Operation("POST", f"{EXACT}/items/ack", "finish", ack_batch_items, BatchItems, BatchCompletions),
    Operation("DELETE", f"{EXACT}/open", "admin", remove_open_batches, SinceQuery, BatchesRemoved),
    Operation("DELETE", f"{EXACT}/closed", "admin", remove_closed_batches, SinceQuery, BatchesRemoved),
)
