"""Is the rate the rate? The table of the seed's program repeated, in real seconds, beside a naive limiter's.

Operations always wait, so what is handed out is what the limiter allows. Rows of different flush intervals run at
once, in one loop: they leave it idle for most of the time, and one alone gives the same figures (`ALONE=1`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from batchline import Dispatcher, ProvisionedResource
from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.dispatcher_handouts import Handouts, largest_second, longest_gap, mean_rate
from tests.benchmarks.dispatcher_naive import Naive
from tests.benchmarks.dispatcher_producer import meanwhile, produce
from tests.benchmarks.measure import Sheet, console

__all__ = ["Row", "measure_rate"]

CAPACITY = 20_000
COSTS = (1, 10, 15, 1_500, 1_900, 3_000)
FLUSHES_MS = (1, 10, 100)
#: How long a row is measured: where an operation is worth 1 % of that, twice as long.
SECONDS, NAIVE_SECONDS = 10.0, 5.0
COLUMNS = ("capacity", "cost", "flush", "mean", "largest second", "bound", "kept", "naive mean", "naive largest")


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    capacity: float
    cost: float
    flush_ms: int
    manual_ms: int | None = None

    @property
    def bound(self) -> float:
        """The most that a second may have: 101 %, one operation, and one flush slice."""
        return self.capacity * 1.01 + self.cost + self.capacity * self.flush_ms / 1_000

    def seconds(self, scale: float) -> float:
        """How long it is measured."""
        return SECONDS * scale * (2 if self.cost >= self.capacity * SECONDS / 1_000 else 1)

    def share(self, rate: float) -> str:
        """A rate as a part of the capacity."""
        return f"{rate / self.capacity * 100:,.2f} %"


GROUPS = (
    *(tuple(Row(CAPACITY, cost, flush_ms) for flush_ms in FLUSHES_MS) for cost in COSTS),
    (Row(5, 1, 100), Row(19, 1, 100), Row(CAPACITY, 10, 100, manual_ms=25)),
)
Measure = Callable[[Row, float], Awaitable[Handouts]]


async def dispatched(row: Row, seconds: float) -> Handouts:
    """What a dispatcher hands out in so many seconds while operations wait."""
    handouts: list[tuple[float, float]] = []

    def note(event: str, count: int, *_: object) -> None:
        if event == "batch":
            handouts.append((elapsed_seconds(), row.cost * count))

    limiter = ProvisionedResource(row.capacity)
    dispatcher = Dispatcher(limiter, flush_interval=timedelta(milliseconds=row.flush_ms), emit_batch=True)
    # When a callback begins depends on what else the loop has to do; the event is at the moment of the hand-out.
    dispatcher.events.add_listener(note)
    await dispatcher.start()
    with meanwhile(produce(dispatcher, row.cost), _flush(dispatcher.flush, row.manual_ms)):
        await asyncio.sleep(seconds)
    await dispatcher.stop(drain=timedelta(0))
    return handouts


async def naively(row: Row, seconds: float) -> Handouts:
    """The same of the naive limiter."""
    handouts: list[tuple[float, float]] = []
    naive = Naive(row.capacity, row.cost, row.flush_ms / 1_000, lambda cost: handouts.append((elapsed_seconds(), cost)))
    with meanwhile(naive.run(), _flush(naive.flush, row.manual_ms)):
        await asyncio.sleep(seconds)
    return handouts


async def _flush(flush: Callable[[], object], every_ms: int | None) -> None:
    while every_ms is not None:
        await asyncio.sleep(every_ms / 1_000)
        flush()


def measure_rate(scale: float = 1.0) -> Sheet:
    """The whole table; `scale` makes its seconds fewer."""
    sheet = Sheet("Stage 5 rate: operations always wait, of the capacity", COLUMNS)
    for group in _groups():
        for row, ours, naive in asyncio.run(_measure(group, scale)):
            sheet.add(*_cells(row, ours, naive))
    return sheet


def _groups() -> Sequence[Sequence[Row]]:
    return [[row] for group in GROUPS for row in group] if os.environ.get("ALONE") else GROUPS


async def _measure(rows: Sequence[Row], scale: float) -> list[tuple[Row, Handouts, Handouts]]:
    ours = await asyncio.gather(*(dispatched(row, row.seconds(scale)) for row in rows))
    naive = await asyncio.gather(*(naively(row, NAIVE_SECONDS * scale) for row in rows))
    return list(zip(rows, ours, naive, strict=True))


def _cells(row: Row, ours: Handouts, naive: Handouts) -> Iterator[str]:
    mean, largest = mean_rate(ours), largest_second(ours)
    kept = 0.99 <= mean / row.capacity <= 1.01 and largest <= row.bound
    console.print(f"  [dim]{row}: {row.share(mean)}, longest gap {longest_gap(ours) * 1_000:,.0f} ms[/]")
    yield from (f"{row.capacity:,.0f}", f"{row.cost:,.0f}")
    yield f"{row.flush_ms} ms" + (f", {row.manual_ms} by hand" if row.manual_ms else "")
    yield from (row.share(mean), row.share(largest), row.share(row.bound), "yes" if kept else "no")
    yield from (row.share(mean_rate(naive)), row.share(largest_second(naive)))
