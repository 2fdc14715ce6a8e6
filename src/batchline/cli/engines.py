"""What a command runs on: Spark, or this process alone."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from batchline.cli import screen
from batchline.errors import InvalidInput, MissingExtra, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("spark", "local")
#: Columns of files may differ in nothing but their case.
ALWAYS: dict[str, str | int | float | bool] = {"spark.sql.caseSensitive": True}
#: What fails is raised in Python, and said there in a sentence.
OURS: dict[str, str | int | float | bool] = {"spark.log.level": "OFF"}


def engine_of(asked: str | None, needs_spark: bool = False) -> str:
    """The engine that was asked for, or Spark where it is installed."""
    if asked is not None and asked not in ENGINES:
        raise InvalidInput(f"--engine must be spark or local, got {asked!r}{did_you_mean(asked, ENGINES)}")
    if find_spec("pyspark") is not None:
        return asked or "spark"
    if asked == "spark" or needs_spark:
        raise MissingExtra("this needs pyspark, which is not installed: pip install 'batchline[spark]'")
    if asked is None:
        screen.err.print("[dim]pyspark is not installed: batching in this process, as with --engine local[/]")
    return "local"


@contextmanager
def spark_session(master: str | None, conf: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """A Spark session for as long as a command runs; one that runs already is left running."""
    from batchline.spark import session
    from batchline.spark.running import translated

    with translated(), _logged_nowhere():
        with screen.err.status("starting Spark: about five seconds"):
            running = _is_running()
            spark = session(master=master, conf=(ALWAYS if running else ALWAYS | OURS) | dict(conf or {}))
        try:
            yield spark
        finally:
            if not running:
                _stop(spark)


def _stop(spark: "SparkSession") -> None:
    """Stop Spark. Where its Java has gone away there is nothing to stop, and what went wrong has been raised."""
    from py4j.protocol import Py4JNetworkError

    with suppress(OSError, Py4JNetworkError):
        spark.stop()


@contextmanager
def _logged_nowhere() -> Iterator[None]:
    """Keep py4j's log off standard error, where Python writes without a handler: it logs every Ctrl-C and every error.

    Batchline's own log stays: it says which background loop fails.
    """
    nowhere, py4j = logging.NullHandler(), logging.getLogger("py4j")
    py4j.addHandler(nowhere)
    try:
        yield
    finally:
        py4j.removeHandler(nowhere)


def _is_running() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None
