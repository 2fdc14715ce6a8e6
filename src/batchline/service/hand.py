"""What was pushed to a consumer and is not finished, and how much more may be. No I/O."""

from collections.abc import Iterable
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
    """Leases by the ids of their messages; no more than `prefetch` are added."""

    def __init__(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self._leases: dict[str, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def room(self) -> int:
        """How many more may be pushed now, at once."""
        return min(max(self.prefetch - len(self._leases), 0), MOST_AT_ONCE)

    def take(self, leases: Iterable[Lease]) -> None:
        """These were pushed."""
        self._leases.update((lease.id, lease) for lease in leases)

    def extended(self, outcomes: Iterable[Outcome]) -> None:
        """These were to be extended: they have other leases now, or none."""
        for outcome in outcomes:
            if outcome.lease is None:
                self._leases.pop(outcome.id, None)
            elif outcome.id in self._leases:
                self._leases[outcome.id] = outcome.lease

    def finished(self, outcomes: Iterable[Outcome]) -> None:
        """These were done or released, or were lost before."""
        for outcome in outcomes:
            self._leases.pop(outcome.id, None)

    def sweep(self, now_ms: int) -> None:
        """Forget those whose leases have ended: they are others' by now."""
        self._leases = {id: lease for id, lease in self._leases.items() if lease.until_ms > now_ms}

    def leases(self) -> list[Lease]:
        """All of them."""
        return list(self._leases.values())
