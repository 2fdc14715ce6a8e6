"""Stage 3: acks a second, bytes an item, and times of calls, beside a table with one row per item and a Celery chord.

All of it on the servers of the tests, which do not wait for the disk (fsync is off): for ours and for the peers alike.
On disks that are waited for, single acks would all be slower, and nearer to each other. Rates are over at most
`LIMIT_S` seconds each and over a sample of the items: 10 M are tried at the size they have, not to their end.

`python -m tests.benchmarks.tracker 100000 1000000` measures these sizes only.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Protocol

from batchline import Tracker, open_store
from tests.benchmarks.celery_chord import measure_chord
from tests.benchmarks.measure import Figures, console, once, within
from tests.benchmarks.tracker_disk import DATABASES, bytes_on_disk, fresh, rewrite
from tests.benchmarks.tracker_peers import RowTable, row_table
from tests.servers.ask import begin, end

__all__ = ["SIZES", "Report", "run"]

SIZES = (100_000, 1_000_000, 10_000_000)
#: The longest that one rate is measured.
LIMIT_S = 5.0
IN_A_CALL = 1_000
A_GROUP = 64
THREADS = 4
IN_THREADS = f"single, {THREADS} threads"
STATUS_CALLS = 50
CHORD_TASKS = 3_000
NOTES = f"""\
Servers do not wait for the disk (fsync is off), SQLite waits at checkpoints only (synchronous = normal): ours and \
the peers alike. A rate is over at most {LIMIT_S:.0f} s and a sample of the items. The row table deletes rows: faster \
and smaller than to mark them, but it cannot tell an item done twice from one that never was. Celery runs the tasks \
too: its bookkeeping alone is a small difference of two times, so a rough figure. Small sizes show what empty tables \
take."""
OURS, ROWS, CHORD = "batchline", "row per item", "Celery chord"


class Contender(Protocol):
    """One way to know what is pending. Items are numbers from 0 here; how it names them is its own matter."""

    def add(self, count: int) -> None:
        """Make the items of one fanout."""

    def prepare(self, items: Sequence[int]) -> Sequence[Any]:
        """Return its own names of these items, before the clock runs."""

    def ack(self, items: Sequence[Any]) -> int:
        """Ack many; returns how many were pending."""

    def ack_one(self, item: Any) -> int:
        """Ack one."""

    def whole(self, items: range) -> Any:
        """Return the best it has for these neighbours, before the clock runs."""

    def ack_whole(self, call: Any) -> int:
        """Ack what `whole` returned."""

    def ack_some(self, share: float) -> None:
        """Ack about this share of what is pending, random ones."""

    def status(self) -> int:
        """Count what is pending."""


class Ours:
    """The tracker, with one fanout of whole groups but for the last."""

    def __init__(self, url: str):
        self._store = open_store(url)
        self._tracker = Tracker(self._store)
        self._fanout = ""
        self._groups: list[Any] = []

    def add(self, count: int) -> None:
        """Open, add and seal."""
        self._fanout = self._tracker.open("bench").id
        self._groups = self._tracker.add(self._fanout, count)
        self._tracker.seal(self._fanout)

    def prepare(self, items: Sequence[int]) -> Sequence[Any]:
        """Return the texts of items."""
        groups = self._groups
        return [f"{self._fanout}:{groups[item // A_GROUP].id}:{item % A_GROUP}" for item in items]

    def ack(self, items: Sequence[Any]) -> int:
        """Ack texts, or pairs of a group and a mask."""
        outcome = self._tracker.ack(list(items))
        assert not outcome.errors
        return outcome.changed

    def ack_one(self, item: Any) -> int:
        """Ack one text."""
        return self.ack([item])

    def whole(self, items: range) -> Any:
        """Return pairs of whole groups."""
        first, last = items.start // A_GROUP, -(-items.stop // A_GROUP)
        return [(group, group.mask) for group in self._groups[first:last]]

    def ack_whole(self, call: Any) -> int:
        """Ack pairs."""
        return self.ack(call)

    def ack_some(self, share: float) -> None:
        """Ack with a random mask for each group."""
        draw = random.Random(2)
        chosen = [(group, _random_mask(draw, group.mask, share)) for group in self._groups]
        for begin_at in range(0, len(chosen), IN_A_CALL):
            self.ack([pair for pair in chosen[begin_at : begin_at + IN_A_CALL] if pair[1]])

    def status(self) -> int:
        """Ask for the status."""
        return self._tracker.status(self._fanout).pending

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _random_mask(draw: random.Random, mask: int, share: float) -> int:
    return sum(1 << bit for bit in range(mask.bit_length()) if draw.random() < share)


class Rows:
    """The table with one row per item."""

    def __init__(self, table: RowTable):
        self._table = table
        self.add, self.ack, self.ack_one = table.add, table.ack, table.ack_one
        self.ack_whole, self.ack_some, self.status = table.ack_range, table.ack_some, table.pending

    def prepare(self, items: Sequence[int]) -> Sequence[Any]:
        """Return the numbers themselves."""
        return items

    def whole(self, items: range) -> Any:
        """Return the range itself."""
        return items


@contextmanager
def contender(name: str, database: str, url: str) -> Iterator[Contender]:
    """Ours or the peer, in an empty database."""
    if name == OURS:
        with closing(Ours(url)) as ours:
            yield ours
    else:
        with row_table(database, url) as table:
            yield Rows(table)


@dataclass
class Report:
    """The three tables."""

    acks: Figures = field(default_factory=lambda: Figures("Stage 3 acks: fsync off, for all", "acks/s"))
    space: Figures = field(default_factory=lambda: Figures("Stage 3 bytes: indexes included", "bytes/item", 2))
    times: Figures = field(default_factory=lambda: Figures("Stage 3 times: of one call", "ms", 2))

    def show(self) -> None:
        """Print the tables, and keep them as JSON."""
        for figures in (self.acks, self.space, self.times):
            figures.show()
        console.print(NOTES, style="dim")


@dataclass(frozen=True)
class Trial:
    """One database and one size, for which every contender is measured."""

    database: str
    size: int
    report: Report

    def measure(self) -> None:
        """Measure the peer, then ours: ratios are to the peer."""
        for name in (ROWS, OURS):
            with fresh(self.database) as url, contender(name, self.database, url) as way:
                self._on_random_items(name, url, way)
        for name in (ROWS, OURS):
            with fresh(self.database) as url, contender(name, self.database, url) as way:
                self._on_whole_groups(name, way)

    def _on_random_items(self, name: str, url: str, way: Contender) -> None:
        """Add, look, ack samples, ack until half is done: one fanout for all of it."""
        self.report.times.add_value(self.group("add"), name, once(lambda: way.add(self.size)) * 1000)
        self._weigh(name, url, "all pending")
        self.report.times.add_value(self.group("status"), name, _median_ms(way))
        many, few = min(self.size // 4, 200_000), min(self.size // 16, 20_000)
        sample = way.prepare(random.Random(1).sample(range(self.size), many + 2 * few))
        together, alone, shared = sample[:many], sample[many : many + few], sample[many + few :]
        calls = [together[at : at + IN_A_CALL] for at in range(0, many, IN_A_CALL)]
        done = self._rate("bulk, 1,000 random a call", name, within(LIMIT_S, partial(_all_pending, way.ack), calls))
        one = partial(_one_pending, way.ack_one)
        done += self._rate("single, 1 thread", name, within(LIMIT_S, one, alone))
        shares = [shared[number::THREADS] for number in range(THREADS)]
        done += self._rate(IN_THREADS, name, within(LIMIT_S, one, *shares))
        assert way.status() == self.size - done, "an ack was lost or counted twice"
        way.ack_some((self.size / 2 - done) / (self.size - done))
        self._weigh(name, url, "half acked")
        if self.database == "PostgreSQL":
            group = self.group("half acked, VACUUM FULL")
            self.report.space.add_value(group, name, rewrite(url) / self.size)

    def _on_whole_groups(self, name: str, way: Contender) -> None:
        """Ack neighbours; the peer has no more than 1 M of them, which is quicker to fill and no harder for it."""
        size = self.size if name == OURS else min(self.size, 1_000_000)
        way.add(size)
        step = IN_A_CALL * A_GROUP
        calls = [way.whole(range(at, min(at + step, size))) for at in range(0, size, step)]
        shown = name if size == self.size else f"{name}, ranges of {size:,}"
        done = self._rate("bulk, 1,000 whole groups a call", shown, within(LIMIT_S, way.ack_whole, calls))
        assert way.status() == size - done, "an ack was lost or counted twice"

    def _weigh(self, name: str, url: str, state: str) -> None:
        self.report.space.add_value(self.group(state), name, bytes_on_disk(self.database, url) / self.size)

    def _rate(self, what: str, name: str, measured: tuple[int, float]) -> int:
        self.report.acks.add(self.group(what), name, *measured)
        return measured[0]

    def group(self, what: str) -> str:
        """The name of a group of figures."""
        return f"{self.database}, {self.size:,}: {what}"


def _all_pending(ack: Callable[[Sequence[Any]], int], items: Sequence[Any]) -> int:
    """Ack items that no call before had: a repeated one takes time and counts for nothing, which is no rate."""
    changed = ack(items)
    assert changed == len(items), f"{changed} of {len(items)} were pending"
    return changed


def _one_pending(ack: Callable[[Any], int], item: Any) -> int:
    """Ack one item that no call before had."""
    changed = ack(item)
    assert changed == 1, f"{item} was not pending"
    return changed


def _median_ms(way: Contender) -> float:
    """The median time of a status, of 50 calls or as many as fit."""
    times: list[float] = []
    while len(times) < STATUS_CALLS and sum(times) < LIMIT_S:
        times.append(once(way.status))
    return median(times) * 1000


def measure_celery(report: Report, tasks: int, size: int) -> None:
    """Put a chord beside our single acks on a fanout of that size, measured before."""
    cost = measure_chord(tasks)
    group, alone = f"Redis, {tasks:,} tasks, run by 2 processes", cost.done_s - cost.plain_s
    report.acks.add(group, f"{CHORD}, until the callback ran", tasks, cost.done_s)
    report.acks.add(group, "the same tasks without chord and results", tasks, cost.plain_s)
    bookkeeping = "the chord's bookkeeping alone: the difference"
    if alone > 0:
        report.acks.add(group, bookkeeping, tasks, alone)
    else:
        report.acks.leave_out(group, bookkeeping, "none seen")
    report.acks.add(group, "sending the chord", tasks, cost.sent_s)
    for database in DATABASES:
        rate = report.acks.value(Trial(database, size, report).group(IN_THREADS), OURS)
        report.acks.add_value(group, f"{OURS}, {database}: {IN_THREADS}", rate)
    report.space.add_value(group, f"{CHORD}, sent and not begun: its messages", cost.bytes_sent)
    report.space.add_value(group, f"{CHORD}, done: results, kept for a day", cost.bytes_done)


def run(sizes: Sequence[int] = SIZES) -> Report:
    """All figures of stage 3."""
    report = Report()
    begin()
    try:
        for size in sizes:
            for database in DATABASES:
                Trial(database, size, report).measure()
        measure_celery(report, min(CHORD_TASKS, min(sizes)), min(sizes))
    finally:
        end()
    return report


if __name__ == "__main__":
    run([int(word) for word in sys.argv[1:]] or SIZES).show()
