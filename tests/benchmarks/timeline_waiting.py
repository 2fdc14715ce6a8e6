"""What it costs that many messages wait: leases among them, counts of them, room for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.measure import Figures, once, within
from tests.benchmarks.timeline_life import BODIES, LIMIT_S
from tests.benchmarks.timeline_ours import CHOSEN, MOMENTS, OURS, WAYS, Ours, contender, contenders, counted
from tests.benchmarks.timeline_peers import MANY, PROCRASTINATE, TABLE, Queue, settle
from tests.benchmarks.tracker_disk import bytes_on_disk, fresh

__all__ = ["Waiting", "weigh_created"]

AT_ONCE = 500
#: Messages that are due among those that wait; one by one they could not be finished in the time.
DUE, DUE_ONE_BY_ONE = 20_000, 1_000
COUNT_CALLS = 9
#: To weigh more takes minutes, as some databases rewrite all of it for that.
HEAVIEST = 1_000_000
CREATED = 100_000


@dataclass(frozen=True)
class Waiting:
    """One database, and how many messages wait in it."""

    database: str
    size: int
    leases: Figures
    times: Figures
    space: Figures

    def measure(self) -> None:
        """Measure each contender; all of ours among the same that wait."""
        for name in contenders(self.database):
            if name not in (MANY, CHOSEN, MOMENTS):
                with fresh(self.database) as url, contender(name, url) as queue:
                    queue.preload(self.size)
                    self._weigh(name, url)
                    self._lease(name, url, queue)
                    self._count(name, queue)
                    if name == OURS:
                        self._lease_moments(url)

    def _lease_moments(self, url: str) -> None:
        with contender(MOMENTS, url) as queue:
            self._lease(MOMENTS, url, queue)

    def _lease(self, name: str, url: str, queue: Queue) -> None:
        """Lease and finish in turn."""
        one_by_one = name == PROCRASTINATE
        for _ in range((DUE_ONE_BY_ONE if one_by_one else DUE) // AT_ONCE):
            queue.create(BODIES[:AT_ONCE])
        settle(url)
        # One by one anyhow: a call for many could not be stopped when its time is up.
        measured = within(LIMIT_S, int, _in_turn(queue, 1 if one_by_one else AT_ONCE))
        self.leases.add(f"{self.database}: lease and done", f"{name}, {self.size:,} wait", *measured)

    def _count(self, name: str, queue: Queue) -> None:
        group = f"{self.database}, {self.size:,} wait"
        if name in (TABLE, OURS):
            counted(queue)
            self.times.add_value(group, f"{name}: count", _median_ms(lambda: counted(queue)))
        if name == OURS:
            assert isinstance(queue, Ours)
            load = queue.load
            self.times.add_value(group, f"{name}: load of a year, in 60 bins", _median_ms(load))

    def _weigh(self, name: str, url: str) -> None:
        if self.size <= HEAVIEST:
            shown = f"{name}, created singly" if name == OURS else name
            group = f"{self.database}, {self.size:,} wait"
            self.space.add_value(group, shown, bytes_on_disk(self.database, url) / self.size)


def _in_turn(queue: Queue, at_once: int) -> Iterator[int]:
    while tokens := queue.lease(at_once):
        yield queue.done(tokens)


def _median_ms(work: object) -> float:
    assert callable(work)
    times: list[float] = []
    while len(times) < COUNT_CALLS and sum(times) < LIMIT_S:
        times.append(once(work))
    return median(times) * 1000


def weigh_created(database: str, size: int, space: Figures) -> None:
    """Add the room for messages that calls of 500 have created."""
    count = max(1, min(size, CREATED) // AT_ONCE) * AT_ONCE
    for name in (TABLE, *WAYS):
        with fresh(database) as url, contender(name, url) as queue:
            for _ in range(count // AT_ONCE):
                queue.create(BODIES[:AT_ONCE])
            if isinstance(queue, Ours):
                while queue.prune():
                    pass
            group = f"{database}, {count:,} created by {AT_ONCE}"
            space.add_value(group, name, bytes_on_disk(database, url) / count)
