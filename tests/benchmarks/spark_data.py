"""The messages of a fleet as Parquet files, in the order in which they were received.

Every key sends five types a second at nearly the same event time; most messages are received within 50 ms, one in
twenty only just in time, and one in two hundred too late.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

__all__ = ["FILES", "keys_for", "write_messages"]

BASE_US = 1_800_000_000_000_000
SECOND_US = 1_000_000
TYPES = 5
FILES = 16
#: Fewer keys for fewer rows: each sends at least four times.
LEAST_ROWS_OF_A_KEY = 4 * TYPES
MOMENT = pa.timestamp("us", "UTC")
PAYLOADS = 4096
Ints = NDArray[np.int64]


def keys_for(rows: int, keys: int) -> int:
    """How many keys to take where `keys` are wanted."""
    return max(1, min(keys, rows // LEAST_ROWS_OF_A_KEY))


def write_messages(directory: Path, rows: int, keys: int, payload_bytes: int = 0, seed: int = 1) -> None:
    """Fill the directory, unless it is filled."""
    if directory.exists():
        return
    draw = np.random.default_rng(seed)
    number = np.arange(rows)
    key, kind = number // TYPES % keys, number % TYPES
    # A key keeps its place within the second: 2,654,435,761 scatters keys over it.
    place = key * 2_654_435_761 % (SECOND_US - TYPES * 2_000)
    event = BASE_US + number // (TYPES * keys) * SECOND_US + place + kind * 2_000
    receive = event + _delays(draw, rows)
    order = np.argsort(receive, kind="stable")
    names = pa.array([f"device-{n:07}" for n in range(keys)])
    pool = pa.array([draw.bytes(payload_bytes) for _ in range(PAYLOADS)]) if payload_bytes else None
    directory.mkdir(parents=True)
    for place_of_file, part in enumerate(np.array_split(order, FILES)):
        table = _table(names.take(pa.array(key[part])), kind[part], event[part], receive[part], draw)
        if pool is not None:
            table = table.append_column("payload", pool.take(pa.array(draw.integers(0, PAYLOADS, part.size))))
        # No dictionary for payloads: they are read as what they are.
        pq.write_table(table, directory / f"{place_of_file:03}.parquet", use_dictionary=["key", "type"])


def _delays(draw: np.random.Generator, rows: int) -> Ints:
    delay = draw.integers(1_000, 50_000, rows)
    chance = draw.random(rows)
    delay = np.where(chance < 0.05, draw.integers(50_000, 400_000, rows), delay)
    return np.where(chance < 0.005, draw.integers(400_000, 2_000_000, rows), delay)


def _table(key: pa.Array, kind: Ints, event: Ints, receive: Ints, draw: np.random.Generator) -> pa.Table:
    types = pa.array([f"type-{n}" for n in range(TYPES)])
    columns = {"key": key, "type": types.take(pa.array(kind))}
    columns |= {"event_time": pa.array(event).cast(MOMENT), "receive_time": pa.array(receive).cast(MOMENT)}
    return pa.table(columns | {"size": pa.array(draw.integers(40, 400, kind.size))})
