"""Who asks, as the service tells them: what they may do."""

from msgspec import field

from batchline.core.token import Token
from batchline.wire.form import AnswerForm

__all__ = ["CallerForm", "caller_form"]


class CallerForm(AnswerForm, omit_defaults=False):
    """What the bearer of a token may do; where there are no tokens, which is `open`, everybody may do everything."""

    open: bool
    admin: bool
    name: str = ""
    #: The owner of what it makes; without one it makes nothing.
    producer_group: str | None = None
    #: Patterns of topics that it may use.
    topics: list[str] = field(default_factory=list)
    #: Patterns of names under which it may lease.
    consumers: list[str] = field(default_factory=list)


def caller_form(token: Token | None, producer_group: str | None) -> CallerForm:
    """The bearer of a token, or anybody, as it is answered."""
    if token is None:
        return CallerForm(True, True, producer_group=producer_group, topics=["*"], consumers=["*"])
    return CallerForm(False, token.admin, token.name, token.producer_group, list(token.topics), list(token.consumers))
