"""How the path stands, read at most once a second, however many ask."""

import threading
from collections.abc import Callable
from typing import Final

from batchline.runtime.clock import now_us
from batchline.runtime.facts import Facts, read_facts
from batchline.runtime.recent_reports import RecentReports
from batchline.stores.store import Store

__all__ = ["Glance"]

#: How long what was read is shown: however many pages are open, a process looks once in that time.
FRESH_FOR_US: Final = 1_000_000
#: A look that takes long is shown longer: looking takes at most this part of the time.
BUSY: Final = 10


class Glance:
    """The facts of a store, read by whoever asks first, for all who ask soon after."""

    def __init__(self, store: Store, clock: Callable[[], int] = now_us) -> None:
        self._store, self._clock = store, clock
        self._recent = RecentReports(store, clock=clock)
        self._facts: Facts | None = None
        self._until_us = self._read_us = 0
        self._lock = threading.Lock()

    def facts(self) -> Facts:
        """How the path stands, as of a moment ago."""
        with self._lock:
            began_us = self._clock()
            if self._facts is None or not self._read_us <= began_us < self._until_us:
                self._facts = read_facts(self._store, self._recent, began_us // 1_000)
                self._read_us = began_us
                self._until_us = began_us + max(FRESH_FOR_US, BUSY * (self._clock() - began_us))
            return self._facts
