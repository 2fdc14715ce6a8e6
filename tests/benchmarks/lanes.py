"""Stage 1 in a lane of a stream: what an epoch costs beside what the lane holds. Its cost must follow its rows.

`python -m tests.benchmarks.lanes` for this table alone.
"""

import tempfile
from collections.abc import Iterator
from datetime import timedelta
from itertools import count

import numpy as np
import pyarrow as pa

from batchline import BatchRules
from batchline.columnar import assign_batches
from batchline.columnar.names import Names
from batchline.spark.lanes import LANE, LaneTask, Time
from tests.benchmarks.measure import Figures, seconds

BASE_US = 1_800_000_000_000_000
MOMENT = pa.timestamp("us", "UTC")
#: Windows so long that nothing closes while we measure.
OPEN = BatchRules(window=timedelta(days=100))
NAMES = Names()


def rows_of(keys: np.ndarray, moment: int) -> pa.Table:
    """A row for each of these keys, a microsecond apart, and of another type every time."""
    at = pa.array(BASE_US + moment * 1_000_000 + np.arange(keys.size)).view(MOMENT)
    names = pa.array([f"device-{key:07}" for key in keys.tolist()])
    types = pa.array([f"type-{moment}"]).take(pa.array(np.zeros(keys.size, np.int64)))
    return pa.table({"key": names, "type": types, "event_time": at, "receive_time": at})


def in_lane(rows: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = rows.append_column(LANE, pa.array(np.zeros(rows.num_rows, np.int32))).to_batches()
    return batches


def epochs(state: str) -> Iterator[LaneTask]:
    """The task of each epoch."""
    return (LaneTask(OPEN, NAMES, state, Time(), epoch) for epoch in count())


def epoch_of(task: LaneTask, rows: pa.Table) -> None:
    for _ in task(iter(in_lane(rows))):
        pass


def run(rows: int) -> Figures:
    """An epoch of so many rows, of as many keys, beside ten and a hundred times as many keys that have open batches."""
    figures = Figures("Stage 1 in a lane: an epoch beside what the lane holds")
    group = f"{rows:,} rows of as many keys"
    draw = np.random.default_rng(1)
    table = rows_of(np.arange(rows), 0)
    figures.add(group, "assign_batches, no state", rows, seconds(lambda: assign_batches(table, OPEN)))
    for held in (rows, 10 * rows, 100 * rows):
        with tempfile.TemporaryDirectory(prefix="batchline-bench-") as state:
            tasks = epochs(state)
            for moment in range(2):
                epoch_of(next(tasks), rows_of(np.arange(held), moment))
            pieces = iter([rows_of(draw.choice(held, rows, replace=False), 2 + moment) for moment in range(6)])
            took = seconds(lambda: epoch_of(next(tasks), next(pieces)))  # noqa: B023 - called here and now
            figures.add(group, f"an epoch, {held:,} keys open", rows, took)
    return figures


if __name__ == "__main__":
    run(10_000).show()
