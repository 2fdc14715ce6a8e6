"""What a server for tests is: its programs, how its directory is made, how it is started, greeted and addressed."""

from __future__ import annotations

import os
import shutil
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).parents[2]


class ProgramMissingError(Exception):
    """A server's program is not installed; the message says which, and how to install it."""


class ServerFailedError(Exception):
    """A server did not start; the message ends with what it logged."""


class Server(ABC):
    """One kind of server. `home` is the empty directory it may fill, `port` a free one of 127.0.0.1."""

    #: What tests ask for.
    name: ClassVar[str]
    #: The programs it needs, each with the Debian package that has it.
    programs: ClassVar[Mapping[str, str]]
    #: What a client says first, and what only a server that is ready answers.
    hello: ClassVar[bytes]
    welcome: ClassVar[re.Pattern[bytes]]
    #: Ends the server quickly; its data is not needed again.
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    #: What the kernel sends when the keeper is gone.
    orphan_signal: ClassVar[signal.Signals] = signal.SIGKILL
    #: Whether it gives up root's rights; not one that reads and writes the tests' own files.
    gives_up_rights: ClassVar[bool] = True
    #: What its processes find in the environment besides PATH, HOME, TMPDIR and LC_ALL.
    environment: ClassVar[Mapping[str, str]] = {}

    def prepare(self, home: Path) -> Sequence[str]:  # noqa: ARG002 - for those who have something to run
        """Return the command that fills `home` before the first start; empty if there is nothing to run."""
        return ()

    @abstractmethod
    def command(self, home: Path, port: int) -> Sequence[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def url(self, port: int) -> str:
        """Return the address that clients take."""

    def files(self) -> list[Path]:
        """Return every installed file it is started from; raises ProgramMissingError if one is not there."""
        found = {program: find_program(program) for program in self.programs}
        missing = sorted(program for program, path in found.items() if path is None)
        if missing:
            packages = " ".join(sorted({self.programs[program] for program in missing}))
            raise ProgramMissingError(
                f"{self.name} needs {', '.join(missing)}, not installed here: run scripts/servers.sh, "
                f"or apt-get install --no-install-recommends {packages}"
            )
        return [path for path in found.values() if path]


def find_program(program: str) -> Path | None:
    """Return where `program` is: on the PATH, or where Debian puts servers."""
    clusters = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", *map(str, clusters)]
    found = shutil.which(program, path=os.pathsep.join(places))
    return Path(found) if found else None


def program_path(program: str) -> str:
    """Return the path of a program that `Server.files` has found."""
    return str(find_program(program) or program)
