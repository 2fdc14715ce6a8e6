"""A Spark session by one call: it finds its Java, says nothing but errors, and leaves every setting to the caller.

session() ──► runs one already? ──yes──► that one, as it is
                    │ no
                    ▼
            launch Java (quiet) ──► what is asked for > spark-submit, spark-defaults.conf > ours ──► session
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from batchline.errors import MissingExtra
from batchline.spark.java import java_home, java_version
from batchline.spark.settings import WAREHOUSE, Setting, driver_memory, is_local, settings_for, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

LOCAL = "local[*]"
LOG_PROFILE = Path(__file__).with_name("log4j2.properties")
#: Java warns of an incubator module on standard error, before any log can be told to be quiet. Spark adds this one for
#: the linear algebra of MLlib, which uses plain loops without it.
INCUBATING = "--add-modules=jdk.incubator.vector"
#: Java 24 dropped the package, and warns where it is opened; Spark opens it for the Java versions that have it.
DROPPED_IN = 24
DROPPED = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
#: What Spark's scripts take for Java: the real one, without the arguments it would warn of.
QUIET_JAVA = """#!/bin/sh
for argument do
    shift
    case $argument in {unwanted}) ;; *) set -- "$@" "$argument" ;; esac
done
exec '{java}' "$@"
"""
log = logging.getLogger(__name__)


def session(
    name: str = "batchline", master: str | None = None, conf: Mapping[str, Setting] | None = None
) -> "SparkSession":
    """The Spark session of this process, started if none runs.

    Settings in `conf` win over those of spark-submit and spark-defaults.conf, and these over ours. A session that
    runs already is returned as it is: only what `conf` asks for and a running session can change is changed, and
    the log names the rest. Tables saved without a path last as long as a local session does.
    """
    if find_spec("pyspark") is None:
        raise MissingExtra("batchline.spark needs pyspark: pip install 'batchline[spark]'")
    asked = {key: text_of(value) for key, value in (conf or {}).items()}
    if master is not None:
        asked["spark.master"] = master
    if running := _running():
        _adopt(running, asked)
        return running
    return _start({"spark.app.name": name} | asked)


def _running() -> "SparkSession | None":
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:  # noqa: SLF001 - PySpark has no public question for it
        return None
    # The active session is the thread's: one that has none yet is given the process's.
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _adopt(running: "SparkSession", asked: Mapping[str, str]) -> None:
    log.info("Spark runs already: its session is used as it is")
    refused = []
    for key, value in asked.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)
        elif running.conf.get(key, None) != value:
            refused.append(key)
    if refused:
        log.warning("Spark runs already, so these settings stay as they are: %s", ", ".join(sorted(refused)))


def _start(asked: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    _launch(asked)
    # Java knows by now what spark-submit and spark-defaults.conf say.
    known = SparkConf().setAll(list(asked.items()))
    master = known.get("spark.master") or LOCAL
    for key, value in settings_for(master).items():
        known.setIfMissing(key, value)
    if known.get("spark.sql.warehouse.dir") == WAREHOUSE:
        # The catalog is in memory: nobody finds its tables again.
        atexit.register(shutil.rmtree, WAREHOUSE, ignore_errors=True)
    with _environment(_python_for(master, known.get("spark.pyspark.python"))):
        return SparkSession.builder.config(conf=known).getOrCreate()


def _launch(asked: Mapping[str, str]) -> None:
    """Start Java, unless it runs: from an earlier session, or because spark-submit has started us."""
    from pyspark import SparkConf, SparkContext

    ours = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ  # noqa: SLF001 - as above
    # What Java is started with stays for a later session of this process: what is the session's own is set later.
    first = [(key, value) for key, value in asked.items() if not key.startswith(("spark.sql.", "spark.app."))]
    with _launching(asked) if ours else nullcontext():
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(first))  # noqa: SLF001 - as above


@contextmanager
def _launching(asked: Mapping[str, str]) -> Iterator[None]:
    """The environment in which Spark's scripts start Java; nothing of it stays."""
    master = asked.get("spark.master", LOCAL)
    with tempfile.TemporaryDirectory(prefix="batchline-java-") as home:
        options = [*_java_options(), os.environ.get("SPARK_SUBMIT_OPTS", "")]
        launch = {"JAVA_HOME": _quiet_java(Path(home)), "SPARK_SUBMIT_OPTS": " ".join(options)}
        # The weakest way to give it: a setting, an option of spark-submit or spark-defaults.conf goes before it.
        if is_local(master):
            launch["SPARK_DRIVER_MEMORY"] = os.environ.get("SPARK_DRIVER_MEMORY") or driver_memory()
        with _environment(launch | _python_for(master, asked.get("spark.pyspark.python"))):
            yield


def _python_for(master: str, named: str | None) -> dict[str, str]:
    """The Python of workers: on this machine the one that runs now, which has what the caller has imported."""
    if is_local(master):
        driver = os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable
        worker = named or os.environ.get("PYSPARK_PYTHON") or sys.executable
        return {"PYSPARK_DRIVER_PYTHON": driver, "PYSPARK_PYTHON": worker}
    # PySpark itself reads the variable only.
    return {"PYSPARK_PYTHON": named} if named else {}


def _quiet_java(home: Path) -> str:
    """A JAVA_HOME whose `java` is the real one, less the arguments it would warn of."""
    real = java_home(os.environ) / "bin" / "java"
    unwanted = [INCUBATING, *([DROPPED] if java_version(real) >= DROPPED_IN else [])]
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(QUIET_JAVA.format(java=real, unwanted=" | ".join(unwanted)))
    java.chmod(0o755)
    return str(home)


def _java_options() -> Iterator[str]:
    if not any(_conf_directory().glob("log4j2*.*")):
        yield f"-Dlog4j2.configurationFile={LOG_PROFILE.as_uri()}"
    # As a property of Java it is the weakest again; Spark's launcher would turn the bar on for everything but scripts.
    # Off, because it writes over whatever the program itself shows: `progress.watched` tells the same to any screen.
    yield "-Dspark.ui.showConsoleProgress=false"
    # Where Derby, the catalog of those who turn Hive on, writes its log, instead of the working directory.
    yield f"-Dderby.stream.error.file={os.devnull}"


def _conf_directory() -> Path:
    """Where Spark looks for spark-defaults.conf and log4j2.properties."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf")


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The process's environment with these changes, for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
