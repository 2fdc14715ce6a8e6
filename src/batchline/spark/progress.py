"""How far a Spark job has come, told to any watch while it runs.

    with watched(spark, watch, ["reading", "batching"]):
        batched.write.parquet(path)

A job runs in stages, one after each shuffle. The first stage that runs is the first step, and so on; those beyond the
last name belong to the last step. Spark decides on its stages as it goes, so a step's total may grow, never shrink.
"""

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession

    from batchline.core.watch import Watch

__all__ = ["watched"]

BETWEEN_LOOKS_S = 0.2
GROUP = "spark.jobGroup.id"


@contextmanager
def watched(spark: "SparkSession", watch: "Watch", steps: Sequence[str] = ("working",)) -> Iterator[None]:
    """Tell the watch how many tasks of the jobs started inside, by this thread, are done; at the end all of them.

    The watch is called from another thread. Micro-batches of a streaming query are not seen: they run in threads
    and groups of the query's own, which reports by itself.
    """
    context = spark.sparkContext
    over = threading.Event()
    with _job_group(context) as group:
        looks = _Looks(context.statusTracker(), group, watch, steps)
        follower = threading.Thread(target=looks.until, args=(over,), name="batchline-progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            over.set()
            follower.join()
    looks.finish()


@contextmanager
def _job_group(context: "SparkContext") -> Iterator[str]:
    """A group that holds the jobs started inside; the caller's own group comes back afterwards."""
    group = f"batchline-{uuid.uuid4().hex}"
    before = context.getLocalProperty(GROUP)
    context.setLocalProperty(GROUP, group)
    try:
        yield group
    finally:
        # A session stopped inside has taken its groups with it.
        with suppress(*_gone()):
            context.setLocalProperty(GROUP, before)  # type: ignore[arg-type] # None removes it


@dataclass(slots=True)
class _Stage:
    """The tasks of a stage that has begun; a failed stage starts over, but what was shown stays."""

    done: int = 0
    total: int = 0

    def take(self, done: int, total: int) -> None:
        self.done, self.total = max(self.done, done), max(self.total, total)


@dataclass(slots=True)
class _Looks:
    """What has been seen so far of the jobs of a group."""

    tracker: "StatusTracker"
    group: str
    watch: "Watch"
    steps: Sequence[str]
    #: By stage id, in the order in which they began.
    stages: dict[int, _Stage] = field(default_factory=dict)
    #: Jobs whose stages need not be asked for again.
    ended: set[int] = field(default_factory=set)
    told: dict[str, tuple[int, int]] = field(default_factory=dict)

    def until(self, over: threading.Event) -> None:
        """Look about five times a second, and once more at the end."""
        while not over.wait(BETWEEN_LOOKS_S):
            self.look()
        self.look()

    def look(self) -> None:
        """Ask Spark once, and tell what has changed."""
        with suppress(*_gone()):
            self._ask()
        for step, (done, total) in self._sums().items():
            self._tell(step, done, total)

    def _ask(self) -> None:
        for job in sorted(set(self.tracker.getJobIdsForGroup(self.group)) - self.ended):
            info = self.tracker.getJobInfo(job)
            if info is not None:
                for stage in sorted(info.stageIds):
                    self._look_at(stage)
                if info.status != "RUNNING":
                    self.ended.add(job)

    def _look_at(self, stage: int) -> None:
        info = self.tracker.getStageInfo(stage)
        # One that has not begun may never do so: its output may be there from an earlier job.
        if info is not None and (info.numActiveTasks or info.numCompletedTasks):
            self.stages.setdefault(stage, _Stage()).take(info.numCompletedTasks, info.numTasks)

    def _sums(self) -> dict[str, tuple[int, int]]:
        sums: dict[str, tuple[int, int]] = {}
        for place, stage in enumerate(self.stages.values()):
            step = self.steps[min(place, len(self.steps) - 1)]
            done, total = sums.get(step, (0, 0))
            sums[step] = (done + stage.done, total + stage.total)
        return sums

    def _tell(self, step: str, done: int, total: int) -> None:
        if self.told.get(step) != (done, total):
            self.told[step] = (done, total)
            self.watch(step, done, total)

    def finish(self) -> None:
        """All is done: say so of every step, also of those that were over before anybody looked."""
        for step in self.steps:
            total = max(self.told.get(step, (0, 1))[1], 1)
            self._tell(step, total, total)


def _gone() -> tuple[type[Exception], ...]:
    """What PySpark raises once its session is stopped: then there is nothing left to follow."""
    from py4j.protocol import Py4JError

    return (Py4JError, OSError, AttributeError)
