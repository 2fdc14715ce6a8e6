"""A row per batch, with its messages, from rows that know their batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.assign import ADDED
from batchline.columnar.columns import flat
from batchline.errors import InvalidTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

__all__ = ["collect_frame"]

#: What a batch has beside its key and messages.
OF_BATCH: Final = ("batch_id", "batch_start", "batch_end", "closed_at", "close_reason")


def collect_frame(df: "DataFrame", key: str, type: str, event_time: str) -> "DataFrame":
    """A row per batch of rows that come straight from `assign_batches`; rejected ones are left out."""
    from pyspark.sql import functions as sf

    missing = [name for name in (key, type, event_time, "verdict", *OF_BATCH) if name not in df.columns]
    if missing:
        raise InvalidTable(f"missing column {', '.join(missing)}: collect_batches expects what assign_batches gives")
    batched = df.where(sf.col("verdict") == "batched")
    own = [name for name in df.columns if name not in (key, *ADDED)]
    if df.isStreaming:
        collect = _Collect(key, type, event_time, tuple(own))
        return batched.mapInArrow(collect, _schema(df, key, own))
    messages = sf.collect_list(sf.struct(*own)).alias("messages")
    grouped = batched.groupBy(key, *OF_BATCH).agg(_by_time(messages, type, event_time).alias("messages"))
    return grouped.select("batch_id", key, *OF_BATCH[1:], "messages")


def _by_time(messages: "Column", type: str, event_time: str) -> "Column":
    """The messages in order of event time, then type, of which a batch has each only once."""
    from pyspark.sql import functions as sf

    def earlier(one: "Column", other: "Column") -> "Column":
        first, second = (sf.struct(message[event_time], message[type]) for message in (one, other))
        return sf.when(first < second, -1).when(first > second, 1).otherwise(0)

    return sf.array_sort(messages, earlier)


def _schema(df: "DataFrame", key: str, own: list[str]) -> "StructType":
    from pyspark.sql.types import ArrayType, StructField, StructType

    messages = ArrayType(StructType([df.schema[name] for name in own]), containsNull=False)
    fields = [df.schema[name] for name in ("batch_id", key, *OF_BATCH[1:])]
    return StructType([*fields, StructField("messages", messages, nullable=False)])


class _Collect:
    """In a stream, where all rows of a batch come at once and stand together."""

    def __init__(self, key: str, type: str, event_time: str, own: tuple[str, ...]) -> None:
        self.key, self.order, self.own = key, [(event_time, "ascending"), (type, "ascending")], own

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if parts:
            yield from self._collected(pa.Table.from_batches(parts)).to_batches(max_chunksize=16_384)

    def _collected(self, rows: pa.Table) -> pa.Table:
        ids = rows.column("batch_id").combine_chunks()
        first = np.ones(len(ids), bool)
        first[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        begins = np.flatnonzero(first)
        run = pa.array(np.cumsum(first))
        order = pc.sort_indices(rows.append_column("run", run), sort_keys=[("run", "ascending"), *self.order])
        own = rows.select(self.own).take(order).combine_chunks()
        structs = pa.StructArray.from_arrays([flat(column) for column in own.columns], fields=list(own.schema))
        offsets = pa.array(np.append(begins, rows.num_rows).astype(np.int32))
        heads = rows.select(["batch_id", self.key, *OF_BATCH[1:]]).take(pa.array(begins))
        return heads.append_column("messages", pa.ListArray.from_arrays(offsets, structs))
