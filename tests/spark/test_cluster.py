"""A real cluster: a driver, a master and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from tests.servers.server import REPOSITORY
from tests.spark.stream_program import SKEW_US
from tests.spark.streams import RULES, arriving, by_library, cuts_of, land, stream
from tests.test_servers import watched

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import RunPython

#: Each of the two tasks waits until the other has begun too, so they cannot run one after the other in one worker.
ON_BOTH = """
import threading
from pathlib import Path
from pyspark.sql.functions import col, udf

meeting = Path(sys.argv[1])

def meet(number):
    (meeting / f"task-{number}").touch()
    pause = threading.Event()
    for _ in range(3000):
        if len(list(meeting.iterdir())) == 2:
            break
        pause.wait(0.02)
    return json.dumps([os.getpid(), os.getppid(), os.getcwd()])

rows = spark.range(0, 2, 1, 2).select(udf(meet, "string")(col("id")).alias("where")).collect()
print(json.dumps([json.loads(row["where"]) for row in rows]))
"""


def test_a_job_with_a_python_function_runs_on_both_workers(run_on_cluster: RunPython, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    ended = run_on_cluster(ON_BOTH, str(meeting))
    assert (ended.stderr, ended.returncode) == ("", 0)
    pids, daemons, directories = zip(*json.loads(ended.stdout), strict=True)
    assert len(set(pids)) == len(set(daemons)) == 2
    # HOME/worker-0/app-…/0
    assert {directory.split("/")[-3] for directory in directories} == {"worker-0", "worker-1"}


STAGES = """
from pathlib import Path
from batchline.spark import assign_batches
from tests.spark.stream_program import by_follow
from tests.spark.streams import RULES, end_of, stream

directory = Path(sys.argv[1])
df = spark.read.parquet(str(directory / "in"))
batched = assign_batches(df, RULES[1], size="size", order=["number"], until=end_of(stream(1, 1500, 40)))
batched.write.parquet(str(directory / "batched"))
by_follow(spark, directory, RULES[1])
"""


def test_a_batch_job_and_a_stream_on_the_cluster_say_what_the_library_says(
    run_on_cluster: RunPython, tmp_path: Path
) -> None:
    messages = stream(1, 1500, 40)
    land(arriving(messages, 7, SKEW_US), cuts_of(8, len(messages), 3), tmp_path / "in")
    (tmp_path / "signs").mkdir()
    # Executors, which are not we, write results and state.
    tmp_path.chmod(0o777)
    ended = run_on_cluster(STAGES, str(tmp_path), PYTHONPATH=str(REPOSITORY))
    assert (ended.stderr, ended.returncode) == ("", 0)
    expected = by_library(RULES[1], messages)
    for results in ("batched", "out"):
        files = [pa_parquet.read_table(file) for file in (tmp_path / results).rglob("*.parquet")]
        told = pa.concat_tables(files).sort_by("number")
        assert told.column("batch_id").to_pylist() == [row[2] for row in expected]
        assert told.column("verdict").to_pylist() == [row[1] for row in expected]


CONTROLLER = """
import sys
from tests.servers.ask import ask, begin, keeper_pid
begin()
ask("spark_cluster")
print(keeper_pid(), flush=True)
sys.stdin.read()
"""


def test_the_cluster_is_gone_when_the_run_is_killed(spark_cluster_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        keeper = int(controller.stdout.readline())
        with watched(keeper) as ended:
            os.kill(controller.pid, signal.SIGKILL)
            ended()
