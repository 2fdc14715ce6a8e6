"""Kafka's classes as Java keeps them ready, so that a broker is there sooner: `python -m tests.servers.class_archive`.

Run by scripts/servers.sh, once; without the archive all is as with it, but slower. Java ignores one of another Java's.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.kinds import Kafka
from tests.servers.launch import common_directory, hold_port
from tests.servers.own import OwnServer
from tests.servers.topics import new_topic, put_records, records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ARCHIVE = "broker.jsa"


class ArchivingKafka(Kafka):
    """One that writes down, at its end, what classes it has used."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, and where to write."""
        java, *arguments = super().command(home, port)
        return [java, f"-XX:ArchiveClassesAtExit={home / ARCHIVE}", *arguments]


def make_archive(target: Path) -> None:
    """Have a broker do what brokers of tests do, and keep what it leaves."""
    target.unlink(missing_ok=True)
    with hold_port() as held, tempfile.TemporaryDirectory(dir=common_directory(), prefix="batchline-own-") as directory:
        Path(directory).chmod(0o711)
        server = OwnServer(ArchivingKafka(), Path(directory) / Kafka.name, held.getsockname()[1])
        try:
            server.start()
            topic = new_topic(server.url)
            put_records(server.url, topic, [(b"key", b"value")])
            records_of(server.url, topic)
        finally:
            server.end(kindly=True)
        shutil.copyfile(Path(directory) / Kafka.name / ARCHIVE, target)


if __name__ == "__main__":
    make_archive(Kafka.archive)
