"""The whole path at a glance, over HTTP."""

from batchline.wire.form import AnswerForm

__all__ = ["AttentionForm", "FanoutsState", "OverviewForm", "ProcessForm", "RejectionForm", "StageForm", "TopicState"]


class StageForm(AnswerForm, omit_defaults=False):
    """A stage of the path: how fast it is, and how much is before it."""

    name: str
    #: What its rate counts; and what its backlog does.
    unit: str
    backlog_unit: str
    #: Now; null if nobody tells.
    per_second: float | None
    #: The last ten minutes, in stretches of `stretch` of the overview.
    rates: list[float]
    backlog: int | None
    #: Since when the oldest of the backlog has been there.
    since: str | None


class RejectionForm(AnswerForm):
    """Measurements that were rejected for a reason, since the processes began that tell of them."""

    reason: str
    count: int
    per_second: float


class AttentionForm(AnswerForm):
    """Something that somebody should look at."""

    kind: str
    #: Whether work is lost or stands still; else it may become so.
    bad: bool
    text: str
    since: str | None = None
    topic: str | None = None
    fanout: str | None = None
    process: str | None = None


class TopicState(AnswerForm, omit_defaults=False):
    """How a topic stands."""

    name: str
    waiting: int
    available: int
    processing: int
    consumers: int
    per_second: float
    #: The moment of its oldest message that is due.
    oldest_due: str | None
    #: Whether it takes the dead letters of another.
    dead_letters: bool


class FanoutsState(AnswerForm, omit_defaults=False):
    """How the fanouts that are not over stand."""

    open: int
    sealed: int
    stuck: int
    pending: int
    #: Whether there are more than were counted.
    more: bool


class ProcessForm(AnswerForm, omit_defaults=False):
    """A process that reports, or did so lately."""

    kind: str
    name: str
    #: running, ended, or silent: killed, or away from the store.
    state: str
    started: str
    seen: str


class OverviewForm(AnswerForm, omit_defaults=False):
    """The whole path at a moment."""

    at: str
    stretch: str
    stages: list[StageForm]
    rejections: list[RejectionForm]
    attention: list[AttentionForm]
    topics: list[TopicState]
    fanouts: FanoutsState
    processes: list[ProcessForm]
