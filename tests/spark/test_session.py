"""A session starts by one call, says nothing while all is well, and every setting is the caller's."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING

import pytest

from batchline.errors import MissingExtra
from batchline.spark.java import java_home
from batchline.spark.session import _environment, _java_options, _python_for, session
from tests.servers.quick_java import quick_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.conftest import RunPython

START = f"""
import json, os, sys
from batchline.spark.session import session
small = {{"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": {quick_spark()!r}}}
"""
QUIET = f"""{START}
from pyspark.sql.functions import udf
spark = session(master="local[2]", conf=small)
assert spark.range(10).select(udf(lambda n: n + 1, "long")("id")).count() == 10
spark.range(10).repartition(3).write.saveAsTable("numbers")
ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
ticks = ticks.mapInArrow(lambda batches: batches, ticks.schema).groupBy("value").count()
query = ticks.writeStream.format("noop").outputMode("complete").trigger(availableNow=True).start()
query.awaitTermination()
"""


@pytest.mark.parametrize("java", ["of the machine", "of the package"])
def test_a_job_in_good_order_says_nothing_and_leaves_nothing(java: str, run_python: RunPython, tmp_path: Path) -> None:
    own = tmp_path / "tmp"
    own.mkdir()
    home = java_home(os.environ if java == "of the machine" else {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "c")})
    ended = run_python(QUIET, JAVA_HOME=str(home), TMPDIR=str(own))
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
    # What Java still removes after Python has ended, in directories of its own, is not looked at.
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} <= {"tmp", "c"}
    assert not list(own.glob("batchline-*"))


FAILS = f"""{START}
from pyspark.sql.functions import udf
def fail(n): raise ValueError("my mistake")
session(master="local[1]", conf=small).range(1).select(udf(fail, "long")("id")).collect()
"""


def test_an_error_is_seen_in_the_log_and_raised(run_python: RunPython) -> None:
    ended = run_python(FAILS)
    assert ended.returncode == 1
    assert "ERROR Executor: Exception in task" in ended.stderr
    assert ended.stderr.count("ValueError: my mistake") >= 2


PRECEDENCE = f"""{START}
KEYS = ["spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.app.name", "spark.ui.enabled",
        "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.driver.memory", "spark.ui.showConsoleProgress"]
before = dict(os.environ)
first = session("first", "local[2]", {{"spark.sql.session.timeZone": "Asia/Tokyo", "spark.ui.enabled": False}})
settings = [{{key: first.conf.get(key, None) for key in KEYS}}]
heap = first.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
first.stop()
second = session(master="local[3]")
settings.append({{key: second.conf.get(key, None) for key in KEYS}})
changed = [name for name in os.environ if not name.startswith("SPARK_") and os.environ[name] != before.get(name)]
print(json.dumps([settings, heap, changed]))
"""
DEFAULTS = """
spark.sql.session.timeZone   Europe/Berlin
spark.sql.execution.arrow.maxRecordsPerBatch=1234
spark.driver.memory 700m
"""


def test_the_callers_setting_wins_over_spark_defaults_and_that_over_ours(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    ended = run_python(PRECEDENCE, SPARK_CONF_DIR=str(tmp_path))
    assert (ended.stderr, ended.returncode) == ("", 0)
    (first, second), heap, changed = json.loads(ended.stdout)
    assert first == {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.shuffle.partitions": "8",
        "spark.app.name": "first",
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1234",
        "spark.driver.memory": "700m",
        "spark.ui.showConsoleProgress": "false",
    }
    named = {"spark.app.name": "batchline", "spark.sql.session.timeZone": "Europe/Berlin"}
    assert second == first | named | {"spark.sql.shuffle.partitions": "12"}
    assert heap <= 700
    assert changed == [], "the environment is as it was"


def test_a_session_that_runs_is_used_as_it_is(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with caplog.at_level(logging.INFO):
        again = session("another", master="local[1]", conf={"spark.sql.shuffle.partitions": 5})
    try:
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "5"
        assert "its session is used as it is" in caplog.text
        assert "these settings stay as they are: spark.master" in caplog.text
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def test_a_session_that_runs_keeps_its_time_zone(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert session().conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_only_loopback_is_listened_to(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"pip install 'batchline\[spark\]'"):
        session()


def test_pyspark_is_loaded_only_when_a_session_is_asked_for(run_python: RunPython) -> None:
    ended = run_python("import sys, batchline.cli, batchline.spark.session; print('pyspark' in sys.modules)")
    assert (ended.stdout, ended.stderr) == ("False\n", "")


def test_a_log_profile_of_ones_own_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert any("log4j2" in option for option in _java_options())
    (tmp_path / "log4j2.properties").touch()
    assert not any("log4j2" in option for option in _java_options())


def test_workers_on_this_machine_run_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _python_for("local[2]", None)["PYSPARK_PYTHON"] == sys.executable
    assert _python_for("local[2]", "/my/python")["PYSPARK_PYTHON"] == "/my/python"
    assert _python_for("spark://far:7077", None) == {}
    assert _python_for("spark://far:7077", "/their/python") == {"PYSPARK_PYTHON": "/their/python"}


def test_the_environment_is_put_back_even_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHLINE_KEPT", "before")
    changes = {"BATCHLINE_KEPT": "changed", "BATCHLINE_NEW": "there"}
    with pytest.raises(KeyError, match="BATCHLINE_NONE"), _environment(changes):
        assert [os.environ[name] for name in (*changes, "BATCHLINE_NONE")] == ["changed", "there"]
    assert os.environ["BATCHLINE_KEPT"] == "before"
    assert "BATCHLINE_NEW" not in os.environ
