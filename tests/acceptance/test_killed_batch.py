"""`batchline batch`, killed at any moment: what is there is whole, and the next run goes on as if nothing had been."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from batchline.sinks.files import write_table
from batchline.sources.sample import Fleet, sample_fleet

RESULTS = ("batched.parquet", "batches.parquet", "malformed.jsonl", "rejected.parquet", "summary.json")


def batch(fleet: Path, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "batchline", "batch", str(fleet), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check_whole(out: Path) -> None:
    """Every result that is there can be read, and where the summary is, all are."""
    there = {path.name for path in out.iterdir()} & set(RESULTS) if out.exists() else set()
    for name in there:
        if name.endswith(".parquet"):
            pq.read_table(out / name)
    if "summary.json" in there:
        assert there == set(RESULTS)
        json.loads((out / "summary.json").read_text())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("fleet")
    write_table(sample_fleet(Fleet(devices=100, minutes=5)), directory / "measurements.parquet")
    return directory


@pytest.fixture(scope="module")
def expected(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("expected")
    assert batch(fleet, out).wait() == 0
    return out


@pytest.mark.parametrize("after_seconds", [0.3, 0.8, 1.1, 1.4, 1.7])
def test_what_is_there_is_whole_and_the_next_run_completes_it(
    fleet: Path, expected: Path, tmp_path: Path, after_seconds: float
) -> None:
    killed = batch(fleet, tmp_path)
    with suppress(subprocess.TimeoutExpired):
        killed.wait(after_seconds)
    killed.kill()
    killed.wait()
    check_whole(tmp_path)
    assert batch(fleet, tmp_path).wait() == 0
    for name in RESULTS:
        assert (tmp_path / name).read_bytes() == (expected / name).read_bytes()
