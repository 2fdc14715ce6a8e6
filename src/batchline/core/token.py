"""Tokens: who may do what at the service, and the texts that prove it.

    bl_<id>_<secret>      12 and 64 hexadecimal digits

The id is no secret, and finds the token. The secret is 256 random bits, of which only a hash is kept: nobody can guess
it, so one round of SHA-256 is enough.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

from batchline.core.name import check_name
from batchline.errors import InvalidInput, shown

__all__ = ["ID_BYTES", "SECRET_BYTES", "Token", "TokenText", "hash_of", "is_secret", "read_token_text"]

ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
TEXT: Final = re.compile(rf"bl_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
EVERY_TOPIC: Final = ("*",)
MOST_PATTERNS: Final = 100


@dataclass(frozen=True, slots=True)
class TokenText:
    """What the owner of a token holds; the secret is not shown by accident."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """As it is sent: `bl_<id>_<secret>`."""
        return f"bl_{self.id}_{self.secret}"


def read_token_text(text: object) -> TokenText | None:
    """The id and the secret in a text; None for anything that is no token."""
    match = TEXT.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else TokenText(*match.groups())


def hash_of(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(secret: str, secret_hash: str) -> bool:
    """Whether a secret is the one of a hash; how long that takes tells nothing."""
    return hmac.compare_digest(hash_of(secret), secret_hash)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: what may be done with it. It knows nothing of its secret.

    Whoever has a valid one may read what is on its topics. Patterns have `*`, `?` and `[…]`, and mind case; `*` matches
    slashes, too. Internal topics, on which pipelines have their parcels, are changed by a token only that names them in
    full. An admin may do everything, on every topic and as every consumer; but a message must have an owner, so
    an admin who creates some needs a producer group as well.
    """

    id: str
    #: For people.
    name: str = ""
    #: The owner of what it puts on the timeline, and of the fanouts that it opens; without, it does neither.
    producer_group: str | None = None
    #: Patterns of the names under which it may lease; without one, it may not.
    consumers: tuple[str, ...] = ()
    #: Patterns of topics.
    topics: tuple[str, ...] = EVERY_TOPIC
    admin: bool = False
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.name != "":
            check_name("the name of a token", self.name)
        if self.producer_group is not None:
            check_name("the producer group of a token", self.producer_group)
        _check_patterns("consumers", self.consumers, 0)
        _check_patterns("topics", self.topics, 1)

    def is_valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired; it ends at its moment, not after it."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may_use(self, topic: str) -> bool:
        """Whether a topic is one of its own."""
        return self.admin or _matches(topic, self.topics)

    def names(self, topic: str) -> bool:
        """Whether a topic is spelled out among its own: then it may change what is there even if that is internal."""
        return self.admin or topic in self.topics

    @property
    def may_produce(self) -> bool:
        """Whether it may create what needs an owner: messages, on its topics, and fanouts."""
        return self.producer_group is not None

    def owns(self, producer_group: str | None) -> bool:
        """Whether it may change what a producer group has made; what nobody owns is an admin's."""
        return self.admin or (producer_group is not None and producer_group == self.producer_group)

    @property
    def may_lease(self) -> bool:
        """Whether it may lease under any name at all."""
        return self.admin or bool(self.consumers)

    def may_lease_as(self, consumer: str) -> bool:
        """Whether it may lease, extend, release and finish under this name, on its topics."""
        return self.admin or _matches(consumer, self.consumers)

    @property
    def only_reads(self) -> bool:
        """Whether it may change nothing."""
        return not (self.admin or self.may_produce or self.may_lease)

    @property
    def is_wide(self) -> bool:
        """Whether it may change something on every topic that is not internal; an admin is meant to."""
        return "*" in self.topics and not (self.admin or self.only_reads)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_patterns(what: str, patterns: object, least: int) -> None:
    if not isinstance(patterns, tuple) or not least <= len(patterns) <= MOST_PATTERNS:
        raise InvalidInput(f"{what} must be a tuple of {least} to {MOST_PATTERNS} patterns, got {shown(patterns)}")
    for pattern in patterns:
        check_name(f"a pattern of {what}", pattern)
