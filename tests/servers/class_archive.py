"""Classes as Java keeps them ready, so that it starts sooner: `python -m tests.servers.class_archive kafka` or `spark`.

Run by scripts/servers.sh, once; without an archive all is as with it, but slower.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.kinds import Kafka
from tests.servers.launch import common_directory, hold_port
from tests.servers.own import OwnServer
from tests.servers.quick_java import QUICK, SILENT, SPARK_ARCHIVE
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


def archive_kafka() -> None:
    """Have a broker do what brokers of tests do, and keep what it leaves."""
    Kafka.archive.unlink(missing_ok=True)
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
        shutil.copyfile(Path(directory) / Kafka.name / ARCHIVE, Kafka.archive)


def archive_spark() -> None:
    """Have Spark make batches, and keep what its Java leaves, which writes it down after Python has ended."""
    with tempfile.TemporaryDirectory(dir=SPARK_ARCHIVE.parent, prefix="archive-") as directory:
        written, fleet, out = (Path(directory) / name for name in ("spark.jsa", "fleet", "out"))
        options = shlex.join([*QUICK, *SILENT, f"-XX:ArchiveClassesAtExit={written}"])
        run("sample", "--devices", "5", "--minutes", "0.5", "--out", fleet)
        run("batch", fleet, "--out", out, "--master", "local[2]", SPARK_SUBMIT_OPTS=options)
        written.replace(SPARK_ARCHIVE)


def run(*words: object, **environment: str) -> None:
    """Run a command of ours; returns when nobody holds what it prints any more, not even Java."""
    command = [sys.executable, "-m", "batchline", *map(str, words)]
    ended = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    sys.stdout.buffer.write(ended.stdout)
    ended.check_returncode()


if __name__ == "__main__":
    {"kafka": archive_kafka, "spark": archive_spark}[sys.argv[1]]()
