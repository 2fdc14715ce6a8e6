"""`/api/v1/batch/estimated`: Carlyle's own routes, on estimates. A batch is an estimate whose id is a UUID."""

import uuid
from collections import Counter
from contextlib import suppress
from typing import Final

from batchline.core.estimate import EstimateStatus
from batchline.errors import BatchlineError, FanoutSealed, InvalidInput, UnknownFanout, UnknownRoute
from batchline.service.carlyle_exact import USER_KEY
from batchline.service.estimates import estimates_of, own_estimate
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.carlyle import (
    BatchAcks,
    BatchErrorForm,
    EstimatedBatchForm,
    EstimatedBatchId,
    EstimatedCompletion,
    EstimatedCompletions,
    NewBatchForm,
)
from batchline.wire.form import Form
from batchline.wire.problems import problem_type

__all__ = ["OPERATIONS"]


class ByQuery(Form):
    """How many items."""

    by: int


def create_estimated_batch(call: Call[NewBatchForm]) -> EstimatedBatchId:
    """Create a batch whose items are counted; its user key is told with its completion."""
    user_key = {USER_KEY: call.form.user_key} if call.form.user_key else {}
    id = str(uuid.uuid4())
    estimates_of(call).open(id, labels=user_key | call.caller.owner_labels())
    return EstimatedBatchId(id)


def read_estimated_batch(call: Call[NoForm]) -> EstimatedBatchForm:
    """What is known of a batch whose items are counted."""
    status = estimates_of(call).status(call.path["batchId"])
    call.caller.check_owner(dict(status.labels))
    return EstimatedBatchForm(status.completed, status.sealed, status.labels.get(USER_KEY))


def close_estimated_batch(call: Call[NoForm]) -> EstimatedCompletion:
    """Take no more items; tells whether the batch is complete."""
    id = call.path["batchId"]
    tracker = own_estimate(call, id)
    tracker.seal(id)
    return _completion(tracker.status(id))


def increment_batch(call: Call[ByQuery]) -> None:
    """Count so many items more."""
    id = call.path["batchId"]
    own_estimate(call, id).add(id, call.form.by)


def decrement_batches(call: Call[BatchAcks]) -> EstimatedCompletions:
    """Count items as done, those of one batch added up; refused only if no batch can be counted."""
    tracker, done = estimates_of(call), Counter[str]()
    for ack in call.form.acks:
        done[ack.batch_id] += ack.by
    results, errors = list[EstimatedCompletion](), dict[str, BatchlineError]()
    for id, by in done.items():
        try:
            tracker.ack(id, by)
            results.append(_completion(tracker.status(id)))
        except (UnknownFanout, InvalidInput) as error:
            errors[id] = error
    if errors and not results:
        raise next(iter(errors.values()))
    return EstimatedCompletions(results, [_batch_error(id, error) for id, error in errors.items()])


def _batch_error(id: str, error: BatchlineError) -> BatchErrorForm:
    return BatchErrorForm(id, problem_type(error), str(error))


def remove_estimated_batch(call: Call[NoForm]) -> None:
    """Let a batch be gone, if it is there."""
    id = call.path["batchId"]
    with suppress(UnknownFanout):
        own_estimate(call, id).forget(id)


def _completion(status: EstimateStatus) -> EstimatedCompletion:
    return EstimatedCompletion(status.id, status.completed, status.labels.get(USER_KEY))


ESTIMATED: Final = "/api/v1/batch/estimated"
BATCH: Final = f"{ESTIMATED}/{{batchId}}"
NONE: Final = (UnknownRoute,)
KNOWN: Final = (UnknownRoute, UnknownFanout)

OPERATIONS: Final = (
    Operation(
        "POST",
        ESTIMATED,
        "produce",
        create_estimated_batch,
        NewBatchForm,
        EstimatedBatchId,
        refusals=NONE,
        aliases=(f"{ESTIMATED}/",),
    ),
    Operation("GET", BATCH, "read", read_estimated_batch, answer=EstimatedBatchForm, refusals=KNOWN),
    Operation("POST", f"{BATCH}/close", "produce", close_estimated_batch, answer=EstimatedCompletion, refusals=KNOWN),
    Operation(
        "POST", f"{BATCH}/incr", "produce", increment_batch, ByQuery, refusals=(*KNOWN, FanoutSealed), in_query=True
    ),
    Operation(
        "POST", f"{ESTIMATED}/decr", "finish", decrement_batches, BatchAcks, EstimatedCompletions, refusals=KNOWN
    ),
    Operation("DELETE", BATCH, "produce", remove_estimated_batch, refusals=NONE),
)
