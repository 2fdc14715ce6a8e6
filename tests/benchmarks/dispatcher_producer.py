"""A producer that always has something to do: what is handed out is what the limiter allows."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

from batchline import Dispatcher, Operation, Watcher

__all__ = ["meanwhile", "produce"]

AT_ONCE = 1_000


async def produce(dispatcher: Dispatcher, cost: float) -> None:
    """Enqueue operations for ever; whoever receives them is done at once."""
    watcher = Watcher(_receive)
    while True:
        await dispatcher.enqueue_many([Operation(watcher, cost, batchable=True) for _ in range(AT_ONCE)])


async def _receive(operations: list[Operation]) -> None:
    """Be done."""


@contextmanager
def meanwhile(*works: Awaitable[object]) -> Iterator[None]:
    """Do all of this at the same time, and no longer."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
