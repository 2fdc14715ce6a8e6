"""The processes that a run is made of, and a supervisor's view of them: up, ended by a fault, ended by themselves."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.launch import die_with_keeper
from tests.servers.quick_java import quick_spark
from tests.servers.server import REPOSITORY

__all__ = ["Part", "is_stopped", "java_below", "write_settings"]

STOP_S: Final = 40.0
SETTINGS: Final = {"spark.sql.shuffle.partitions": 2, "spark.default.parallelism": 2}


class Part:
    """A command that is started, killed and started again, and logs into one file."""

    def __init__(self, name: str, module: str, words: Sequence[object], logs: Path):
        self.name, self.module, self.words = name, module, [str(word) for word in words]
        self.log, self.out = logs / f"{name}.log", logs / f"{name}.out"
        self.process: subprocess.Popen[bytes] | None = None
        #: Whether it should be running: what is not, and should, has ended by itself.
        self.wanted = False

    def start(self, *instead: str, words: Sequence[str] = (), more: Sequence[str] = ()) -> None:
        """Start it; from the main thread, whose end the kernel makes its own.

        `instead` replaces its module, `words` its words; `more` come after them.
        """
        command = [sys.executable, "-m", *(instead or [self.module]), *(words or self.words), *more]
        with self.log.open("ab") as log, self.out.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=REPOSITORY,
                env=_environment(self.log.parent),
                start_new_session=True,
                preexec_fn=die_with_keeper(signal.SIGKILL),
            )
        self.wanted = True

    @property
    def pid(self) -> int | None:
        """Its process, if it runs."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    @property
    def has_ended(self) -> bool:
        """Whether it should be running, and is not."""
        return self.wanted and self.pid is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its first process alone."""
        if self.pid is not None:
            os.kill(self.pid, number)

    def kill(self, *, group: bool = True) -> None:
        """SIGKILL, for all of its processes or the first alone; returns when that is gone."""
        self.wanted = False
        if self.process is not None:
            with suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_S)

    def stop(self) -> int:
        """SIGTERM; its exit code, when it is gone. Killed if it does not go."""
        self.wanted = False
        if self.process is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def write_settings(path: Path) -> None:
    """Spark's settings of all drivers whose logs are beside this file."""
    path.write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))


def _environment(home: Path) -> Mapping[str, str]:
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    own = {"SPARK_DRIVER_MEMORY": "768m", "SPARK_CONF_DIR": str(home), "PYTHONPATH": path}
    return {"SPARK_SUBMIT_OPTS": quick_spark(), **os.environ, **own}


def java_below(pid: int) -> list[int]:
    """The processes of Java that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java"]


def is_stopped(pid: int | None) -> bool:
    """Whether a process is stopped by a signal."""
    with suppress(FileNotFoundError):
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False
