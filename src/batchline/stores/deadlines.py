"""Deadlines of a server's store: what ends a call that a frozen client or a cut network would hold up for ever."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from batchline.core.moment import span_of
from batchline.errors import InvalidStore
from batchline.stores.address import Address

__all__ = ["OWN_OPTIONS", "TOO_SLOW", "Deadlines", "read_deadlines"]

#: What to do when the server has ended a statement.
TOO_SLOW: Final = "raise `timeout` in the store's address if statements need longer"
#: Options of an address that are ours on every server.
OWN_OPTIONS: Final = ("connections", "patience", "timeout")
#: What a store takes unless its address says otherwise.
PATIENCE: Final = timedelta(seconds=30)
TIMEOUT: Final = timedelta(seconds=8)
#: Below this, a busy machine would lose healthy connections.
SHORTEST: Final = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All spans follow from two: `timeout` for one answer, `patience` for a call with its repetitions.

    The server gives up before the client does, for then the connection can be used again:

        lock ──► statement ──► answer, idle in a transaction
        4 s      6.4 s         8 s
    """

    timeout_s: float
    patience_s: float

    @property
    def lock_s(self) -> float:
        """How long the server lets a statement wait for a lock."""
        return self.timeout_s * 0.5

    @property
    def statement_s(self) -> float:
        """How long the server works on a statement."""
        return self.timeout_s * 0.8

    @property
    def attempt_s(self) -> float:
        """How long all statements of one attempt may take together."""
        return max(self.timeout_s, self.patience_s)


def read_deadlines(address: Address) -> Deadlines:
    """Return the deadlines that an address asks for."""
    timeout = address.option("timeout", TIMEOUT, span_of)
    patience = address.option("patience", PATIENCE, span_of)
    if timeout < SHORTEST:
        raise InvalidStore(
            f"timeout in the store's address must be at least 500ms, got {address.options['timeout']!r}: "
            "a shorter one would lose healthy connections"
        )
    return Deadlines(timeout.total_seconds(), patience.total_seconds())
