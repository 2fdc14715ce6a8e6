"""How a process of the service is, over HTTP."""

from typing import Literal

from batchline.wire.form import AnswerForm

__all__ = ["DegradedLoop", "Live", "Ready"]


class Live(AnswerForm):
    """A process that answers."""

    status: Literal["live"]
    version: str


class DegradedLoop(AnswerForm):
    """A background loop whose last step failed. It is tried again until it succeeds."""

    loop: str
    since: str
    #: Failed steps in a row.
    failures: int
    #: The class of the last error; the log has the rest.
    error: str


class Ready(AnswerForm, omit_defaults=False):
    """A process that can do its work; degraded if one of its background loops fails."""

    status: Literal["ready", "degraded"]
    version: str
    #: The address of the database, without a password; null for a caller without a valid token, where there are tokens.
    database: str | None
    #: How far its clock is off that of the other brokers, in milliseconds; null before they were compared.
    drift_ms: float | None
    #: How many service processes were seen lately, this one included; 0 before they were counted.
    brokers: int
    #: The background loops that fail.
    loops: list[DegradedLoop]
