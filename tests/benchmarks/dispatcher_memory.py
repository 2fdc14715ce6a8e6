"""What operations weigh that wait: what a fresh process grows by, beside a plain list of tuples."""

import asyncio
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchline import Dispatcher, Operation, Watcher
from tests.benchmarks.measure import Figures

__all__ = ["measure_memory"]

COUNT = 1_000_000
AT_ONCE = 1_000


async def _receive(operations: list[Operation]) -> None:
    """Be done with them at once."""


def _tuples(count: int) -> Any:
    watcher = Watcher(_receive)
    return [(watcher, 1, number) for number in range(count)]


def _operations(count: int) -> Any:
    watcher = Watcher(_receive)
    return [Operation(watcher, 1, number, batchable=True) for number in range(count)]


def _buffered(count: int) -> Any:
    """In a dispatcher that was not started: all of them wait."""
    watcher, dispatcher = Watcher(_receive), Dispatcher(buffer=count)

    async def enqueue() -> None:
        for begin in range(0, count, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, count))
            await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in numbers)

    asyncio.run(enqueue())
    assert dispatcher.buffered == count
    return dispatcher


HOLDERS: dict[str, Callable[[int], Any]] = {
    "a list of tuples (watcher, cost, payload)": _tuples,
    "a list of operations": _operations,
    "operations in the buffer of a dispatcher": _buffered,
}


def measure_memory(scale: float = 1.0) -> Figures:
    """Bytes for each operation; the payload is a number, which is a part of it."""
    count = max(AT_ONCE, int(COUNT * scale))
    figures = Figures(f"Stage 5 memory: {count:,} operations that wait", "bytes/operation")
    context = multiprocessing.get_context("spawn")
    for name in HOLDERS:
        with context.Pool(1) as fresh:
            figures.add_value("a fresh process grows by", name, fresh.apply(grown, (name, count)) / count)
    return figures


def grown(name: str, count: int) -> int:
    """By how many bytes this process grows for them."""
    _buffered(AT_ONCE)  # what the first one brings along
    before = _resident_bytes()
    holder = HOLDERS[name](count)
    after = _resident_bytes()
    del holder
    return after - before


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024
