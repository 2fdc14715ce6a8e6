"""Following a stream: what closes when, what is refused, and what an end is."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from batchline import BatchRules, Measurement
from batchline.errors import InvalidCheckpoint
from batchline.spark import assign_batches, follow
from tests.spark.streams import RULES, by_library, land, landing, shown, stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ONCE = {"availableNow": True}
#: Long before now, so that a tick of the real clock is later than all of it.
LONG_AGO_US = 1_000_000_000_000_000


def at(seconds: float, key: str, number: int, type: str = "x") -> Measurement:
    """A message that is received at once, so many seconds after the beginning."""
    us = LONG_AGO_US + int(seconds * 1_000_000)
    return Measurement.from_us(key, type, us, us, number, 1)


class Sink:
    """Keeps what it is given, epoch by epoch; the same again replaces it."""

    def __init__(self) -> None:
        self.epochs: dict[int, pa.Table] = {}

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        self.epochs[epoch] = rows.toArrow()

    def numbers(self) -> list[list[int]]:
        """The numbers of the rows of each epoch."""
        return [sorted(self.epochs[epoch].column("number").to_pylist()) for epoch in sorted(self.epochs)]

    def all_numbers(self) -> list[int]:
        return sorted(number for numbers in self.numbers() for number in numbers)


@pytest.fixture
def followed(spark: SparkSession, tmp_path: Path) -> Callable[..., Any]:
    """Follow pieces of a stream, each a file and an epoch, to where they end."""

    def run(pieces: list[list[Measurement]], sink: Any, rules: BatchRules | None = None, **options: Any) -> Any:
        messages, cuts = [], [0]
        for piece in pieces:
            messages += piece
            cuts.append(len(messages))
        if not (tmp_path / "in").exists():
            land(messages, cuts, tmp_path / "in")
        given: dict[str, Any] = {
            "checkpoint": str(tmp_path / "checkpoint"),
            "order": ["number"],
            "lanes": 2,
            "trigger": ONCE,
        }
        following = follow(landing(spark, tmp_path / "in"), rules or BatchRules(), sink, **given | options)
        following.wait()
        return following

    return run


def test_a_quiet_key_closes_when_others_move_on_even_in_other_lanes(followed: Callable[..., Any]) -> None:
    sink = Sink()
    others = [[at(2 + 2 * n, "B", 10 + n), at(3 + 2 * n, "B", 20 + n)] for n in range(3)]
    followed([[at(0, "A", 0), at(0.01, "A", 1, "y")], *others], sink)
    assert [0, 1] in [numbers[:2] for numbers in sink.numbers()[:3]]


def test_with_the_clock_on_the_wall_the_last_batches_close_without_further_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    land([at(0, "A", 0), at(0.01, "B", 1)], [0, 2], tmp_path / "in")
    sink, done = Sink(), threading.Event()

    def each(rows: DataFrame, epoch: int) -> None:
        sink(rows, epoch)
        if len(sink.all_numbers()) == 2:
            done.set()

    following = follow(
        landing(spark, tmp_path / "in"), BatchRules(), each, checkpoint=str(tmp_path / "checkpoint"), clock="wall"
    )
    assert done.wait(60)
    following.stop()
    assert sink.all_numbers() == [0, 1]


def test_what_comes_behind_the_watermark_is_taken_and_counted(followed: Callable[..., Any]) -> None:
    sink = Sink()
    following = followed([[at(0, "A", 0)], [at(5, "A", 1)], [at(2, "A", 2)], [at(9, "A", 3)]], sink)
    following.finish()
    assert following.summary() == {
        "read": 4, "batched": 3, "late": 1, "batches": 3, "behind_watermark": 1,
    }  # fmt: skip
    assert sink.all_numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize(("idle", "closed"), [(None, False), (timedelta(seconds=30), True)])
def test_the_slowest_partition_holds_the_watermark_back_until_it_has_fallen_silent(
    followed: Callable[..., Any], idle: timedelta | None, closed: bool
) -> None:
    """The type tells the partition: x comes up to second 60, y only at second 1."""
    sink = Sink()
    pieces = [[at(0, "A", 0), at(1, "B", 1, "y")], [at(30, "A", 2)], [at(60, "A", 3)]]
    followed(pieces, sink, partition="type", idle=idle)
    assert (1 in sink.all_numbers()) is closed


def test_an_epoch_that_nobody_reads_to_its_end_is_lost_to_nobody(followed: Callable[..., Any]) -> None:
    messages = stream(3, 600, 20)
    taken: list[pa.Table] = []

    def picky(rows: DataFrame, epoch: int) -> None:
        if epoch == 1:
            rows.limit(1).collect()
        if epoch == 2:
            return
        taken.append(rows.coalesce(1).toArrow())

    following = followed([messages[at : at + 150] for at in range(0, 600, 150)], picky, RULES[0])
    following.finish()
    # Epoch 2 handed its rows to somebody who did not look: all others are there, and right.
    told = shown(pa.concat_tables(taken))
    assert set(told) < set(by_library(RULES[0], messages))
    assert following.summary()["read"] == 600
    assert len(told) + 150 > 600 - 100


def test_an_end_is_an_end_and_can_be_told_twice(followed: Callable[..., Any]) -> None:
    pieces = [[at(0, "A", 0)], [at(1, "B", 1)]]
    first, again = Sink(), Sink()
    followed(pieces, first).finish()
    later = followed(pieces, again)
    assert later.query is None
    later.finish()
    assert again.epochs == {2: first.epochs[2]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": BatchRules(window=timedelta(seconds=2))}, "rules window_us 500000, not 2000000"),
        ({"lanes": 3}, "lanes 2, not 3"),
        ({"order": []}, 'names order ["number"], not []'),
    ],
)
def test_a_checkpoint_made_otherwise_is_refused_saying_how(
    followed: Callable[..., Any], options: dict[str, Any], words: str
) -> None:
    followed([[at(0, "A", 0)]], Sink())
    with pytest.raises(InvalidCheckpoint) as raised:
        followed([[at(0, "A", 0)]], Sink(), **options)
    assert words in str(raised.value)
    assert "start anew with another checkpoint" in str(raised.value)


def test_lanes_that_nobody_names_are_those_of_the_first_start(followed: Callable[..., Any]) -> None:
    followed([[at(0, "A", 0)]], Sink(), lanes=5)
    assert followed([[at(0, "A", 0)]], Sink(), lanes=None).lanes == 5


def test_columns_that_have_changed_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    land([at(0, "A", 0)], [0, 1], tmp_path / "in")
    rows = landing(spark, tmp_path / "in")
    assign_batches(rows, BatchRules(), state=str(tmp_path / "state"))
    changed = rows.withColumn("number", rows["number"].cast("string"))
    with pytest.raises(InvalidCheckpoint, match='columns number "bigint", not "string"'):
        assign_batches(changed, BatchRules(), state=str(tmp_path / "state"))
