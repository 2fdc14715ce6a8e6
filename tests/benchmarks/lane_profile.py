"""Where the time of an epoch goes in a Python worker: the steps of a lane, without Spark around them.

`python -m tests.benchmarks.lane_profile`; ROWS is the number of rows, in sixteen epochs.
"""

import cProfile
import os
import pstats
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from batchline import BatchRules
from batchline.columnar.names import Names
from batchline.spark.lanes import LANE, LaneTask, Time
from tests.benchmarks.measure import console
from tests.benchmarks.spark_data import write_messages

#: What is counted as what: file and function, and the words for it. A step's own callees count with it.
STEPS = {
    ("lanes.py", "_in_lanes"): "rows and marks told apart",
    ("lane_state.py", "held"): "what is held of these keys, found",
    ("columns.py", "codes_of"): "strings of keys and types to numbers",
    ("stream.py", "sort"): "sorted within each key",
    ("kernel.py", "batch_rows"): "the rule",
    ("assign.py", "columns_of"): "the answers, as columns",
    ("stream.py", "kept"): "what stays open, gathered",
    ("lane_state.py", "write"): "what stays open, to files",
}
WARM = 3


def run(rows: int, keys: int = 10_000) -> None:
    """Epochs of a lane under a profiler, and a table of their steps."""
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="batchline-bench-") as home:
        data = Path(home) / "data"
        write_messages(data, rows, keys)
        counted = 0
        for epoch, file in enumerate(sorted(data.glob("*.parquet"))):
            batches = in_lane(pa_parquet.read_table(file))
            task = LaneTask(BatchRules(), Names(), f"{home}/state", Time(), epoch)
            if epoch >= WARM:
                counted += sum(batch.num_rows for batch in batches)
                profile.runcall(lambda: list(task(iter(batches))))  # noqa: B023 - called here and now
            else:
                list(task(iter(batches)))
    show(pstats.Stats(profile), counted)


def in_lane(rows: pa.Table) -> list[pa.RecordBatch]:
    lane = pa.array(np.zeros(rows.num_rows, np.int32))
    batches: list[pa.RecordBatch] = rows.append_column(LANE, lane).to_batches(max_chunksize=65_536)
    return batches


def show(stats: pstats.Stats, rows: int) -> None:
    """Nanoseconds a row of each step."""
    found = {(Path(file).name, function): took for (file, _, function), (_, _, _, took, _) in stats.stats.items()}  # type: ignore[attr-defined]
    total = stats.total_tt  # type: ignore[attr-defined]
    console.print(f"A lane in Python: {total / rows * 1e9:,.0f} ns a row")
    for step, words in STEPS.items():
        console.print(f"  {found.get(step, 0) / rows * 1e9:>6.0f} ns  {found.get(step, 0) / total:>4.0%}  {words}")
    rest = total - sum(found.get(step, 0) for step in STEPS)
    console.print(f"  {rest / rows * 1e9:>6.0f} ns  {rest / total:>4.0%}  rows taken out, joined and handed on")


if __name__ == "__main__":
    run(int(os.environ.get("ROWS", 4_000_000)))
