"""The CPU time of a process and of all that it has started: Python, its JVM, and the JVM's Python workers."""

import os
from pathlib import Path

__all__ = ["cpu_seconds"]

#: Of what follows the command's name in /proc/PID/stat: the parent, and the ticks of the process and of those of its
#: children that have ended (in user and system mode each).
PARENT, TICKS = 1, slice(11, 15)


def cpu_seconds(root: int) -> float:
    """The CPU seconds that the process `root` and everything below it have used so far."""
    stats = {int(file.parent.name): stat for file in Path("/proc").glob("[0-9]*/stat") if (stat := _stat(file))}
    below = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[PARENT]) in below} - below:
        below |= more
    ticks = sum(int(number) for pid in below if pid in stats for number in stats[pid][TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(file: Path) -> list[str]:
    """What /proc says after the command's name, which may have spaces in it; nothing once the process has ended."""
    try:
        return file.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
