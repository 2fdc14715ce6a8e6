"""Stage 4: messages created, leased and done a second, and how late they are delivered, beside other queues.

All of it on the servers of the tests, which do not wait for the disk (fsync is off): for ours and for the peers alike.

`python -m tests.benchmarks.timeline 10000 100000` measures with so many waiting messages only; `PGMQ_SQL=pgmq.sql`
names the file that installs pgmq, which is left out without it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.benchmarks.measure import Figures, console
from tests.benchmarks.timeline_delivery import APART_MS, POLL_MS, measure_delivery
from tests.benchmarks.timeline_life import LIMIT_S, Life, live_in_processes, live_in_threads, whole_life
from tests.benchmarks.timeline_ours import MOMENTS, OURS, contenders
from tests.benchmarks.timeline_peers import MANY, PEERS, TABLE, missing
from tests.benchmarks.timeline_waiting import AT_ONCE, HEAVIEST, Waiting, weigh_created
from tests.benchmarks.tracker_disk import DATABASES, fresh
from tests.servers.ask import begin, end

__all__ = ["SIZES", "Report", "run"]

SIZES = (10_000, 1_000_000, 10_000_000)
#: Messages of one life, in bulk and singly: about as many as can be measured in the time.
IN_BULK, SINGLY = 150_000, 3_000
WORKERS = (1, 4)
MANY_AT_ONCE = 5_000
NOTES = f"""\
Servers do not wait for the disk (fsync is off), SQLite waits at checkpoints only: ours and the peers alike. All \
messages are created, then the database does its housekeeping (VACUUM, ANALYZE), then all are leased, then all are \
done; a rate is over at most {LIMIT_S:g} s. Bodies have 100 random bytes, which nothing compresses; in procrastinate \
and pgmq they are base64 in JSON.
“batchline” makes the ids, and a call's messages are due at one moment: its best case. “a moment each”: every message \
is a row of its own on the line. “chosen ids”: the producer's own, each checked against those that are there. The \
peers' ids are made by the database, and nothing checks that a message is created once; their lease has no token: who \
was too late finishes what another has. The table creates by COPY, or, as most programs would, by executemany.
Ours marks what is done, and prune removes it later: a whole life is all that happens to a message, prune included; \
for the peers it is create, lease and done. procrastinate leases and finishes one by one, however many a call is for. \
Threads of one process share Python's lock; processes do not, but share the machine's cores with the server.
Waiting messages were there before those that are due. That is the worst case of procrastinate and pgmq, which look in \
the order of creation and pass over all of them, and no matter to the others. Ours that wait were created singly, its \
worst case. The table counts all rows, ours by state. Room is measured up to {HEAVIEST:,}; small tables take more each.
What is pruned in the time is told from the rows that are left. Statements are prepared before the clock runs.
Late: messages {APART_MS} ms apart, the first received taken for the first that was due; one \
consumer: ours is a `Consumer`, which sleeps until the next is due, peers are asked every \
{POLL_MS} ms."""


def _figures(what: str, unit: str = "messages/s", decimals: int = 0) -> Figures:
    return Figures(f"Stage 4 {what}", unit, decimals)


@dataclass
class Report:
    """The tables."""

    bulk: Figures = field(default_factory=lambda: _figures(f"bulk: {AT_ONCE} messages a call"))
    larger: Figures = field(default_factory=lambda: _figures(f"larger bulk: {MANY_AT_ONCE:,} messages a call"))
    single: Figures = field(default_factory=lambda: _figures("singly: one message a call"))
    waiting: Figures = field(default_factory=lambda: _figures(f"waiting: {AT_ONCE} messages a call, 1 worker"))
    times: Figures = field(default_factory=lambda: _figures("counts: of one call", "ms", 1))
    space: Figures = field(default_factory=lambda: _figures("bytes: indexes included", "bytes/message"))
    late: Figures = field(default_factory=lambda: _figures("late: from due to delivered", "ms", 1))

    def show(self) -> None:
        """Print the tables, and keep them as JSON."""
        for figures in (self.bulk, self.larger, self.single, self.waiting, self.times, self.space, self.late):
            figures.show()
        console.print(NOTES, style="dim", highlight=False)


def measure_lives(database: str, life: Life, figures: Figures, *, processes: bool = False) -> None:
    """Measure the phases of each contender; only some have a form for processes."""
    live = live_in_processes if processes else live_in_threads
    kind = ("process" if processes else "thread") + ("" if life.workers == 1 else "es" if processes else "s")
    names = [TABLE, OURS] if processes else contenders(database)
    for name in names:
        if life.at_once == 1 and name in (MANY, MOMENTS):
            continue  # no other than the one before
        with fresh(database) as url:
            rates = live(name, url, life)
        for phase, measured in rates.items():
            figures.add(f"{database}, {life.workers} {kind}: {phase}", name, *measured)
        if "prune" not in rates:
            figures.leave_out(f"{database}, {life.workers} {kind}: prune", name, "needs none")
        figures.add_value(f"{database}, {life.workers} {kind}: whole life", name, whole_life(rates))
    for name in PEERS[database]:
        if not processes and (why := missing(name)):
            figures.leave_out(f"{database}, {life.workers} {kind}: whole life", name, why)


def measure_database(database: str, sizes: Sequence[int], report: Report) -> None:
    """All figures of one database."""
    most = max(sizes)
    bulk, single = min(IN_BULK, most), min(SINGLY, most)
    for workers in WORKERS:
        measure_lives(database, Life(bulk, AT_ONCE, workers), report.bulk)
        measure_lives(database, Life(single, 1, workers), report.single)
    measure_lives(database, Life(bulk, MANY_AT_ONCE, 1), report.larger)
    if database != "SQLite":  # where only one writes
        measure_lives(database, Life(bulk, AT_ONCE, max(WORKERS)), report.bulk, processes=True)
    measure_delivery(database, min(sizes), report.late)
    weigh_created(database, most, report.space)
    for size in sizes:
        Waiting(database, size, report.waiting, report.times, report.space).measure()


def run(sizes: Sequence[int] = SIZES) -> Report:
    """All figures of stage 4."""
    report = Report()
    begin()
    try:
        for database in DATABASES:
            measure_database(database, sizes, report)
    finally:
        end()
    return report


if __name__ == "__main__":
    run([int(word) for word in sys.argv[1:]] or SIZES).show()
