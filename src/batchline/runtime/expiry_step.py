"""One step of expiry: a page of due fanouts, each in transactions of its own, so that a bad one stops no other."""

import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from batchline.core.fanout import Ending, State
from batchline.errors import Degraded, StoreUnavailable
from batchline.runtime.call_runner import CallRunner
from batchline.stores.expiring import Looked, clear_fanout, look_at
from batchline.stores.store import Store

__all__ = ["RETRY_AFTER_US", "ExpireOutcome", "ExpiryStep", "ended_in"]

log: Final = logging.getLogger("batchline")
#: How long a fanout that cannot be processed is left alone.
RETRY_AFTER_US: Final = 600_000_000
#: Transactions that settle the ancestors of one fanout in one step.
TRANSACTIONS: Final = 16


@dataclass(slots=True)
class ExpireOutcome:
    """What a step of expiry did."""

    #: Ids of the fanouts that became tombstones.
    expired: list[str] = field(default_factory=list)
    #: Ids of the tombstones that went.
    removed: list[str] = field(default_factory=list)
    #: Ids of the ancestors that this call, and no other, completed or made fail.
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    #: Whether there is more to do at this moment.
    more: bool = False

    def take(self, looked: Looked) -> None:
        """Add what a look at one fanout led to."""
        self.expired += [looked.expired] if looked.expired else []
        self.removed += [looked.removed] if looked.removed else []
        self.completed += ended_in(dict.fromkeys(looked.endings), "complete")
        self.failed += ended_in(dict.fromkeys(looked.endings), "failed")


def ended_in(endings: Iterable[Ending], state: State) -> list[str]:
    """Return the ids of fanouts that ended in a state, in an order that a repeated call has, too."""
    return sorted(ending.fanout for ending in endings if ending.state == state)


class ExpiryStep:
    """A look at each due fanout of one page."""

    def __init__(self, store: Store, clock: Callable[[], int]):
        self._store, self._now_us = store, clock
        self._calls = CallRunner(store, clock, head_start_us=0, retry_after_us=RETRY_AFTER_US, most=TRANSACTIONS)
        self._outcome = ExpireOutcome()

    def run(self, limit: int) -> ExpireOutcome:
        """Look at up to `limit` fanouts, longest due first. A fanout that cannot be processed is skipped."""
        now_us = self._now_us()
        due = self._store.read(lambda rows: rows.due_fanouts(now_us, limit))
        processed = [self._process(number, id) for number, id in due]
        # A page of nothing but bad fanouts is no reason to hurry.
        self._outcome.more |= len(due) == limit and any(processed)
        return self._outcome

    def _process(self, number: int, id: str) -> bool:
        """Look at one fanout. Return False if that raised; it is logged and postponed."""
        try:
            self._expire(number)
        except (StoreUnavailable, Degraded):
            raise
        except Exception:
            retry_us = self._now_us() + RETRY_AFTER_US
            # A store that fails here, too, is what is wrong: then its error is raised.
            self._store.transact(lambda rows: rows.postpone_fanout(number, retry_us))
            log.exception("fanout %r cannot be processed by expiry; the next try is in 10 minutes", id)
            return False
        return True

    def _expire(self, number: int) -> None:
        if not self._look(number).to_clear:
            return
        if self._store.transact(partial(clear_fanout, number=number)):
            # Its tombstone is left, and may be due as well, if no instance has looked for long.
            self._look(number)
        else:
            self._outcome.more = True

    def _look(self, number: int) -> Looked:
        call_id = secrets.token_hex(8)
        looked = self._calls.run(call_id, lambda call: self._store.transact(lambda rows: look_at(rows, number, call)))
        above = self._calls.propagate(call_id, looked.to_propagate)
        self._outcome.more |= bool(looked.to_propagate)
        self._outcome.take(replace(looked, endings=[*looked.endings, *above]))
        return looked
