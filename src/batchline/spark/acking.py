"""Stage 3 on a DataFrame: item ids become one mask per group, in Java, before any of them touches the database.

item ids ──► group and bit ──► shuffle by group ──► one mask per group ──► the store, from the executors
"""

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from batchline import errors
from batchline.core.ack import AckOutcome, ItemError
from batchline.core.item_group import ALL_BITS
from batchline.core.name import reason_text
from batchline.errors import BatchlineError, InvalidInput
from batchline.runtime.tracker import Tracker
from batchline.spark.frames import check_column, quoted
from batchline.spark.store_address import store_address
from batchline.stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ack_frame"]

#: What a task tells of what it did: counts, ids of fanouts that it ended, items that did not count.
TOLD: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("count", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


def ack_frame(df: "DataFrame", store: Store | str, item: str, reason: object, call_id: str | None) -> AckOutcome:
    """Acknowledge the items of a column, or fail them for a reason; runs a job, and answers when it is done."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if df.isStreaming:
        raise InvalidInput("ack takes a batch DataFrame: in a stream, call it in foreachBatch with a call_id per epoch")
    check_column(df, "item", item)
    task = AckTask(
        store_address(store), None if reason is None else reason_text(reason), call_id or secrets.token_hex(8)
    )
    return _outcome(_combined(df, item).mapInArrow(task.__call__, from_arrow_schema(TOLD)).collect())


def _combined(df: "DataFrame", item: str) -> "DataFrame":
    """A row per group with the mask of its items; and one per text that is no item id."""
    from pyspark.sql import functions as sf

    text = sf.col(quoted(item))
    index = sf.substring_index(text, ":", -1)
    is_item = sf.coalesce(text.contains(":") & index.rlike("^([0-9]|[1-5][0-9]|6[0-3])$"), sf.lit(False))
    group = text.substr(sf.lit(1), sf.length(text) - sf.length(index) - 1)
    # `try`: of a text that is no item id nothing is expected here, and its cast would end the job.
    bit = sf.call_function("shiftleft", sf.lit(1).cast("bigint"), index.try_cast("int"))
    rows = df.select(
        sf.when(is_item, group).alias("group"),
        sf.when(~is_item, text).alias("item"),
        sf.when(is_item, bit).otherwise(0).alias("bit"),
    )
    masks = rows.groupBy("group", "item").agg(sf.bit_or("bit").alias("mask"), sf.count("*").alias("named"))
    return masks.select("group", "item", "mask", "named")


class AckTask(NamedTuple):
    """What runs in a worker: masks in, what became of them out."""

    store: str
    reason: str | None
    call_id: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Acknowledge what each batch names; a task that is repeated is told the same."""
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        with open_store(self.store, migrate=False) as store:
            tracker = Tracker(store)
            for batch in batches:
                told = list(self._acked(tracker, batch, f"{self.call_id} {part}"))
                yield pa.RecordBatch.from_pylist(told, schema=TOLD)

    def _acked(self, tracker: Tracker, batch: pa.RecordBatch, call_id: str) -> Iterator[dict[str, Any]]:
        masks = {}
        repeated = 0
        no_items = []
        for row in batch.to_pylist():
            if row["group"] is None:
                no_items.append(row["item"])
                continue
            masks[row["group"]] = mask = row["mask"] & ALL_BITS
            repeated += row["named"] - mask.bit_count()
        for outcome in (self._finish(tracker, masks, call_id), self._finish(tracker, no_items, call_id)):
            yield from _told(outcome)
        yield {"kind": "repeated", "count": repeated}

    def _finish(self, tracker: Tracker, items: Any, call_id: str) -> AckOutcome:
        if self.reason is None:
            return tracker.ack(items, call_id=call_id)
        return tracker.fail(items, self.reason, call_id=call_id)


def _told(outcome: AckOutcome) -> Iterator[dict[str, Any]]:
    yield {"kind": "changed", "count": outcome.changed}
    yield {"kind": "repeated", "count": outcome.repeated}
    yield from ({"kind": "completed", "name": fanout} for fanout in outcome.completed)
    yield from ({"kind": "failed", "name": fanout} for fanout in outcome.failed)
    for error in outcome.errors:
        kind = type(error.error).__name__
        yield {"kind": "error", "name": error.item, "error": kind, "message": str(error.error)}


def _outcome(rows: list[Any]) -> AckOutcome:
    """What all tasks told, as one."""

    def names(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.name for row in rows if row.kind == kind))

    return AckOutcome(
        changed=sum(row["count"] for row in rows if row.kind == "changed"),
        repeated=sum(row["count"] for row in rows if row.kind == "repeated"),
        completed=names("completed"),
        failed=names("failed"),
        errors=tuple(ItemError(row.name, _error(row.error, row.message)) for row in rows if row.kind == "error"),
    )


def _error(name: str, message: str) -> BatchlineError:
    """The error that a worker met, as it was there."""
    error: BatchlineError = getattr(errors, name)(message)
    return error
