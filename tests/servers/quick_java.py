"""How tests start Java: compiled quickly rather than well, and with its classes kept ready (`class_archive`)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.servers.server import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["QUICK", "SILENT", "SPARK_ARCHIVE", "quick_java", "quick_spark"]

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Java says what it leaves out of an archive; later, that one is of another Java's or of other jars, and goes on
#: without. Tests read what it prints.
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
SPARK_ARCHIVE = REPOSITORY / "build/spark.jsa"


def quick_java(archive: Path) -> list[str]:
    """Options for Java; with an archive that is not there it is only slower."""
    ready = [f"-XX:SharedArchiveFile={archive}", *SILENT] if archive.exists() else []
    return [*QUICK, *ready]


def quick_spark() -> str:
    """The same for Spark's Java, as its settings and its environment have options."""
    return shlex.join(quick_java(SPARK_ARCHIVE))
