"""Names of processes, by which another process on the same machine sees whether one of them has ended; and its name."""

import os
import socket
from pathlib import Path
from typing import Final

__all__ = ["has_ended", "machine_name", "process_name"]

PROC: Final = Path("/proc")
#: States of a process that is gone, although its parent has not asked for its end yet.
OVER: Final = ("Z", "X", "x")


def process_name() -> str:
    """Name this process: its machine since it was started, its pid namespace, its pid, and when it was started.

    Empty where the system does not tell: such a process counts as alive until it is silent for long enough.
    """
    try:
        state, started = _state(os.getpid())
        return f"{_place()}/{os.getpid()}/{started}" if state else ""
    except (OSError, ValueError, IndexError):
        return ""


def has_ended(process: str) -> bool:
    """Tell whether the process of a name has certainly ended; False if that cannot be seen from here."""
    try:
        place, pid, started = process.rsplit("/", 2)
        if place != _place():
            return False
        return _is_over(int(pid), started)
    except (OSError, ValueError, IndexError, OverflowError):
        return False


def _is_over(pid: int, started: str) -> bool:
    try:
        state, since = _state(pid)
    except FileNotFoundError:
        return not _exists(pid)
    return since != started or state in OVER


def _exists(pid: int) -> bool:
    """Tell whether there is a process, also where /proc hides those of other users (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def machine_name() -> str:
    """Name this machine since it was started: the same in all of its processes and containers, which share its clock.

    The host's name where the system does not tell.
    """
    try:
        return _boot_id() or socket.gethostname()
    except OSError:
        return socket.gethostname()


def _boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def _place() -> str:
    return f"{_boot_id()}/{(PROC / 'self/ns/pid').readlink()}"


def _state(pid: int) -> tuple[str, str]:
    """The state of a process, and when it was started, in ticks since the machine was."""
    # The program's name is in brackets, and may contain any character.
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[0], fields[19]
