"""A program in a process of its own, and how much memory it took at most beyond its imports."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MIB", "Measured", "measured"]

MIB: Final = 1 << 20
PATIENCE_S: Final = 120
#: What is put before a program: `begin()` after its imports, `end(told)` when it is done.
BEFORE: Final = """
import json, sys
from pathlib import Path

def peak():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))

def begin():
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    global first
    first = peak()

def end(told=None):
    print(json.dumps({"grown": peak() - first, "told": told}))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program took, and what it told."""

    grown: int
    told: Any


def measured(program: str, arguments: Sequence[object] = ()) -> Measured:
    """Run a program that calls `begin()` and `end(told)`. Return by how many bytes its memory grew in between."""
    command = [sys.executable, "-c", BEFORE + program, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    return Measured(found["grown"], found["told"])
