"""Stage 1: workloads A and B of the spec, the max delay stretched up to a thousand times, and up to 100,000 keys.

Baselines in the same run: `add` beside a dict that only groups; `assign_batches` beside the tumbling windows a user
would write with pyarrow, which know neither delay nor conflict nor duplicate.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline import BatchRules, EventTimeBatcher, Measurement
from batchline.columnar import assign_batches, columns, kernel, layout
from batchline.columnar.assign import keys_of, numbers_of
from batchline.core.moment import BEFORE_ALL_US
from tests.benchmarks.measure import Figures, seconds

MOMENT = pa.timestamp("us", "UTC")
BASE_US = 1_800_000_000_000_000
TYPES = 20
Ints = NDArray[np.int64]
DELAYS = (1, 10, 100, 1000)
KEYS = (1, 1_000, 100_000)


def rules(stretch: int = 1) -> BatchRules:
    """Window 500 ms, max delay 400 ms times `stretch`, leap limit 0."""
    return BatchRules(max_delay=timedelta(milliseconds=400 * stretch), leap_limit=timedelta(0))


def workload_a(rows: int, keys: int = 1) -> pa.Table:
    """In order: every key sends 20 types a second, type j at +5·j ms, received 5 ms later."""
    number = np.arange(rows) // keys
    event = BASE_US + number // TYPES * 1_000_000 + number % TYPES * 5_000
    return _table(np.arange(rows) % keys, number % TYPES, event, event + 5_000)


def workload_b(rows: int, keys: int = 1, stretch: int = 1, seed: int = 1) -> pa.Table:
    """Out of order: as A, with a delay up to the limit, 1 % duplicates, 5 % conflicts 1 to 300 ms later."""
    draw = np.random.default_rng(seed)
    plain = int(rows / 1.06)
    number = np.arange(plain) // keys
    key, kind = np.arange(plain) % keys, number % TYPES
    event = BASE_US + number // TYPES * 1_000_000 + number % TYPES * 5_000
    again = draw.integers(0, plain, rows - plain)
    later = np.where(np.arange(again.size) % 6 == 0, 0, draw.integers(1_000, 300_000, again.size))
    key, kind = np.append(key, key[again]), np.append(kind, kind[again])
    event = np.append(event, event[again] + later)
    receive = event + draw.integers(0, 400_000 * stretch, rows)
    order = np.argsort(receive, kind="stable")
    return _table(key[order], kind[order], event[order], receive[order])


def _table(
    key: NDArray[np.int64], kind: NDArray[np.int64], event: NDArray[np.int64], receive: NDArray[np.int64]
) -> pa.Table:
    keys = pa.array([f"device-{n:06}" for n in range(int(key.max()) + 1)])
    types = pa.array([f"type-{n:02}" for n in range(TYPES)])
    columns = {"key": keys.take(pa.array(key)), "type": types.take(pa.array(kind))}
    columns |= {"event_time": pa.array(event).cast(MOMENT), "receive_time": pa.array(receive).cast(MOMENT)}
    return pa.table(columns)


def measurements_of(table: pa.Table) -> list[Measurement]:
    """The rows as the library takes them."""
    times = (table.column(name).cast(pa.int64()).to_pylist() for name in ("event_time", "receive_time"))
    names = (table.column(name).to_pylist() for name in ("key", "type"))
    return [Measurement.from_us(*row) for row in zip(*names, *times, strict=True)]


def add_all(messages: list[Measurement], by: BatchRules) -> None:
    """Every message through `add`."""
    batcher = EventTimeBatcher(by)
    add = batcher.add
    for message in messages:
        add(message)
    batcher.closed()


def group_all(messages: list[Measurement]) -> None:
    """The least a batcher could do in plain Python: a dict by key and half second."""
    groups: dict[tuple[str, int], dict[str, Measurement]] = {}
    for message in messages:
        groups.setdefault((message.key, message.event_us // 500_000), {})[message.type] = message


def tumble(table: pa.Table) -> None:
    """What a user would write instead: fixed windows by pyarrow's own functions."""
    window = pc.floor_temporal(table.column("event_time"), multiple=500, unit="millisecond")
    table.append_column("window", window).group_by(["key", "window"]).aggregate([("type", "count")])


def rule_alone(table: pa.Table, by: BatchRules) -> Callable[[], object]:
    """What `assign_batches` does between taking the columns of one key in and giving the answer out."""
    rows = table.num_rows
    answers = np.empty(rows, np.int8), np.empty(rows, layout.LINK)
    taken = layout.Rows(*columns.inputs_of(table, None), *answers)
    batches, numbers = np.empty(rows, layout.BATCH), numbers_of(by)

    def batch() -> None:
        keys, cursors = keys_of(np.array([rows])), np.zeros(1, layout.CURSOR)
        kernel.batch_rows(numbers, taken, layout.NONE_OPEN, batches, keys, cursors, BEFORE_ALL_US, True)

    return batch


def run(rows: int) -> Figures:
    """All figures of stage 1."""
    figures = Figures("Stage 1: the batcher")
    for name, table in (("A", workload_a(rows)), ("B", workload_b(rows))):
        figures.add(f"columns, {name}", "tumbling window, pyarrow", rows, seconds(partial(tumble, table)))
        figures.add(f"columns, {name}", "assign_batches", rows, seconds(partial(assign_batches, table, rules())))
        figures.add(f"columns, {name}", "the rule alone, on numbers", rows, seconds(rule_alone(table, rules())))
        messages = measurements_of(table)
        figures.add(f"messages, {name}", "a dict by half second", rows, seconds(partial(group_all, messages), 2))
        figures.add(f"messages, {name}", "add", rows, seconds(partial(add_all, messages, rules()), 2))
    for name, table in (("A", workload_a(rows)), ("B", workload_b(rows))):
        figures.add("B beside A", f"assign_batches, {name}", rows, seconds(partial(assign_batches, table, rules())))
    for stretch in DELAYS:
        name, by = f"× {stretch:,}", rules(stretch)
        _by_both(figures, "A, max delay", name, workload_a(rows), by)
        _by_both(figures, "B, max delay", name, workload_b(rows), by)
        _by_both(figures, "B as late as that", name, workload_b(rows, stretch=stretch), by)
    for keys in KEYS:
        _by_both(figures, "A, keys", f"{keys:,}", workload_a(rows, keys), rules())
        _by_both(figures, "B, keys", f"{keys:,}", workload_b(rows, keys), rules())
    return figures


def _by_both(figures: Figures, group: str, name: str, table: pa.Table, by: BatchRules) -> None:
    """The same by columns and message by message."""
    rows = table.num_rows
    figures.add(f"assign_batches, {group}", name, rows, seconds(partial(assign_batches, table, by)))
    messages = measurements_of(table)
    figures.add(f"add, {group}", name, rows, seconds(partial(add_all, messages, by), 2))
