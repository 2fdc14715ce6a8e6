"""CPU time is counted wherever it is spent below a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.process_tree import cpu_seconds

#: Use half a second of CPU time: here, in a child that ends, or in one that goes on. Then print a line, and wait.
BURN = """
import os, subprocess, sys
where, program = sys.argv[1:]
below = [sys.executable, "-c", program, "here", program]
if where == "ended child":
    subprocess.run(below, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
elif where == "live child":
    child = subprocess.Popen(below, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
while where == "here" and sum(os.times()[:2]) < 0.5: pass
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("where", ["here", "ended child", "live child"])
def test_the_time_of_a_process_and_of_its_children_is_counted(where: str) -> None:
    command = [sys.executable, "-c", BURN, where, BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(child.pid) >= 0.45
        child.communicate()


def test_a_process_that_has_ended_has_used_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu_seconds(ended.pid) == 0
