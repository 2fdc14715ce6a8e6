"""Windows of a key over HTTP: batches on a time axis, their members, and what was rejected meanwhile."""

from msgspec import field

from batchline.wire.form import AnswerForm

__all__ = ["KeyForm", "Keys", "MemberForm", "RejectedForm", "WindowForm", "Windows"]


class KeyForm(AnswerForm):
    """A key, and how much there is of it."""

    key: str
    batches: int
    rejected: int = 0


class Keys(AnswerForm, omit_defaults=False):
    """Keys; `tables` is whether the service was given a directory to read them from."""

    keys: list[KeyForm]
    tables: bool


class MemberForm(AnswerForm):
    """A measurement in its batch."""

    type: str
    event: str
    received: str


class RejectedForm(AnswerForm):
    """A measurement in no batch, and the reason."""

    type: str
    event: str
    received: str
    reason: str


class WindowForm(AnswerForm):
    """A batch: its window, when and why it closed, and its measurements as far as they are kept."""

    id: str
    begin: str
    end: str
    closed: str
    reason: str
    messages: int
    members: list[MemberForm] = field(default_factory=list)


class Windows(AnswerForm, omit_defaults=False):
    """Windows of a key in order of time, and what was rejected meanwhile."""

    key: str
    windows: list[WindowForm]
    rejected: list[RejectedForm]
    #: All measurement types of the key that are shown.
    types: list[str]
    #: What the key has in all.
    batches: int
    batched: int
    rejected_by_reason: dict[str, int]
    #: How many windows there are before and after these.
    earlier: int
    later: int
