"""What assigned rows add up to: a row per batch, and counts."""

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["batches_of", "counts_of"]


def batches_of(assigned: pa.Table) -> pa.Table:
    """One row per batch in order of start and key: its window, when and why it closed, its messages and bytes."""
    batched = assigned.filter(pc.equal(assigned.column("verdict"), "batched"))
    names = ["batch_id", "key", "batch_start", "batch_end", "closed_at", "close_reason"]
    grouped = batched.group_by(names)
    if "size" in batched.column_names:
        batches = grouped.aggregate([("type", "count"), ("size", "sum")])
    else:
        batches = grouped.aggregate([("type", "count")])
    renamed = {"type_count": "messages", "size_sum": "bytes"}
    batches = batches.rename_columns([renamed.get(name, name) for name in batches.column_names])
    return batches.sort_by([("batch_start", "ascending"), ("key", "ascending"), ("batch_id", "ascending")])


def counts_of(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value occurs, most frequent first; nulls are not counted."""
    pairs = [(row["values"], row["counts"]) for row in pc.value_counts(column.drop_null()).to_pylist()]
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
