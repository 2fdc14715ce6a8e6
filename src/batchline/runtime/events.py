"""Events: what happened, told to whoever listens, and counted."""

import logging
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

__all__ = ["Events", "Listener"]

#: Gets the event's name, its value, a message and whatever else belongs to it.
Listener = Callable[[str, Any, str | None, Any], object]

log = logging.getLogger("batchline")


class Events:
    """Listeners, and how often which event was: the same as metrics."""

    def __init__(self) -> None:
        #: How often each event was.
        self.counts: Counter[str] = Counter()
        #: The last value of each.
        self.values: dict[str, Any] = {}
        self._listeners: dict[int, Listener] = {}
        self._numbers = count(1)

    def add_listener(self, listener: Listener) -> int:
        """Tell it every event from now on; the number is for `remove_listener`."""
        number = next(self._numbers)
        self._listeners[number] = listener
        return number

    def remove_listener(self, number: int) -> None:
        """Tell it nothing any more; a number that is not known is left alone."""
        self._listeners.pop(number, None)

    def emit(self, name: str, value: Any = 0, message: str | None = None, metadata: Any = None) -> None:
        """Tell all who listen now; what one of them raises is logged, and the others are told all the same."""
        self.counts[name] += 1
        self.values[name] = value
        for number, listener in list(self._listeners.items()):
            # One that was removed by another a moment ago does not listen any more.
            if number in self._listeners:
                try:
                    listener(name, value, message, metadata)
                except BaseException:  # whatever it is: the batches of the flush that emits must still be handed out
                    log.exception("a listener raised on the event %s", name)
