"""Internal topics: pipelines have their parcels and dead letters on them. Only a token that names one changes it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from batchline.errors import Forbidden
from batchline.runtime.timeline import Timeline
from batchline.service.caller import Caller

__all__ = ["InternalTopics"]

#: How long what was read is believed: so long after a topic becomes internal, a pattern may still open it.
REMEMBERED_FOR: Final = timedelta(seconds=5)


class InternalTopics:
    """Which topics are internal. Threads may share this."""

    def __init__(self, timeline: Timeline, clock: Callable[[], int]) -> None:
        self._timeline, self._clock = timeline, clock
        #: By the name of each topic, whether it is internal; and when that was read.
        self._seen: tuple[Mapping[str, bool], int] = ({}, 0)

    def remembered(self, caller: Caller, topic: str) -> bool | None:
        """Return what `is_reserved` would, without a look at the store; None if it takes one."""
        return False if caller.names_topic(topic) else self._remembered(topic)

    def check(self, caller: Caller, topic: str, known: bool | None = None) -> None:
        """Raise Forbidden if a topic is internal, and the caller's token does not name it; by a look if not known."""
        if self.is_reserved(caller, topic) if known is None else known:
            raise Forbidden(
                f"topic {topic!r} is internal, for parcels of a pipeline: expected a token that names it, got one with "
                "a pattern that matches it; create a token with this topic spelled out"
            )

    def is_reserved(self, caller: Caller, topic: str) -> bool:
        """Whether a topic is internal, and the caller's token does not name it."""
        return not caller.names_topic(topic) and self._is_internal(topic)

    def _is_internal(self, topic: str) -> bool:
        known = self._remembered(topic)
        if known is None:
            read_us = self._clock()
            found = {one.name: one.internal for one in self._timeline.topics()}
            self._seen = (found, read_us)
            known = found.get(topic, False)
        return known

    def _remembered(self, topic: str) -> bool | None:
        """What was read of a topic; None if it was not there, or that is too long ago."""
        found, read_us = self._seen
        # A clock that was put back makes nothing fresh for long.
        is_fresh = timedelta(0) <= timedelta(microseconds=self._clock() - read_us) < REMEMBERED_FOR
        return found.get(topic) if is_fresh else None
