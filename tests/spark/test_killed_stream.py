"""A stream whose driver is killed, again and again, between and inside micro-batches, loses and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.servers.server import REPOSITORY
from tests.spark.stream_program import SKEW_US, by_frame
from tests.spark.streams import RULES, arriving, by_library, cuts_of, land, shown, stream
from tests.spark.test_one_answer import told_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FULL = os.environ.get("BATCHLINE_TEST_PROFILE") == "full"
#: How often it is killed; the stream has pieces enough for each life to get somewhere.
KILLS = 12 if FULL else 3
PIECES = 3 * KILLS
PATIENCE_S = 120


class Driver:
    """The program, in a process group of its own: Spark's Java and the Python workers die with it."""

    def __init__(self, directory: Path, form: str, rules: int) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "tests.spark.stream_program", str(directory), form, str(rules)]
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True)

    def signs(self) -> set[str]:
        return {path.name for path in (self.directory / "signs").iterdir()} | self._committed()

    def _committed(self) -> set[str]:
        """The epochs that Spark has begun and ended, as it notes them itself."""
        found = (self.directory / "checkpoint").glob("*/*") if (self.directory / "checkpoint").is_dir() else []
        return {f"{path.parent.name}-{path.name}" for path in found if path.name.isdigit()}

    def wait_for_a_new_sign(self, known: set[str]) -> bool:
        """Whether the program has got on; False if it has ended before."""
        pause = threading.Event()
        for _ in range(PATIENCE_S * 100):
            if self.signs() - known:
                return True
            if self.process.poll() is not None:
                return False
            pause.wait(0.01)
        raise AssertionError(f"nothing happened for {PATIENCE_S} s: {(self.directory / 'log').read_text()}")

    def kill(self, java_later_s: float) -> None:
        """Kill the driver, and Java with it or a moment later, in which it goes on by itself."""
        self.process.kill()
        self.process.wait()
        threading.Event().wait(java_later_s)
        os.killpg(self.process.pid, signal.SIGKILL)


@pytest.mark.parametrize(("form", "rules"), [("follow", 1), ("frame", 0)])
def test_a_killed_driver_goes_on_where_it_was(spark: SparkSession, tmp_path: Path, form: str, rules: int) -> None:
    draw = random.Random(f"{form}{KILLS}")
    messages = stream(rules, 200 * PIECES, 40)
    land(arriving(messages, 7, SKEW_US), cuts_of(8, len(messages), PIECES), tmp_path / "in")
    (tmp_path / "signs").mkdir()
    for _ in range(KILLS):
        driver = Driver(tmp_path, form, rules)
        known = driver.signs()
        for _ in range(draw.randrange(1, 5)):
            if driver.wait_for_a_new_sign(known):
                known = driver.signs()
        threading.Event().wait(draw.uniform(0, 0.5))
        driver.kill(java_later_s=draw.choice((0, 0.4)))
    last = Driver(tmp_path, form, rules)
    assert last.process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    # By each life's own word: the later ones began where the earlier ones had been killed.
    assert "ended" in last.signs()
    epochs = "*" if form == "follow" else ""
    told = shown(spark.read.parquet(str(tmp_path / "out" / epochs)).toArrow())
    expected = by_library(RULES[rules], messages)
    if form == "follow":
        assert told == expected
    else:
        assert len(told) == len(set(told))
        assert set(told) <= set(expected)
        missing = set(expected) - set(told)
        assert all(row[-1] is None or row[3] > told_until(messages) for row in missing)


def test_a_driver_killed_as_it_noted_its_first_offsets_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    messages = stream(0, 200, 40)
    land(arriving(messages, 7, SKEW_US), cuts_of(8, len(messages), 2), tmp_path / "in")
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / ".0.half-written.tmp").touch()
    by_frame(spark, tmp_path, RULES[0])
    assert spark.read.parquet(str(tmp_path / "out")).count() > 0
