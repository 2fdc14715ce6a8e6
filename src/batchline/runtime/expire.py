"""Gives up what nobody has been heard of for too long: fanouts, consumers, brokers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from batchline.core.expiry_rules import ExpiryRules
from batchline.core.topic import span_ms
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.runtime.each_part import step_each
from batchline.runtime.tracker import Tracker
from batchline.stores.rows import Rows
from batchline.stores.store import Store

__all__ = ["Expire"]

#: How long the rows of consumers and brokers that are gone are kept, for people to look at.
KEPT_FOR: Final = timedelta(days=1)


class Expire:
    """Any number of processes may run it on one store."""

    def __init__(self, store: Store, *, expiry: ExpiryRules | None = None, clock: Callable[[], int] = now_us):
        self._store = store
        self._clock = clock_on(store, clock)
        self._tracker = Tracker(store, expiry=expiry, clock=self._clock)

    def run_once(self) -> bool:
        """Take a step. Return whether there is more to do."""
        parts = (("consumers and brokers", self._forget), ("fanouts", self._expire_fanouts))
        return step_each(parts, lambda part: part())

    def _expire_fanouts(self) -> bool:
        return self._tracker.expire_due().more

    def _forget(self) -> bool:
        now_ms = self._clock.checked_ms()

        def forget(rows: Rows) -> None:
            rows.forget_consumers(now_ms - span_ms(KEPT_FOR))
            rows.forget_sessions(now_ms - span_ms(KEPT_FOR))
            rows.forget_brokers(rows.database_ms(now_ms) - span_ms(KEPT_FOR))

        self._store.transact(forget)
        return False
