"""CPU time is counted wherever it is spent below a process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.process_tree import cpu_seconds

#: Uses so much CPU time itself, or in a process of its own; says so, and waits.
BURN = """
import os, subprocess, sys
def burn():
    while sum(os.times()[:2]) < 0.5: pass
if sys.argv[1] == "below":
    subprocess.run([sys.executable, "-c", sys.argv[2], "here", sys.argv[2]], stdin=subprocess.DEVNULL)
else:
    burn()
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("where", ["here", "below"])
def test_the_time_of_a_process_and_of_its_children_is_counted(where: str) -> None:
    before = cpu_seconds(os.getpid())
    command = [sys.executable, "-c", BURN, where, BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(child.pid) >= 0.45
        assert cpu_seconds(os.getpid()) - before >= 0.45
        child.communicate()


def test_a_process_that_has_ended_has_used_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu_seconds(ended.pid) == 0
