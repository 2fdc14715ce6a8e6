"""`make bench`: every benchmark in one run. `make bench ROWS=100000` for a quick look."""

import os

from tests.benchmarks import batcher

if __name__ == "__main__":
    rows = int(os.environ.get("ROWS", "1000000"))
    batcher.run(rows).show()
