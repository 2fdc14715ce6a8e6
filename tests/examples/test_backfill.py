"""The backfill, small, as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.servers.server import REPOSITORY

MEASUREMENTS, WORKERS = 20_000, 2


def test_everything_arrives_by_several_workers(tmp_path: Path) -> None:
    words = ["--measurements", MEASUREMENTS, "--workers", WORKERS, "--out", tmp_path, "--master", "local[2]"]
    command = [sys.executable, "-m", "examples.backfill", *map(str, words)]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    summary, workers = report["summary"], report["workers"]
    assert (summary["read"], summary["complete"], summary["failed"]) == (MEASUREMENTS, True, 0)
    assert sum(one["measurements"]["delivered"] for one in workers) == summary["published"] == summary["batched"]
    assert len(workers) == WORKERS
    assert f"{MEASUREMENTS:,} read" in said.stdout
