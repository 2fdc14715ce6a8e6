"""How the path stands, read at most once a second, however many ask."""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from batchline.runtime.clock import now_us
from batchline.runtime.facts import Facts, read_facts
from batchline.runtime.recent_reports import RecentReports
from batchline.stores.store import Store

__all__ = ["Glance"]

T = TypeVar("T")
#: How long what was read is shown: however many pages are open, a process looks once in that time.
FRESH_FOR_US: Final = 1_000_000
#: A look that takes long is shown longer: looking takes at most this part of the time.
BUSY: Final = 10


class Glance:
    """The facts of a store, read by whoever asks first, for all who ask soon after. Threads may share it."""

    def __init__(self, store: Store, clock: Callable[[], int] = now_us) -> None:
        self._store, self._clock = store, clock
        self._recent = RecentReports(store, clock=clock)
        self._facts: Facts | None = None
        self._made: dict[str, Any] = {}
        self._until_us = self._read_us = 0
        self._lock = threading.Lock()

    def facts(self) -> Facts:
        """How the path stands, as of a moment ago. Who comes while somebody reads is shown what was known before."""
        known = self._facts
        if known is not None and self._read_us <= self._clock() < self._until_us:
            return known
        if not self._lock.acquire(blocking=known is None):
            return known or self.facts()
        try:
            return self._read()
        finally:
            self._lock.release()

    def _read(self) -> Facts:
        began_us = self._clock()
        if self._facts is None or not self._read_us <= began_us < self._until_us:
            found = read_facts(self._store, self._recent, began_us // 1_000)
            self._read_us, self._until_us = began_us, began_us + max(FRESH_FOR_US, BUSY * (self._clock() - began_us))
            self._facts, self._made = found, {}
        return self._facts

    def made(self, who: str, make: Callable[[Facts], T]) -> T:
        """What is made of the facts for somebody: once, as long as they are shown."""
        facts, made = self.facts(), self._made
        if who not in made:
            made[who] = make(facts)
        return cast("T", made[who])
