"""The threads in which a service works, and when one of them last got something done."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from batchline.runtime.clock import elapsed_seconds

__all__ = ["WorkThreads"]

T = TypeVar("T")


class WorkThreads(ThreadPoolExecutor):
    """Threads that note when a piece of work last succeeded."""

    worked_at = float("-inf")

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Have a thread do some work."""
        return super().submit(self._note, fn, *args, **kwargs)

    def _note(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        answer = work(*arguments, **options)
        self.worked_at = elapsed_seconds()
        return answer
