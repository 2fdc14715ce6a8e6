"""The verbs of a dispatcher for threads that are not its loop's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from batchline.errors import DispatcherStopped, ImproperOrder

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from batchline.core.operation import Operation
    from batchline.runtime.dispatcher import Dispatcher

__all__ = ["Threadsafe"]


class Threadsafe:
    """Each verb waits in its thread for what it does in the loop."""

    def __init__(self, dispatcher: Dispatcher):
        self.loop: asyncio.AbstractEventLoop | None = None
        self._dispatcher = dispatcher

    def enqueue(self, operation: Operation) -> None:
        """Put an operation into the buffer, as soon as there is room."""
        self._wait(self._dispatcher.enqueue(operation))

    def enqueue_many(self, operations: Iterable[Operation]) -> None:
        """Put operations into the buffer, as soon as there is room."""
        self._wait(self._dispatcher.enqueue_many(operations))

    def flush(self) -> None:
        """Flush as soon as possible."""
        self._running().call_soon_threadsafe(self._dispatcher.flush)

    def pause(self) -> None:
        """Stop handing out for the pause time."""
        self._running().call_soon_threadsafe(self._dispatcher.pause)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self.loop is None:
            raise ImproperOrder("other threads can use a dispatcher once it is started")
        if self.loop.is_closed():
            raise DispatcherStopped("the loop of the dispatcher is closed")
        return self.loop

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            loop = self._elsewhere()
        except BaseException:
            work.close()
            raise
        asyncio.run_coroutine_threadsafe(work, loop).result()

    def _elsewhere(self) -> asyncio.AbstractEventLoop:
        loop = self._running()
        if _here() is loop:
            raise ImproperOrder("in the loop's own thread the verbs are awaited: await dispatcher.enqueue(…)")
        return loop


def _here() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
