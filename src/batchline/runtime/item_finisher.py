"""Acks and fails of any size: in transactions of bounded size, and apart where one fanout cannot be processed."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from batchline.core.ack import Asked, ItemError
from batchline.errors import Degraded, StoreError, StoreUnavailable
from batchline.runtime.call_runner import CallRunner
from batchline.stores.settling import Call
from batchline.stores.store import Store
from batchline.stores.tracking import Finished, finish_items

__all__ = ["ItemFinisher"]

log: Final = logging.getLogger("batchline")
#: Groups that one transaction takes on: a larger call is several, each of them whole.
GROUPS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class ItemFinisher:
    """Finishes the items that a call names."""

    store: Store
    calls: CallRunner

    def finish(self, asked: list[Asked], reason: str | None, call_id: str) -> list[Finished]:
        """Acknowledge items, or fail them for a reason. Return what became of each part of the call."""
        return [one for part in _parts(asked) for one in self._isolated(part, reason, call_id)]

    def _isolated(self, asked: list[Asked], reason: str | None, call_id: str) -> list[Finished]:
        """Finish items together. If that raises, finish those of each fanout apart."""
        try:
            return [self._together(asked, reason, call_id)]
        except (StoreUnavailable, Degraded):
            raise
        except Exception:
            fanouts = [list(some) for _, some in groupby(sorted(asked, key=_salt), _salt)]
            if len(fanouts) == 1:
                raise
            log.warning("the items of %d fanouts cannot be finished together", len(fanouts), exc_info=True)
        return [self._apart(some, reason, call_id) for some in fanouts]

    def _apart(self, asked: list[Asked], reason: str | None, call_id: str) -> Finished:
        """Finish items of one fanout. What is wrong with it is an error of each of its items."""
        try:
            return self._together(asked, reason, call_id)
        except (StoreUnavailable, Degraded):
            raise
        except Exception as error:
            log.exception("the items of fanout %r cannot be finished", asked[0].fanout or asked[0].group)
            return Finished(errors=_errors(asked, error))

    def _together(self, asked: list[Asked], reason: str | None, call_id: str) -> Finished:
        def finish(call: Call) -> Finished:
            if len(asked) == 1 and reason is None:
                return self.store.ack_group(asked[0], call)
            return self.store.transact(lambda rows: finish_items(rows, asked, reason, call))

        return self.calls.run(call_id, finish)


_salt: Final = attrgetter("salt")


def _errors(asked: Sequence[Asked], error: Exception) -> list[ItemError]:
    return [
        item
        for one in asked
        for item in one.refused(
            one.mask,
            StoreError(f"group {one.group} cannot be processed: {error}; its items are as before, see the log"),
        )
    ]


def _parts(asked: list[Asked]) -> Iterator[list[Asked]]:
    """Pieces in the order of slots, so that neighbours are written together."""
    ordered = sorted(asked, key=lambda one: one.slot) if len(asked) > 1 else asked
    return (ordered[first : first + GROUPS_AT_ONCE] for first in range(0, len(ordered), GROUPS_AT_ONCE))
