"""How a test reaches its servers: `ask("postgresql")` returns an address, and starts what is needed for that."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.keeper import PID, SOCKET, STOP
from tests.servers.kinds import KINDS
from tests.servers.launch import common_directory
from tests.servers.server import REPOSITORY, ProgramMissingError, ServerFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Names the run in the environment of all its processes: the controller's pid and the keeper's directory.
RUN = "BATCHLINE_TEST_SERVERS"
ANSWER_S = 300.0


def begin() -> str:
    """Make this process the controller of a new run and return the run's name; costs nothing until somebody asks."""
    home = common_directory() / f"batchline-{secrets.token_hex(8)}"
    os.environ[RUN] = f"{os.getpid()}:{home}"
    return os.environ[RUN]


def ask(name: str) -> str:
    """Return the URL of the server `name`; raises ProgramMissingError or ServerFailedError."""
    KINDS[name].files()
    controller, home = run()
    with one_at_a_time(home):
        if not (home / SOCKET).exists():
            start_keeper(home, controller)
    try:
        reply = json.loads(talk(home, name))
    except (OSError, ValueError) as error:
        raise ServerFailedError("the keeper of the test servers is gone") from error
    if "url" in reply:
        return str(reply["url"])
    kind = ProgramMissingError if reply["kind"] == ProgramMissingError.__name__ else ServerFailedError
    raise kind(reply["error"])


def end() -> None:
    """Stop the servers of the run, if any were started, and wait until they are gone."""
    _, home = run()
    if (home / SOCKET).exists():
        with contextlib.suppress(OSError):  # gone meanwhile
            talk(home, STOP)


def run() -> tuple[int, Path]:
    """Return the controller's pid and the keeper's directory; a process outside of any run begins its own."""
    controller, _, home = (os.environ.get(RUN) or begin()).partition(":")
    return int(controller), Path(home)


def keeper_pid() -> int:
    """Return the pid of the keeper, which somebody must have asked before."""
    return int((run()[1] / PID).read_text())


@contextlib.contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    """Let one thread of one process in; makes the directory."""
    home.mkdir(mode=0o711, exist_ok=True)
    home.chmod(0o711)  # despite any umask: the servers' user has to pass through
    with (home / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start_keeper(home: Path, controller: int) -> None:
    """Start the keeper; returns when it can be asked."""
    command = [sys.executable, "-m", "tests.servers.keeper", str(home), str(controller)]
    started = subprocess.run(
        command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )
    if started.stdout != "ready\n":
        raise ServerFailedError(f"the keeper of the test servers did not start:\n{started.stderr}")


def talk(home: Path, word: str) -> str:
    """Say one line to the keeper and return its answer; empty if it went away."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(str(home / SOCKET))
        connection.sendall(f"{word}\n".encode())
        with connection.makefile() as answer:
            return answer.readline()
