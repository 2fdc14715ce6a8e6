"""What was pushed to a consumer and is not finished, and how much more may be. No I/O."""

from collections.abc import Iterable, Sequence
from typing import Final

from batchline.core.message import Lease, Outcome
from batchline.errors import InvalidCount
from batchline.wire.push import MOST_PREFETCHED

__all__ = ["MOST_AT_ONCE", "Hand", "check_prefetch"]

#: Messages that are leased for one consumer before it is the next one's turn.
MOST_AT_ONCE: Final = 256


def check_prefetch(prefetch: int) -> int:
    """How many messages a consumer may have unfinished, if it may."""
    if not 0 <= prefetch <= MOST_PREFETCHED:
        raise InvalidCount(f"prefetch must be a whole number from 0 to {MOST_PREFETCHED:,}, got {prefetch}")
    return prefetch


class Hand:
    """Leases by message; no more than `prefetch` are added."""

    def __init__(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self._leases: dict[tuple[int, int], Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def room(self) -> int:
        """How many more may be pushed now, at once."""
        return min(max(self.prefetch - len(self._leases), 0), MOST_AT_ONCE)

    def has(self, lease: Lease) -> bool:
        """Whether the message of a lease was pushed and is not finished."""
        return lease.message_key in self._leases

    def take(self, leases: Iterable[Lease]) -> None:
        """Note leases of messages that were pushed."""
        self._leases.update((lease.message_key, lease) for lease in leases)

    def extended(self, leases: Sequence[Lease], outcomes: Sequence[Outcome]) -> None:
        """Replace leases by those that hold now, and forget the lost ones."""
        for lease, outcome in zip(leases, outcomes, strict=True):
            if outcome.lease is None:
                self._leases.pop(lease.message_key, None)
            elif lease.message_key in self._leases:
                self._leases[lease.message_key] = outcome.lease

    def finished(self, leases: Iterable[Lease]) -> None:
        """Forget leases of messages that were done or released, or were lost before."""
        for lease in leases:
            self._leases.pop(lease.message_key, None)

    def keep(self, leases: Iterable[Lease]) -> None:
        """Forget all but these: others have taken them over."""
        kept = {lease.message_key for lease in leases}
        self._leases = {key: lease for key, lease in self._leases.items() if key in kept}

    def sweep(self, now_ms: int) -> None:
        """Forget those whose leases have ended: they are others' by now."""
        self._leases = {key: lease for key, lease in self._leases.items() if lease.until_ms > now_ms}

    def leases(self) -> list[Lease]:
        """All of them."""
        return list(self._leases.values())
