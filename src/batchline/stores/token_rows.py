"""What the service asks of a store about tokens: who may do what."""

from typing import NamedTuple, Protocol

__all__ = ["TokenRow", "TokenRows"]


class TokenRow(NamedTuple):
    """A token: what may be done with it, and a hash of its secret, which itself is kept nowhere."""

    id: str
    name: str
    #: SHA-256 of the secret, in hexadecimal digits.
    secret_hash: str
    producer_group: str | None
    consumers: tuple[str, ...]
    topics: tuple[str, ...]
    admin: bool
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


class TokenRows(Protocol):
    """The table of tokens, within one transaction."""

    def insert_token(self, row: TokenRow) -> None:
        """A new token; if there is one of that id, it stays as it is."""

    def token(self, id: str) -> TokenRow | None:
        """The token of an id, revoked or not; None if there is none."""

    def tokens(self) -> list[TokenRow]:
        """All tokens, revoked or not, the oldest first."""

    def any_token(self) -> bool:
        """Whether there is one, revoked or not."""

    def revoke_token(self, id: str, revoked_ms: int) -> None:
        """End a token; the moment of one that has been ended stays, and of an unknown one nothing comes."""
