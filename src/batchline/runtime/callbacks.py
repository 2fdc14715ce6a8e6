"""Calls of other people's functions: async ones as they are, plain ones in threads."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final

__all__ = ["Callbacks", "call_in"]

#: How many plain functions may run at once, each in a thread, if nobody has said how many.
MOST_THREADS: Final = 32
#: How long those that are cancelled have to end.
LAST_WORDS_S: Final = 1.0


class Callbacks:
    """What is being called, so that it can be waited for, or cancelled."""

    def __init__(self, name: str, ended: Callable[[], None], most: int | None):
        """Nothing is called yet; `ended` is told whenever something has ended. At most so many threads are used."""
        self._ended = ended
        self._threads = ThreadPoolExecutor(most or MOST_THREADS, thread_name_prefix=name)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, and wait for what it returns."""
        return await call_in(self._threads, function, *arguments)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that calls, without waiting for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ended()

    async def cancel(self) -> None:
        """Cancel all that is under way; what runs in a thread goes on, and nobody waits for it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=LAST_WORDS_S)
        self._threads.shutdown(wait=False, cancel_futures=True)


async def call_in(threads: Executor | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an async function, or a plain one in a thread, and wait for what it returns."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    answer = await asyncio.get_running_loop().run_in_executor(threads, _call_plain, function, arguments)
    return await answer if inspect.isawaitable(answer) else answer


def _call_plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except StopIteration as error:
        # It means something else to who awaits, who would wait for ever.
        raise RuntimeError("it raised StopIteration") from error
