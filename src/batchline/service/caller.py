"""Who asks, and what they may do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from batchline.core.token import Token
from batchline.errors import Forbidden, shown

__all__ = ["NOBODY", "OPEN_GROUP", "OWNER_LABEL", "Caller"]

#: The producer group of who says none, where nobody needs a token.
OPEN_GROUP: Final = "local"
#: The label that says to which producer group a fanout belongs.
OWNER_LABEL: Final = "producer_group"
NEEDS: Final[dict[str, Callable[[Token], bool]]] = {
    "--producer-group": lambda token: token.producer_group is not None,
    "--consumer": lambda token: bool(token.consumers),
}
NEEDED: Final = {
    "produce": ("--producer-group",),
    "consume": ("--consumer",),
    "finish": ("--producer-group", "--consumer"),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the bearer of a token, or, where there are no tokens, anybody."""

    token: Token | None
    #: The producer group that the request says it is of.
    said_group: str | None = None

    @property
    def token_id(self) -> str | None:
        """What names its token, so that the token can be looked at again; None where there are no tokens."""
        return None if self.token is None else self.token.id

    @property
    def is_anybody(self) -> bool:
        """Whether there are no tokens, so that everybody may do everything."""
        return self.token is None

    @property
    def is_admin(self) -> bool:
        """Whether it may do what is nobody's own."""
        return self.token is None or self.token.admin

    def check_admin(self) -> None:
        """It may do what is nobody's own, or is refused."""
        if not self.is_admin:
            raise Forbidden("this needs a token that was created with --admin")

    def check_topic(self, topic: str) -> str:
        """The topic, if it may use it."""
        if self.token is not None and not self.token.may_use(topic):
            raise Forbidden(f"this token is not for topic {topic!r}")
        return topic

    def names_topic(self, topic: str) -> bool:
        """Whether it may use a topic even if that is internal."""
        return self.token is None or self.token.names(topic)

    def may_see(self, topic: str) -> bool:
        """Whether it may know of a topic."""
        return self.token is None or self.token.may_use(topic)

    def check_consumer(self, consumer: str) -> str:
        """The consumer, if it may lease in this name."""
        if self.token is not None and not self.token.may_lease_as(consumer):
            raise Forbidden(f"this token is not for consumer {consumer!r}")
        return consumer

    def producer_group(self) -> str:
        """The producer group that owns what it makes."""
        if self.token is None:
            return self.said_group or OPEN_GROUP
        group = self.token.producer_group
        if group is None:
            raise Forbidden("this needs a token that was created with --producer-group")
        return group

    def check_said_group(self) -> None:
        """Who says of which producer group they are, and has a token of another, is refused whatever they ask for."""
        if self.token is not None and self.said_group not in (None, self.token.producer_group):
            raise Forbidden(f"this token is not of producer group {shown(self.said_group)}")

    def check_right(self, right: str) -> None:
        """It may produce, consume, or finish items, which both may; whoever has a token may read."""
        token = self.token
        if token is None or token.admin:
            return
        needed = NEEDED.get(right, ())
        if needed and not any(NEEDS[option](token) for option in needed):
            raise Forbidden(f"this needs a token that was created with {' or '.join(needed)}")

    def owner_labels(self) -> dict[str, str]:
        """What marks a fanout as its own; nothing where there are no tokens."""
        return {} if self.token is None else {OWNER_LABEL: self.producer_group()}

    def labels_with_owner(self, given: dict[str, str]) -> dict[str, str]:
        """Labels of a new fanout, with what marks it as its own: that is the token's to say."""
        if OWNER_LABEL in given and not self.is_anybody:
            raise Forbidden(f"the label {OWNER_LABEL!r} is the token's to give")
        return given | self.owner_labels()

    def check_owner(self, labels: dict[str, str]) -> None:
        """A fanout with these labels is its own, or it may do what is nobody's own."""
        if not self.owns(labels):
            raise Forbidden("this fanout is not of your producer group")

    def owns(self, labels: dict[str, str]) -> bool:
        """Whether a fanout with these labels is its own, or it may do what is nobody's own."""
        return self.is_admin or (self.token is not None and labels.get(OWNER_LABEL) == self.token.producer_group)


#: Who is not asked for a token, and has no right.
NOBODY: Final = Caller(Token(""))
