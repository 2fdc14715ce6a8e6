"""Takes messages whose last allowed lease ran out to the dead-letter topic, also when nobody asks for messages."""

from collections.abc import Callable
from itertools import count
from typing import Final

from batchline.core.topic import Topic
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.runtime.each_part import step_each
from batchline.stores.burying import bury_expired
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.store import Store

__all__ = ["Rescue"]

AT_ONCE: Final = 500


class Rescue:
    """Any number of processes may run it on one store."""

    def __init__(self, store: Store, *, clock: Callable[[], int] = now_us):
        self._store = store
        self._clock = clock_on(store, clock)

    def run_once(self) -> bool:
        """Take a step on each topic with a limit of attempts. Return whether there is more to do.

        A topic that fails stops no other.
        """
        topics = self._store.read(lambda rows: rows.topics())
        limited = (topic for topic in topics if topic.max_attempts is not None and not topic.deleted)
        return step_each(((f"topic {topic.name!r}", topic) for topic in limited), self._step)

    def _step(self, topic: Topic) -> bool:
        now_ms = self._clock.checked_ms()
        first = fresh_number(now_ms, 64 * AT_ONCE)
        return self._store.transact(lambda rows: bury_expired(rows, topic, now_ms, AT_ONCE, count(first))) == AT_ONCE
