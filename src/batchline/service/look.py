"""A look at the store that nobody waits for too long: health and metrics must answer while the database hangs."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Generic, NamedTuple, TypeVar

from batchline.errors import BatchlineError, StoreError, StoreUnavailable
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.supervisor import Loop

__all__ = ["Look", "Seen"]

T = TypeVar("T")


class Seen(NamedTuple, Generic[T]):
    """What was seen last, if anything was, and what is wrong now, if anything is."""

    value: T | None
    error: BatchlineError | None


class Look(Generic[T]):
    """Reads something, at most once at a time; what was read is believed for a while. For one event loop."""

    def __init__(self, read: Callable[[], T], threads: Executor, loop: Loop, *, keep_s: float, wait_s: float) -> None:
        """`keep_s` is how long what was read is believed, `wait_s` how long a caller waits for it."""
        self._read, self._threads, self._loop = read, threads, loop
        self._keep_s, self._wait_s = keep_s, wait_s
        self._under_way: Future[Seen[T]] | None = None
        self._seen: Seen[T] = Seen(None, None)
        self._seen_at = float("-inf")

    async def now(self) -> Seen[T]:
        """What is seen now; if that takes too long, what was seen before, and that it took too long."""
        if elapsed_seconds() - self._seen_at < self._keep_s:
            return self._seen
        if self._under_way is None or self._under_way.done():
            self._under_way = self._threads.submit(self._look)
        done, _ = await asyncio.wait([asyncio.wrap_future(self._under_way)], timeout=self._wait_s)
        if not done:
            return Seen(self._seen.value, StoreUnavailable(f"the store does not answer within {self._wait_s:g} s"))
        return self._seen

    def _look(self) -> Seen[T]:
        try:
            self._seen = Seen(self._read(), None)
        except BatchlineError as error:
            self._seen = Seen(self._seen.value, error)
        except BaseException as error:  # noqa: BLE001 - it is logged; without it the last look would count as this one
            self._loop.failed(error)
            self._seen = Seen(self._seen.value, StoreError(f"the look at the store failed: {type(error).__name__}"))
        else:
            self._loop.ran()
        self._seen_at = elapsed_seconds()
        return self._seen
