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
    #: Whether the error is that it took too long: its text is ours, and names no host or user.
    is_late: bool = False


class Look(Generic[T]):
    """Reads something, at most once at a time; what was read is believed for a while. For one event loop."""

    def __init__(
        self,
        read: Callable[[], T],
        threads: Executor,
        loop: Loop,
        *,
        keep_s: float,
        wait_s: float,
        goes_on: Callable[[bool], bool] = lambda _: False,
    ) -> None:
        """`keep_s` is how long what was read is believed, `wait_s` how long the first caller waits for it.

        `goes_on` tells of a look that takes long, by whether it has a thread, if other work goes on meanwhile: then it
        only waits for its turn.
        """
        self._read, self._threads, self._loop, self._goes_on = read, threads, loop, goes_on
        self._keep_s, self.wait_s = keep_s, wait_s
        self._under_way: Future[Seen[T]] | None = None
        self._began_at = float("-inf")
        self._seen: Seen[T] = Seen(None, None)
        self._seen_at = float("-inf")

    async def now(self) -> Seen[T]:
        """Return what is seen now; or, if that takes too long, what was seen before, and that it took too long."""
        now_s = elapsed_seconds()
        if now_s - self._seen_at < self._keep_s:
            return self._seen
        if self._under_way is None or self._under_way.done():
            self._under_way, self._began_at = self._threads.submit(self._look), now_s
        under_way, left_s = self._under_way, self._began_at + self.wait_s - now_s
        # Once it is late, callers wait no longer: however many ask while the store hangs, nothing piles up.
        done, _ = await asyncio.wait([asyncio.wrap_future(under_way)], timeout=left_s) if left_s > 0 else ((), ())
        if done or self._goes_on(under_way.running()):
            return self._seen
        late = StoreUnavailable(f"the store does not answer within {self.wait_s:g} s")
        return Seen(self._seen.value, late, is_late=True)

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
