"""Calls of other people's functions: async ones as they are, plain ones in threads."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final

from batchline.core.name import reason_text

__all__ = ["Callbacks", "call_in", "error_text", "failure_of", "reason_of"]

log = logging.getLogger("batchline")
#: How many plain functions may run at once, each in a thread, if nobody has said how many.
MOST_THREADS: Final = 32
#: How long those that are cancelled have to end.
LAST_WORDS_S: Final = 1.0


class Callbacks:
    """What is being called, so that it can be waited for, or cancelled."""

    def __init__(self, name: str, ended: Callable[[], None], over: Callable[[], bool], most: int | None):
        """Prepare at most `most` threads. `ended` is called after each call.

        `over` tells whether cancellation comes from the owner of the calls, and not from the function called.
        """
        self._ended, self._over = ended, over
        self._threads = ThreadPoolExecutor(most or MOST_THREADS, thread_name_prefix=name)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, and wait for what it returns. What it raises is raised here, always as an Exception.

        Only cancellation by the owner of the calls is passed on as it is.
        """
        task = asyncio.current_task()
        try:
            return await call_in(self._threads, function, *arguments)
        except Exception:
            raise
        except BaseException as error:
            # A coroutine is closed by no task of its own: then the loop is gone.
            if isinstance(error, asyncio.CancelledError | GeneratorExit) and (self._over() or _task() is not task):
                raise
            raise failure_of(error) from error

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that calls, without waiting for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a call could not be completed", exc_info=task.exception())
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
    context = copy_context()
    answer = await asyncio.get_running_loop().run_in_executor(threads, context.run, _call_plain, function, arguments)
    return await answer if inspect.isawaitable(answer) else answer


def _call_plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except StopIteration as error:
        # It means something else to who awaits, who would wait for ever.
        raise RuntimeError("it raised StopIteration") from error
    except (SystemExit, KeyboardInterrupt) as error:
        # In a thread neither asks the process to end. Raised in a task, it would end the loop and all its tasks.
        raise failure_of(error) from error


def failure_of(error: BaseException) -> Exception:
    """Describe a BaseException as an Exception, which handlers of errors can raise and keep without ending the loop."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("it was cancelled")
    return RuntimeError(f"it raised {type(error).__name__}: {error_text(error)}")


def reason_of(error: object) -> str:
    """Return the class and the text of an error, as a store keeps them."""
    return reason_text(f"{type(error).__name__}: {error_text(error)}")


def error_text(error: object) -> str:
    """Return the text of an error, also of one that cannot tell it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a faulty error is still one
        return type(error).__name__


def _task() -> asyncio.Task[Any] | None:
    """Return the task that runs in this thread; None outside a loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
