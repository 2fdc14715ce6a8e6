"""How a process of the service is, over HTTP."""

from typing import Literal

from batchline.wire.form import AnswerForm

__all__ = ["Live", "Ready"]


class Live(AnswerForm):
    """A process that answers."""

    status: Literal["live"]
    version: str


class Ready(AnswerForm, omit_defaults=False):
    """A process that can do its work."""

    status: Literal["ready"]
    version: str
    #: The address of the database, without a password.
    database: str
    #: How far its clock is off that of the other brokers, in milliseconds; null before they were compared.
    drift_ms: float | None
    #: How many service processes were seen lately, this one included; 0 before they were counted.
    brokers: int
