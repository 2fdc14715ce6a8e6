"""`/v1/estimates`: fanouts that are counted, in Redis.

Whose an estimate is says its label, as of fanouts: only its producer group opens, reads, adds to and seals it. Whoever
may finish items and knows the id may count some as done, for they have no ids of their own.
"""

from contextlib import suppress
from typing import Final

from batchline.errors import FanoutSealed, UnknownFanout, UnknownRoute
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.estimates import (
    CountForm,
    EstimateAnswer,
    EstimateForm,
    EstimateTotal,
    MoreForm,
    NewEstimateForm,
    estimate_answer,
    estimate_form,
)
from batchline.wire.form import Form, given_span

__all__ = ["OPERATIONS", "estimates_of", "own_estimate"]


def open_estimate(call: Call[NewEstimateForm]) -> EstimateForm:
    """Open an estimate, or find it as it is if there is one of this id."""
    tracker, form = estimates_of(call), call.form
    if form.id is not None:
        with suppress(UnknownFanout):
            own_estimate(call, form.id)
    status = tracker.open(
        form.id,
        tolerate=None if form.tolerate == "any" else form.tolerate,
        ttl=given_span("ttl", form.ttl),
        labels=call.caller.labels_with_owner(form.labels),
    )
    call.caller.check_owner(dict(status.labels))
    return estimate_form(status)


def read_estimate(call: Call[NoForm]) -> EstimateForm:
    """What is known of an estimate."""
    status = estimates_of(call).status(call.fanout)
    call.caller.check_owner(dict(status.labels))
    return estimate_form(status)


def add_to_estimate(call: Call[MoreForm]) -> EstimateTotal:
    """Count so many items more."""
    return EstimateTotal(own_estimate(call, call.fanout).add(call.fanout, call.form.count))


def seal_estimate(call: Call[NoForm]) -> EstimateAnswer:
    """Take no more items; tells whether this call, and no other, completed the estimate."""
    return estimate_answer(own_estimate(call, call.fanout).seal(call.fanout))


def ack_estimate(call: Call[CountForm]) -> EstimateAnswer:
    """Count so many items as done, whichever they are."""
    return estimate_answer(estimates_of(call).ack(call.fanout, call.form.count))


def fail_estimate(call: Call[CountForm]) -> EstimateAnswer:
    """Count so many items as failed for good."""
    return estimate_answer(estimates_of(call).fail(call.fanout, call.form.count))


def estimates_of(call: Call[Form]) -> EstimatedTracker:
    """The tracker of estimates, if this service has one."""
    if call.parts.estimates is None:
        raise UnknownRoute("this service has no estimates: start it by batchline serve --estimates redis://host:6379/0")
    return call.parts.estimates


def own_estimate(call: Call[Form], id: str) -> EstimatedTracker:
    """The tracker of estimates, if one of them is the caller's."""
    tracker = estimates_of(call)
    if not call.caller.is_admin:
        call.caller.check_owner(dict(tracker.status(id).labels))
    return tracker


ESTIMATE: Final = "/v1/estimates/{fanout}"
NONE: Final = (UnknownRoute,)
KNOWN: Final = (UnknownRoute, UnknownFanout)

OPERATIONS: Final = (
    Operation("POST", "/v1/estimates", "produce", open_estimate, NewEstimateForm, EstimateForm, 201, NONE),
    Operation("GET", ESTIMATE, "read", read_estimate, answer=EstimateForm, refusals=KNOWN),
    Operation(
        "POST",
        f"{ESTIMATE}/items",
        "produce",
        add_to_estimate,
        MoreForm,
        EstimateTotal,
        refusals=(*KNOWN, FanoutSealed),
    ),
    Operation("POST", f"{ESTIMATE}/seal", "produce", seal_estimate, answer=EstimateAnswer, refusals=KNOWN),
    Operation("POST", f"{ESTIMATE}/ack", "finish", ack_estimate, CountForm, EstimateAnswer, refusals=KNOWN),
    Operation("POST", f"{ESTIMATE}/fail", "finish", fail_estimate, CountForm, EstimateAnswer, refusals=KNOWN),
)
