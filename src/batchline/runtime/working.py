"""A worker in a thread and a loop of its own, for programs that are not asyncio's."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from batchline.runtime.worker import Worker

__all__ = ["Working"]


class Working:
    """Delivers while something else is done: `with Working(lambda: Worker(…)) as working: …`."""

    def __init__(self, make: Callable[[], Worker]):
        """The worker is made in the thread, by this function."""
        self._make = make
        self._made = threading.Event()
        self._error: BaseException | None = None
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="batchline-worker", daemon=True)

    @property
    def worker(self) -> Worker:
        """The worker; what it cannot go on for is raised here."""
        self.check()
        if self._worker is None:
            raise RuntimeError("a worker is made when it is entered")
        return self._worker

    def check(self) -> None:
        """Raise what the worker cannot go on for, if there is something."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        self._made.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._loop is not None and self._worker is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._worker.stop)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the worker is waited for
            self._error = error
        finally:
            self._made.set()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._worker = self._make()
        self._made.set()
        await self._worker.run()
