"""A disk that can be filled: a small one of its own where one may have one."""

import os
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["Disk", "small_disk"]

BLOCK = b"x" * 4096
CHUNK: Final = 1 << 20
#: How long a file may get where the disk cannot be filled: what is to be written does not fit in.
SHORT = 16


class Disk:
    """Full, or not."""

    def __init__(self, directory: Path, is_own: bool):
        self.directory, self.is_own = directory, is_own
        self._ballast = directory / "ballast"

    def fill(self, writers: Sequence[int]) -> None:
        """From now on these processes find no room."""
        if not self.is_own:
            self._limit(writers, SHORT)
            return
        with self._ballast.open("wb", buffering=0) as file:
            for block in (b"x" * CHUNK, BLOCK):
                with suppress(OSError):
                    while file.write(block) == len(block):
                        pass

    def clear(self, writers: Sequence[int]) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
        if not self.is_own:
            self._limit(writers, resource.RLIM_INFINITY)

    def _limit(self, writers: Sequence[int], size: int) -> None:
        for writer in writers:
            with suppress(ProcessLookupError):
                resource.prlimit(writer, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_disk(directory: Path, megabytes: int = 32) -> Iterator[Disk]:
    """A disk in memory, or only a directory if that is not allowed."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield Disk(directory, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
