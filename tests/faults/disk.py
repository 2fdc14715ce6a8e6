"""The disk of the landing directory: a small one of its own where one may have one, that can be filled."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Disk", "small_disk"]

BLOCK = b"x" * 4096
#: How long a file may get where the disk cannot be filled: what is to land does not fit in.
SHORT = 16


class Disk:
    """Full, or not."""

    def __init__(self, directory: Path, is_own: bool):
        self.directory, self._is_own = directory, is_own
        self._ballast = directory / "ballast"

    def fill(self, writer: int | None) -> None:
        """From now on `writer`, a process, finds no room."""
        if not self._is_own:
            self._limit(writer, SHORT)
            return
        with suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while file.write(BLOCK):
                pass

    def clear(self, writer: int | None) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
        if not self._is_own:
            self._limit(writer, resource.RLIM_INFINITY)

    def _limit(self, writer: int | None, size: int) -> None:
        if writer is not None:
            with suppress(ProcessLookupError):
                resource.prlimit(writer, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_disk(directory: Path) -> Iterator[Disk]:
    """A disk of 32 MB in memory, or only a directory if that is not allowed."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(directory)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield Disk(directory, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
