"""`batchline ingest http`, as people and machines start it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from batchline import open_store
from tests.runtime.reports import reports_in

PATIENCE_S = 60.0


def start(into: Path) -> "tuple[subprocess.Popen[str], str]":
    """The command, listening; and where."""
    command = [sys.executable, "-m", "batchline", "ingest", "http", "--listen", "127.0.0.1:0", "--into", str(into)]
    command += ["--store", f"sqlite:///{into.parent}/store.db", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.search(r"http://\S+", process.stderr.readline())
    assert found is not None
    return process, found[0]


def post(url: str, count: int) -> None:
    rows = [{"key": "pump", "type": f"t{one}", "event_time": 1763208000.5, "value": one} for one in range(count)]
    answer = httpx2.post(url, json=rows)
    assert answer.json() == {"accepted": count, "rejected": []}


def test_what_was_answered_outlives_a_kill_and_a_clean_stop_tells_what_has_landed(tmp_path: Path) -> None:
    killed, url = start(tmp_path / "landing")
    post(url, 3)
    killed.kill()
    killed.communicate()
    process, url = start(tmp_path / "landing")
    assert httpx2.post(url, json=[], headers={f"h{one}": "x" for one in range(101)}).status_code == 431
    post(url, 4)
    process.send_signal(signal.SIGTERM)
    said, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    assert json.loads(said) == {"landed": 4, "malformed": 0, "files": 1, "into": str(tmp_path / "landing")}
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        reports = [body for _, body in reports_in(store, "ingest")]
    assert [one["ended"] for one in reports].count(True) == 1
    assert (reports[-1]["source"], reports[-1]["received"], reports[-1]["landed"]) == ("http", 4, 4)
    files = sorted((tmp_path / "landing").glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    sequences = [json.loads(line)["sequence"] for line in lines]
    assert len(lines) == 7
    assert sequences == sorted(set(sequences))
