"""A running job is followed: what is told only grows, and ends with everything done."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from batchline.spark.progress import GROUP, _Looks, watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

Told = list[tuple[str, int, int]]


def teller(told: Told) -> Any:
    return lambda *said: told.append(said)


def numbers_of(told: Told, step: str) -> list[tuple[int, int]]:
    return [(done, total) for name, done, total in told if name == step]


def test_a_job_is_followed_step_by_step_until_all_is_done(spark: SparkSession) -> None:
    told: Told = []
    with watched(spark, teller(told), ["reading", "batching"]):
        assert spark.range(0, 10_000, 1, 4).repartition(3, "id").count() == 10_000
    for step in ("reading", "batching"):
        numbers = numbers_of(told, step)
        assert all(done <= total for done, total in numbers)
        assert numbers == sorted(numbers), "neither what is done nor the total shrinks"
        assert len({total for _, total in numbers[-1:]} | {numbers[-1][0]}) == 1, "it ends with everything done"


def test_what_is_told_comes_while_the_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The second task waits for a sign that the watch gives when it was told of the first."""
    sign = tmp_path / "told-of-the-first"
    told: Told = []

    def watch(step: str, done: int, total: int) -> None:
        told.append((step, done, total))
        if done == 1:
            sign.touch()

    def wait_in_the_second(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            waiting = threading.Event()
            while batch.column(0)[0].as_py() == 1 and not sign.exists():
                waiting.wait(0.02)
            yield batch

    with watched(spark, watch):
        spark.range(0, 2, 1, 2).mapInArrow(wait_in_the_second, "id long").collect()
    assert ("working", 1, 2) in told
    assert told[-1] == ("working", 2, 2)


def test_a_block_without_a_job_is_done_at_once(spark: SparkSession) -> None:
    told: Told = []
    with watched(spark, teller(told), ["reading", "writing"]):
        pass
    assert told == [("reading", 1, 1), ("writing", 1, 1)]


def test_a_job_that_fails_raises_and_is_not_called_done(spark: SparkSession) -> None:
    told: Told = []
    with pytest.raises(ValueError, match="mine"), watched(spark, teller(told)):
        raise ValueError("mine")
    assert told == []


def test_the_callers_job_group_comes_back(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "what I do")
    try:
        with watched(spark, teller([])):
            assert str(context.getLocalProperty(GROUP)).startswith("batchline-")
            spark.range(3).collect()
        assert context.getLocalProperty(GROUP) == "mine"
        assert context.getLocalProperty("spark.job.description") == "what I do"
    finally:
        context.setLocalProperty(GROUP, None)  # type: ignore[arg-type] # None removes it
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def test_jobs_of_others_are_not_counted(spark: SparkSession) -> None:
    told: Told = []
    with watched(spark, teller(told)):
        other = threading.Thread(target=lambda: spark.range(0, 100, 1, 50).collect())
        other.start()
        other.join()
        spark.range(0, 10, 1, 2).collect()
    assert told[-1][2] <= 2


class Tracker:
    """What Spark says of its jobs, put by hand."""

    def __init__(self) -> None:
        self.jobs: dict[int, Any] = {}
        self.stages: dict[int, Any] = {}

    def say(self, job: int, status: str, **stages: tuple[int, int, int]) -> None:
        from pyspark.core.status import SparkJobInfo, SparkStageInfo

        numbers = {int(name.removeprefix("s")): said for name, said in stages.items()}
        self.jobs[job] = SparkJobInfo(job, list(numbers), status)
        for stage, (tasks, active, completed) in numbers.items():
            self.stages[stage] = SparkStageInfo(stage, 0, "", tasks, active, completed, 0)

    def getJobIdsForGroup(self, _group: str) -> list[int]:  # noqa: N802 - Spark's name
        return list(self.jobs)

    def getJobInfo(self, job: int) -> Any:  # noqa: N802 - Spark's name
        return self.jobs[job]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802 - Spark's name
        return self.stages.get(stage)


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


def test_a_stage_that_starts_over_does_not_take_back_what_was_told(tracker: Tracker) -> None:
    told: Told = []
    looks = _Looks(tracker, "group", teller(told), ["working"])  # type: ignore[arg-type]
    tracker.say(0, "RUNNING", s0=(4, 1, 3))
    looks.look()
    tracker.say(0, "RUNNING", s0=(2, 1, 1))
    looks.look()
    assert told == [("working", 3, 4)]


def test_a_stage_that_is_skipped_is_not_counted(tracker: Tracker) -> None:
    told: Told = []
    looks = _Looks(tracker, "group", teller(told), ["reading", "batching"])  # type: ignore[arg-type]
    tracker.say(0, "SUCCEEDED", s0=(4, 0, 4))
    tracker.say(1, "RUNNING", s1=(4, 0, 0), s2=(3, 2, 1))
    looks.look()
    assert told == [("reading", 4, 4), ("batching", 1, 3)]


def test_stages_beyond_the_last_name_belong_to_the_last_step(tracker: Tracker) -> None:
    told: Told = []
    looks = _Looks(tracker, "group", teller(told), ["reading", "batching"])  # type: ignore[arg-type]
    tracker.say(0, "RUNNING", s0=(4, 0, 4), s1=(3, 0, 3), s2=(5, 2, 1))
    looks.look()
    assert told == [("reading", 4, 4), ("batching", 4, 8)]
