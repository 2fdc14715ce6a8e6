"""Frames of a socket on which messages are pushed: what the service says to a consumer, and what that says to it."""

from typing import Final

import msgspec

from batchline.errors import WrongContent
from batchline.wire.form import AfterMs, AnswerForm, At, Form
from batchline.wire.messages import LeasedForm, Leases, OutcomeForm
from batchline.wire.problems import ProblemForm

__all__ = [
    "LARGEST_FRAME",
    "MOST_PREFETCHED",
    "SOCKET_PROTOCOL",
    "Asked",
    "Beat",
    "Close",
    "Done",
    "Extend",
    "Leave",
    "Prefetch",
    "Problem",
    "Pushed",
    "Release",
    "Said",
    "Subscribed",
    "Told",
    "read_asked",
    "read_said",
]

LARGEST_FRAME: Final = 16 << 20
MOST_PREFETCHED: Final = 10_000
#: What a browser offers beside its token, so that the service has something to accept.
SOCKET_PROTOCOL: Final = "batchline"


class Close:
    """Why a socket is closed, as its code."""

    LEFT: Final = 1000
    #: The token is revoked or has expired.
    POLICY: Final = 1008
    BROKEN: Final = 1011
    #: Another process is the consumer now, or another socket of the same session was opened.
    REPLACED: Final = 4001
    #: The topic is deleted.
    TOPIC: Final = 4004


class Asking(Form, tag_field="type", kw_only=True):
    """What a consumer says; what has a number is answered with the same."""

    request: int | None = None


class Extend(Asking, tag="extend", kw_only=True):
    """Leases that are to hold for so long from now on."""

    leases: Leases
    duration: str | None = None


class Release(Asking, tag="release", kw_only=True):
    """Leases to give back: the messages are due again at once, at a moment, or after a span."""

    leases: Leases
    at: At | None = None
    reason: str = ""
    #: In place of `at`: milliseconds from now, by the service's clock.
    after_ms: AfterMs | None = None


class Done(Asking, tag="done", kw_only=True):
    """Leases of messages that are done."""

    leases: Leases


class Prefetch(Asking, tag="prefetch", kw_only=True):
    """How many messages it may have unfinished from now on."""

    prefetch: int


class Beat(Asking, tag="beat", kw_only=True):
    """What its clock shows."""

    clock: At


class Leave(Asking, tag="leave", kw_only=True):
    """It goes: what it has not finished is released at once."""


class Saying(AnswerForm, tag_field="type", kw_only=True):
    """What the service says."""


class Subscribed(Saying, tag="subscribed", kw_only=True):
    """The first frame: what was agreed on."""

    #: How long a lease is, in milliseconds.
    lease_ms: int
    prefetch: int
    #: What the service's clock shows: leases end by it.
    clock_ms: int
    #: How many messages the consumer holds from before; they come first.
    resumed: int
    #: The session, to be named when the socket is opened again; 0 if an older service does not say.
    session: int = 0


class Pushed(Saying, tag="messages", kw_only=True):
    """Messages in the hands of the consumer."""

    messages: list[LeasedForm]


class Told(Saying, tag="outcomes", kw_only=True):
    """What became of what was asked for, in its order."""

    outcomes: list[OutcomeForm]
    request: int | None = None


class Problem(Saying, tag="problem", kw_only=True):
    """What was asked for is refused; nothing was changed."""

    problem: ProblemForm
    request: int | None = None


Asked = Extend | Release | Done | Prefetch | Beat | Leave
Said = Subscribed | Pushed | Told | Problem
asked_decoder: Final[msgspec.json.Decoder[Asked]] = msgspec.json.Decoder(Asked)
said_decoder: Final[msgspec.json.Decoder[Said]] = msgspec.json.Decoder(Said)


def read_asked(data: str | bytes) -> Asked:
    """A frame of a consumer."""
    try:
        return asked_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise WrongContent(f"expected a frame as the reference has it: {error}") from error


def read_said(data: str | bytes) -> Said:
    """A frame of the service."""
    try:
        return said_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise WrongContent(f"the service has sent no frame that is known here: {error}") from error
