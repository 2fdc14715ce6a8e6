"""What we set where nobody else has: for every master, and for Spark on this machine alone."""

import os
import re
import tempfile
import uuid
from pathlib import Path

__all__ = ["WAREHOUSE", "Setting", "cores_of", "driver_memory", "is_local", "settings_for", "text_of"]

Setting = str | int | float | bool

#: Of this process only: two programs at once must not share tables by accident.
WAREHOUSE = str(Path(tempfile.gettempdir()) / f"batchline-warehouse-{uuid.uuid4().hex}")
#: The rest is for Python workers, which sort a partition each, and for the files' cache.
SHARE_OF_MEMORY = 0.4
GIB = 1 << 30
TASKS_PER_CORE = 4

ALWAYS = {
    # Event times are moments: a table must not mean something else where the clock on the wall differs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows that go to Python at once. Spark's 10,000 took 1.76 to 1.88 µs of CPU a row, this 1.54 to 1.70 (identity
    # mapInArrow, 2 M rows, three runs each). Wide rows are held by Spark's own limit, 64 MiB at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.worker.reuse": "true",
    # A driver that is killed as it notes its first offsets leaves half a note, and Spark would never start it again.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # A web server per session, on a port anybody can reach: for whoever asks for it.
    "spark.ui.enabled": "false",
}


def settings_for(master: str) -> dict[str, str]:
    """Our settings for a master; each gives way to the caller's and to spark-defaults.conf."""
    return ALWAYS | (_local(master) if is_local(master) else {})


def _local(master: str) -> dict[str, str]:
    return {
        # Nobody else talks to a local session, so nobody else is listened to.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Spark's 200 is for clusters: here each would cost a start and hold a handful of rows.
        "spark.sql.shuffle.partitions": str(TASKS_PER_CORE * cores_of(master)),
        # Java does not look at TMPDIR.
        "spark.local.dir": tempfile.gettempdir(),
        # Spark's own would be in the working directory, and outlast the catalog, which is in memory.
        "spark.sql.warehouse.dir": WAREHOUSE,
    }


def is_local(master: str) -> bool:
    """Whether driver and executor are one process on this machine."""
    return master == "local" or master.startswith("local[")


def cores_of(master: str) -> int:
    """How many tasks a local master runs at once: `local[4]`, `local[*]`, `local[2,3]` with its retries."""
    said = re.match(r"local\[(\d+|\*)", master)
    if said is None:
        return 1
    return len(os.sched_getaffinity(0)) if said[1] == "*" else int(said[1])


def driver_memory() -> str:
    """The heap of a local session, a part of what there is."""
    return f"{int(max(SHARE_OF_MEMORY * _memory_bytes(), GIB)) >> 20}m"


def _memory_bytes() -> int:
    """The memory this process may use: the machine's, or a container's if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    given = limit.read_text().strip() if limit.exists() else "max"
    return machine if given == "max" else min(machine, int(given))


def text_of(value: Setting) -> str:
    """A setting as Spark spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
