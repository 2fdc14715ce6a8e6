"""Removes what is done or cancelled, in bounded steps, and sums the notes that counts are made of."""

from collections.abc import Callable
from itertools import count
from typing import Final

from batchline.core.topic import Topic
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.runtime.each_part import step_each
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.pruning import end_messages, prune_ended, remove_topic
from batchline.stores.store import Store

__all__ = ["Prune"]

#: Spots, and notes, that one step takes on for each topic.
AT_ONCE: Final = 500


class Prune:
    """Any number of processes may run it on one store."""

    def __init__(
        self,
        store: Store,
        *,
        only: str | None = None,
        clock: Callable[[], int] = now_us,
    ):
        """Prune what ended longer ago than its topic's `keep`: until then, a repeated call is recognised.

        It takes on all topics, or `only` the one of this name.
        """
        self._store = store
        self._only = only
        self._clock = clock_on(store, clock)

    def run_once(self) -> bool:
        """Take a step on each topic. Return whether there is more to do. A topic that fails stops no other."""
        topics = [one for one in self._store.read(lambda rows: rows.topics()) if self._only in (None, one.name)]
        return step_each(((f"topic {topic.name!r}", topic) for topic in topics), self._step)

    def _step(self, topic: Topic) -> bool:
        now_ms = self._clock.checked_ms()
        before_ms = topic.kept_since_ms(now_ms)
        removed = self._store.transact(lambda rows: prune_ended(rows, topic, before_ms, AT_ONCE))
        folded = self._store.transact(lambda rows: rows.fold_tallies(topic.number, AT_ONCE))
        more = removed == AT_ONCE or folded == AT_ONCE
        return self._delete(topic, now_ms) or more if topic.deleted else more

    def _delete(self, topic: Topic, now_ms: int) -> bool:
        """A step on the way of a topic that is being deleted."""
        first = fresh_number(now_ms, AT_ONCE)
        ended = self._store.transact(lambda rows: end_messages(rows, topic, now_ms, AT_ONCE, count(first)))
        gone = not ended and self._store.transact(lambda rows: remove_topic(rows, topic))
        return bool(ended) and not gone
