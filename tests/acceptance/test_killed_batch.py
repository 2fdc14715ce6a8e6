"""`batchline batch`, killed at any moment: what is there is whole, and the next run goes on as if nothing had been."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batchline.columnar.order import in_receive_order
from batchline.sinks.files import write_table
from batchline.sources.sample import Fleet, sample_fleet

RESULTS = ("batched.parquet", "batches.parquet", "malformed.jsonl", "rejected.parquet", "summary.json")
PATIENCE_S = 120


def batch(fleet: Path, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "batchline", "batch", str(fleet), "--out", str(out), "--engine", "local"]
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


def on_spark(*words: object) -> "subprocess.Popen[str]":
    """The command on Spark, in a process group of its own: Java and the Python workers can be killed with it."""
    command = [sys.executable, "-m", "batchline", "batch", *map(str, words), "--master", "local[2]"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=small()
    )


def small() -> dict[str, str]:
    """An environment for a small Java."""
    return os.environ | {"SPARK_DRIVER_MEMORY": "1g"}


def wait_for(process: "subprocess.Popen[str]", out: Path, sign: str) -> None:
    """Wait until a file that looks so is there."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if any(out.glob(sign)):
            return
        assert process.poll() is None, process.communicate()
        pause.wait(0.01)
    raise AssertionError(f"no {sign} after {PATIENCE_S} s")


def kill(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def check_quiet_end(process: "subprocess.Popen[str]") -> str:
    """It ends well, and of Spark nothing is seen; what it printed."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert "spark" not in out.lower()
    return out


def rows_of(path: Path, without: tuple[str, ...] = ()) -> list[str]:
    return sorted(map(repr, pq.read_table(path, partitioning=None).drop_columns(list(without)).to_pylist()))


def test_on_spark_it_is_killed_while_it_reads_and_while_it_writes(fleet: Path, expected: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(expected, out)
    for sign in (".batchline-*/rows", ".batchline-*/results"):
        killed = on_spark(fleet, "--out", out)
        wait_for(killed, out, sign)
        kill(killed)
        check_whole(out)
    said = check_quiet_end(on_spark(fleet, "--out", out, "--json"))
    assert json.loads(said) == json.loads((expected / "summary.json").read_text())
    assert {path.name for path in out.iterdir()} == set(RESULTS)
    for name in RESULTS:
        if name.endswith(".parquet"):
            assert (out / name).is_dir()
            assert rows_of(out / name) == rows_of(expected / name)
        else:
            assert (out / name).read_bytes() == (expected / name).read_bytes()


def land(rows: pa.Table, landing: Path, number: int) -> None:
    """A third of the rows, renamed into place."""
    third = len(rows) // 3
    hidden = write_table(rows.slice(number * third, third), landing / f".{number}.jsonl")
    hidden.rename(landing / f"{number}.jsonl")


def test_a_directory_that_is_followed_goes_on_after_a_kill_and_after_a_signal(tmp_path: Path) -> None:
    rows = in_receive_order(sample_fleet(Fleet(devices=20, minutes=1)))
    landing, out = tmp_path / "landing", tmp_path / "out"
    words = (landing, "--out", out, "--follow", "--json")
    land(rows, landing, 0)
    killed = on_spark(*words)
    wait_for(killed, out, "batched/epoch=0")
    kill(killed)
    land(rows, landing, 1)
    stopped = on_spark(*words)
    wait_for(stopped, out, "batched/epoch=1")
    stopped.send_signal(signal.SIGTERM)
    summary = json.loads(check_quiet_end(stopped))
    assert summary["open"] > 0
    land(rows, landing, 2)
    summary = json.loads(check_quiet_end(on_spark(*words, "--once")))
    assert batch(landing, tmp_path / "expected").wait() == 0
    assert summary["open"] == 0
    # Time has run out at the end of a stream, where batch mode ends with a flush.
    ended = ("closed_at", "close_reason")
    for name, without in (("batched", ended), ("batches", ended), ("rejected", ())):
        assert rows_of(out / name, without) == rows_of(tmp_path / "expected" / f"{name}.parquet", without)
