"""How much a process has to do: requests that are worked on, and those who wait for messages, each bounded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from batchline.errors import Overloaded
from batchline.wire.problems import RETRY_AFTER_S

__all__ = ["MOST_UNDER_WAY", "MOST_WAITING", "UnderWay"]

#: Requests that are worked on at the same time; those who wait for messages are not counted.
MOST_UNDER_WAY: Final = 256
#: Long polls and sockets at the same time.
MOST_WAITING: Final = 2_000


class UnderWay:
    """Counts, in the loop's thread."""

    def __init__(self, most: int = MOST_UNDER_WAY, most_waiting: int = MOST_WAITING) -> None:
        self._most, self._most_waiting = most, most_waiting
        self.requests = 0
        #: Long polls and sockets; and the sockets among them.
        self.waiting = 0
        self.sockets = 0

    @contextmanager
    def working(self, *, urgent: bool = False) -> Iterator[None]:
        """Count a request that is worked on; Overloaded if there are too many. An urgent one is not counted."""
        if urgent:
            yield
            return
        if self.requests >= self._most:
            raise Overloaded(f"{self.requests:,} requests are under way: try again in {RETRY_AFTER_S} s")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Do not count a request while its body comes in: half a body keeps no place from others.

        Raises Overloaded if there are too many requests by then.
        """
        self.requests -= 1
        try:
            yield
        finally:
            self.requests += 1
        if self.requests > self._most:
            raise Overloaded(f"{self.requests - 1:,} requests are under way: try again in {RETRY_AFTER_S} s")

    @contextmanager
    def resting(self) -> Iterator[None]:
        """A request that is worked on waits for messages, and is not counted meanwhile."""
        with self.attending():
            self.requests -= 1
            try:
                yield
            finally:
                self.requests += 1

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Somebody waits for messages; Overloaded if too many do."""
        if self.waiting >= self._most_waiting:
            raise Overloaded(f"{self.waiting:,} wait for messages here: try again in {RETRY_AFTER_S} s")
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Somebody waits on a socket of theirs; Overloaded if too many wait."""
        with self.attending():
            self.sockets += 1
            try:
                yield
            finally:
                self.sockets -= 1
