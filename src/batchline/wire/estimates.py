"""Estimates over HTTP: fanouts that are counted, and not known item by item."""

from typing import Literal

from msgspec import field

from batchline.core.estimate import EstimateOutcome, EstimateStatus
from batchline.core.fanout import State
from batchline.wire.form import AnswerForm, Form, moment_text, span_text, told_moment

__all__ = [
    "CountForm",
    "EstimateAnswer",
    "EstimateForm",
    "EstimateTotal",
    "MoreForm",
    "NewEstimateForm",
    "estimate_answer",
    "estimate_form",
]


class NewEstimateForm(Form):
    """An estimate to be opened. Without an id one is made, which cannot be guessed."""

    id: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    #: How many items may fail; "any" for any number.
    tolerate: int | Literal["any"] = 0
    #: How long it is kept after its last activity: a span such as 7d.
    ttl: str | None = None


class EstimateForm(AnswerForm):
    """What is known of an estimate, by count; pending is below zero if more was acknowledged than added."""

    id: str
    state: State
    total: int
    pending: int
    acked: int
    failed: int
    tolerate: int | Literal["any"]
    ttl: str
    opened_at: str
    last_activity_at: str
    sealed_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    #: Whether something was certainly counted twice.
    double_counted: bool = False
    labels: dict[str, str] = field(default_factory=dict)


class MoreForm(Form):
    """How many items are added; sent again, they are counted again."""

    count: int


class EstimateTotal(AnswerForm):
    """How many items have been added."""

    total: int


class CountForm(Form):
    """How many items are done, or have failed; sent again, they are counted again."""

    count: int = 1


class EstimateAnswer(AnswerForm, omit_defaults=False):
    """What is left, and whether this call, and no other, completed the estimate or made it fail."""

    fanout: str
    pending: int
    completed: bool
    failed: bool


def estimate_form(status: EstimateStatus) -> EstimateForm:
    """An estimate as it is answered."""
    return EstimateForm(
        id=status.id,
        state=status.state,
        total=status.total,
        pending=status.pending,
        acked=status.acked,
        failed=status.failed,
        tolerate="any" if status.tolerate is None else status.tolerate,
        ttl=span_text(status.ttl),
        opened_at=moment_text(status.opened_at),
        last_activity_at=moment_text(status.last_activity_at),
        sealed_at=told_moment(status.sealed_at),
        completed_at=told_moment(status.completed_at),
        failed_at=told_moment(status.failed_at),
        double_counted=status.double_counted,
        labels=dict(status.labels),
    )


def estimate_answer(outcome: EstimateOutcome) -> EstimateAnswer:
    """What a seal, an ack or a fail did, as it is answered."""
    return EstimateAnswer(outcome.fanout, outcome.pending, outcome.completed, outcome.failed)
