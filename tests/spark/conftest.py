"""One small Spark session for all tests that ask for it, in each worker of xdist that runs such a test.

A JVM takes seconds to start. `--dist worksteal` hands tests out in the order of their files, so those of Spark go
to one worker, and the other starts a JVM of its own only if it has nothing else left to do: then it is worth it.
(`--dist loadgroup` cannot keep them together: xdist 3.8 marks groups in a way that pytest 9.2 no longer reads.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from batchline.spark.session import session
from tests.servers.quick_java import quick_spark
from tests.servers.server import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

SMALL: dict[str, str | int] = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 3,
    # Functions of test modules are found by the Python workers.
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    # Kafka's connector, where it is installed.
    "spark.jars": ",".join(map(str, sorted((REPOSITORY / "build/kafka/connector").glob("*.jar")))),
}


#: A driver and executors as small as the cluster's workers are.
ON_CLUSTER: dict[str, str | int] = {
    "spark.pyspark.python": sys.executable,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.executor.extraJavaOptions": quick_spark(),
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    "spark.sql.shuffle.partitions": 4,
}
SESSION = """
import json, os, sys
from batchline.spark import session
spark = session(**json.loads(os.environ["SESSION"]))
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The shared session; a test that changes a setting sets it back."""
    running = session("tests", master="local[2]", conf=SMALL)
    gateway = running.sparkContext._gateway
    yield running
    running.stop()
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()
    java.wait(60)


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run a script in a process, a Spark and a working directory of its own."""

    def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-c", script, *arguments]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return subprocess.run(command, cwd=tmp_path, env=clean | environment, capture_output=True, text=True)

    return run


@pytest.fixture
def run_on_cluster(spark_cluster_url: str, run_python: RunPython) -> RunPython:
    """The same with `spark`, a session on the cluster."""
    asked = {"name": "cluster test", "master": spark_cluster_url, "conf": ON_CLUSTER}

    def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        quickly = {"SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
        return run_python(SESSION + script, *arguments, SESSION=json.dumps(asked), **quickly, **environment)

    return run
