"""What assigned rows add up to: a row per batch, and counts."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["batches_of", "counts_of"]


def batches_of(assigned: pa.Table) -> pa.Table:
    """One row per batch in order of start and key: its window, when and why it closed, its messages and bytes."""
    batched = assigned.filter(pc.equal(assigned.column("verdict"), "batched"))
    names = ["batch_id", "key", "batch_start", "batch_end", "closed_at", "close_reason"]
    sums: list[Any] = [("type", "count")]
    if "size" in batched.column_names:
        sums.append(("size", "sum"))
    grouped = batched.group_by(names).aggregate(sums).select([*names, *("_".join(pair) for pair in sums)])
    renamed = grouped.rename_columns([*names, *{"type": "messages", "size": "bytes"}.values()][: grouped.num_columns])
    return renamed.sort_by([("batch_start", "ascending"), ("key", "ascending"), ("batch_id", "ascending")])


def counts_of(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value occurs, most frequent first; nulls are not counted."""
    pairs = [(row["values"], row["counts"]) for row in pc.value_counts(column.drop_null()).to_pylist()]
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
