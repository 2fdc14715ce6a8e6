"""The backfill on a PostgreSQL of its own: `python -m tests.benchmarks.backfill 100000000`."""

import subprocess
import sys
import tempfile

from tests.benchmarks.tracker_disk import bytes_on_disk, fresh
from tests.servers.ask import begin, end
from tests.servers.server import REPOSITORY

__all__ = ["run"]

DATABASE = "PostgreSQL"


def run(measurements: int = 1_000_000) -> None:
    """Run the example as a user does, and tell how large the database is at its end."""
    begin()
    try:
        with fresh(DATABASE) as url, tempfile.TemporaryDirectory(prefix="batchline-backfill-") as out:
            words = ["--measurements", str(measurements), "--store", url, "--out", out]
            subprocess.run([sys.executable, "-m", "examples.backfill", *words], cwd=REPOSITORY, check=True)
            print(f"{bytes_on_disk(DATABASE, url) / 1e6:,.0f} MB in the database at the end, after a vacuum")
    finally:
        end()


if __name__ == "__main__":
    run(*map(int, sys.argv[1:2]))
