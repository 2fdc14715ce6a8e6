"""What Carlyle's clients send and get: its own names, and fields that it does not know are left alone, as it does."""

from typing import Annotated

from msgspec import Meta, field

from batchline.core.item_group import MOST_ITEMS
from batchline.wire.fanouts import GroupForm, ItemErrorForm
from batchline.wire.form import MOST_AT_ONCE, Form

__all__ = [
    "BatchAck",
    "BatchAcks",
    "BatchClosed",
    "BatchCompletion",
    "BatchCompletions",
    "BatchErrorForm",
    "BatchForm",
    "BatchGroups",
    "BatchId",
    "BatchItems",
    "BatchItemsForm",
    "BatchesRemoved",
    "EstimatedBatchForm",
    "EstimatedBatchId",
    "EstimatedCompletion",
    "EstimatedCompletions",
    "NewBatchForm",
]


class Foreign(Form, forbid_unknown_fields=False, rename="camel"):
    """A form with names in camel case."""


class NewBatchForm(Foreign):
    """A batch to be created; the user key is told with its completion."""

    user_key: str | None = None


class BatchId(Foreign):
    """A batch: a number."""

    batch_id: int


class BatchForm(Foreign, omit_defaults=True):
    """What is known of a batch."""

    batch_id: int
    is_complete: bool
    is_closed: bool
    user_key: str | None = None


class BatchClosed(Foreign):
    """Whether a batch that was closed is complete."""

    is_complete: bool


class BatchItemsForm(Foreign):
    """How many items are added to which batch."""

    batch_id: int
    items: int


class BatchGroups(Foreign):
    """The groups of items that were added: their ids are `batchId:id:0` to `batchId:id:<upto - 1>`."""

    batch_item_group_ids: list[GroupForm]


class BatchItems(Foreign):
    """Ids of items that are done."""

    batch_item_ids: Annotated[list[str], Meta(max_length=MOST_AT_ONCE)]


class BatchCompletion(Foreign):
    """A batch that is complete."""

    batch_id: int
    user_key: str | None = None


class BatchCompletions(Foreign):
    """Complete batches of an ack; `errors` lists the item ids that did not count, and is absent if all did."""

    batch_completions: list[BatchCompletion]
    errors: list[ItemErrorForm] = field(default_factory=list)


class BatchesRemoved(Foreign):
    """How many batches were given up, and how many items they had."""

    batches_removed: int
    items_removed: int


class EstimatedBatchId(Foreign):
    """A batch that is counted: a UUID."""

    batch_id: str


class EstimatedBatchForm(Foreign):
    """What is known of a batch that is counted."""

    is_complete: bool
    is_closed: bool
    user_key: str | None = None


class EstimatedCompletion(Foreign):
    """A batch that is counted, and whether it is complete."""

    batch_id: str
    is_complete: bool
    user_key: str | None = None


class BatchAck(Foreign):
    """How many items of a batch are done."""

    batch_id: str
    by: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 1


class BatchAcks(Foreign):
    """How many items are done, of several batches."""

    acks: Annotated[list[BatchAck], Meta(max_length=MOST_AT_ONCE)] = field(default_factory=list)


class BatchErrorForm(Foreign):
    """A batch of an ack that did not count, and why."""

    batch_id: str
    type: str
    detail: str


class EstimatedCompletions(Foreign):
    """Batches of an ack; `errors` lists the batches that did not count, and is absent if all did."""

    results: list[EstimatedCompletion]
    errors: list[BatchErrorForm] = field(default_factory=list)
