"""PostgreSQL whose data is on a small disk of its own, so that it can run out of room."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.faults.disk import Disk, small_disk
from tests.servers.launch import common_directory, hold_port
from tests.servers.own import DurablePostgreSQL, OwnServer

__all__ = ["postgresql_on_a_disk"]

#: A new cluster takes 40 MB of it; what is left is for a run of minutes.
MEGABYTES: Final = 320


class SmallPostgreSQL(DurablePostgreSQL):
    """One that keeps its write-ahead log short, on a disk that is mounted before its cluster is made."""

    def __init__(self, stack: ExitStack):
        self._stack = stack
        self.disk: Disk | None = None

    def prepare(self, home: Path) -> Sequence[str]:
        """Mount the disk, for the user that owns its directory."""
        self.disk = self._stack.enter_context(small_disk(home / "data", MEGABYTES))
        shutil.chown(self.disk.directory, home.stat().st_uid, home.stat().st_gid)
        self.disk.directory.chmod(0o700)
        return super().prepare(home)

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, but with at most 96 MB of log before it is used again."""
        return [*super().command(home, port), "-c", "max_wal_size=96MB", "-c", "min_wal_size=64MB"]


@contextmanager
def postgresql_on_a_disk() -> Iterator[tuple[OwnServer, Disk]]:
    """A running server, and its disk; raises ProgramMissingError."""
    with ExitStack() as stack:
        held = stack.enter_context(hold_port())
        base = common_directory()
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=base, prefix="batchline-own-")))
        home.chmod(0o711)
        kind = SmallPostgreSQL(stack)
        server = OwnServer(kind, home / kind.name, held.getsockname()[1])
        stack.callback(server.end)
        server.start()
        assert kind.disk is not None
        yield server, kind.disk
