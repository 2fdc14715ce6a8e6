"""Stage 5: is the rate the rate, how fast is a dispatcher, what does it weigh, how is a capacity shared.

`python -m tests.benchmarks.dispatcher` measures all of it, in about five minutes. A number makes every time and count
smaller, names choose parts: `python -m tests.benchmarks.dispatcher 0.1 rate leases`.
"""

import sys
from collections.abc import Callable, Sequence

from tests.benchmarks.dispatcher_leases import measure_leases
from tests.benchmarks.dispatcher_memory import measure_memory
from tests.benchmarks.dispatcher_rate import measure_rate
from tests.benchmarks.dispatcher_shares import measure_shares
from tests.benchmarks.dispatcher_throughput import measure_throughput
from tests.benchmarks.measure import Figures, Sheet, console
from tests.servers.ask import begin, end

__all__ = ["PARTS", "Report", "run"]

Tables = Sequence[Figures | Sheet]
PARTS: dict[str, Callable[[float], Tables]] = {
    "rate": lambda scale: [measure_rate(scale)],
    "throughput": lambda scale: [measure_throughput(scale)],
    "memory": lambda scale: [measure_memory(scale)],
    "leases": measure_leases,
    "shares": lambda scale: [measure_shares(scale)],
}
NOTES = """\
Rate: “mean” is from the first hand-out to the last, of which the first does not count; what is left of edges is at \
most one operation. “largest second” is wherever it begins. “bound” is 101 %, one operation, and one flush slice; \
“kept”: the mean is within 99–101 %, the largest second within the bound. “naive” gives each flush a slice of the \
capacity, a whole number, and goes on while it has sent less than that: so does the seed's program.
Throughput: the queues are drained by one consumer that does nothing; a dispatcher makes a task for each batch. What \
is left in the buffer at the end is flushed by hand. In “made in the loop” operations are made as they are enqueued. \
Threads wait for the loop with each call.
Leases: servers do not wait for the disk (fsync is off), SQLite waits at checkpoints only. A partition counts once it \
was acquired, renewed and released. Azure takes a call for each partition, and Azurite is not Azure.
Shares: (…×) is of an equal part for each that is there; the leases of one that was killed run out 15 s later.
Peers: celery's rate_limit is for each task and worker, in tasks; it knows no costs, and shares nothing."""


class Report:
    """The tables."""

    def __init__(self) -> None:
        self.tables: list[Figures | Sheet] = []

    def show(self) -> None:
        """Print the tables, and keep them as JSON."""
        for table in self.tables:
            table.show()
        console.print(NOTES, style="dim", highlight=False)


def run(scale: float = 1.0, parts: Sequence[str] = ()) -> Report:
    """All figures of stage 5, or some."""
    report = Report()
    begin()
    try:
        for part in parts or PARTS:
            report.tables += PARTS[part](scale)
    finally:
        end()
    return report


if __name__ == "__main__":
    words = sys.argv[1:]
    scales = [float(word) for word in words if word not in PARTS]
    run(min(scales, default=1.0), [word for word in words if word in PARTS]).show()
