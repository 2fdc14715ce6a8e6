"""Partitions larger than memory: rows go to disk by key, are answered bucket by bucket, and come back as they came.

rows in ──► fits? ──yes──► answered at once ──────────────────────────────► answers, in the order of the rows
              └──no──► buckets by key on disk ──► answered one by one ──► dealt back ──┘
"""

import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from batchline.columnar.columns import codes_of, flat
from batchline.columnar.hashing import hash_keys

__all__ = ["MOST_ROWS", "Spill"]

#: So many rows of a partition are held in memory; about 300 bytes each while they are answered.
MOST_ROWS: Final = 4_000_000
BUCKETS: Final = 64
Answer = Callable[[pa.Table], pa.Table]


class Spill:
    """Answers rows of which only so many are held in memory; a key's own rows must fit."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows

    def answered(self, tables: Iterator[pa.Table], answer: Answer) -> Iterator[pa.Array]:
        """The answer to each row, in the order of the rows, in pieces as large as those that came."""
        held, rows = [], 0
        for table in tables:
            held.append(table)
            rows += table.num_rows
            if rows > self.most_rows:
                yield from self._from_disk(chain(held, tables), answer)
                return
        if held:
            answers = _structs(answer(pa.concat_tables(held)))
            yield from _cut(answers, [table.num_rows for table in held])

    def _from_disk(self, tables: Iterator[pa.Table], answer: Answer) -> Iterator[pa.Array]:
        # Where Spark keeps what it spills itself: the worker's temporary directory.
        with tempfile.TemporaryDirectory(prefix="batchline-spill-") as name:
            buckets = _Buckets(Path(name))
            dealt = [buckets.put(table) for table in tables]
            buckets.answer(answer)
            for places in dealt:
                yield buckets.take(places)


class _Buckets:
    """Rows on disk, a file per bucket of keys, in the order in which they came; then their answers likewise."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writers: dict[int, Any] = {}
        self.answers: dict[int, _Reader] = {}

    def put(self, table: pa.Table) -> NDArray[np.uint8]:
        """Deal the rows out; the bucket of each."""
        codes, keys = codes_of(table, "key")
        places = (hash_keys(keys) % np.uint64(BUCKETS)).astype(np.uint8)[codes]
        for bucket in np.unique(places).tolist():
            rows = table.take(pa.array(np.flatnonzero(places == bucket)))
            if bucket not in self.writers:
                self.writers[bucket] = ipc.new_stream(str(self._path(bucket, "rows")), table.schema)
            self.writers[bucket].write_table(rows)
        return places

    def answer(self, answer: Answer) -> None:
        """Answer bucket by bucket, from disk to disk."""
        for bucket, writer in self.writers.items():
            writer.close()
            path = self._path(bucket, "rows")
            with ipc.open_stream(str(path)) as reader:
                answers = answer(reader.read_all())
            path.unlink()
            with ipc.new_stream(str(self._path(bucket, "answers")), answers.schema) as writer:
                writer.write_table(answers, max_chunksize=65_536)
            self.answers[bucket] = _Reader(self._path(bucket, "answers"))

    def take(self, places: NDArray[np.uint8]) -> pa.Array:
        """The answers to the next rows, whose buckets these are."""
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=BUCKETS)
        parts = [self.answers[bucket].next(int(counts[bucket])) for bucket in np.flatnonzero(counts).tolist()]
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return _structs(pa.concat_tables(parts)).take(pa.array(back))

    def _path(self, bucket: int, what: str) -> Path:
        return self.directory / f"{bucket}.{what}"


class _Reader:
    """A file of answers, read on and on."""

    def __init__(self, path: Path) -> None:
        self.reader = ipc.open_stream(str(path))
        self.rest: Any = None

    def next(self, count: int) -> pa.Table:
        """So many more."""
        parts = [self.rest] if self.rest is not None else []
        rows = sum(part.num_rows for part in parts)
        while rows < count:
            parts.append(pa.Table.from_batches([self.reader.read_next_batch()]))
            rows += parts[-1].num_rows
        table = pa.concat_tables(parts)
        self.rest = table.slice(count)
        return table.slice(0, count)


def _structs(table: pa.Table) -> pa.Array:
    """The table as one array of structs."""
    return pa.StructArray.from_arrays([flat(column) for column in table.columns], table.column_names)


def _cut(array: pa.Array, lengths: list[int]) -> Iterator[pa.Array]:
    at = 0
    for length in lengths:
        yield array.slice(at, length)
        at += length
