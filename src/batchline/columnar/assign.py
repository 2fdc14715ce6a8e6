"""Stage 1 on Arrow columns: a table in, the same table with verdicts and batches out."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar import columns, kernel, layout
from batchline.columnar.columns import MOMENT
from batchline.core.batch_rules import BatchRules
from batchline.errors import InvalidRules

__all__ = ["ADDED", "assign_batches", "numbers_of"]

#: The columns that the result has beside those of the input.
ADDED: Final = ("verdict", "batch_id", "batch_start", "batch_end", "closed_at", "close_reason")
MOST_STRING_BYTES: Final = 2**31 - 1
#: The longest start and ordinal in an id, with the signs before them.
LONGEST_SUFFIX: Final = len("@-9223372036854775808.2147483647")


def assign_batches(table: pa.Table, rules: BatchRules) -> pa.Table:
    """The same rows in the same order, plus what became of each and its batch; the input ends with a flush.

    Rows of a key are taken in the table's order, which must be their receive order.
    """
    if not isinstance(rules, BatchRules):
        raise InvalidRules(f"expected BatchRules, got {rules!r} ({type(rules).__name__})")
    columns.check_names(table, ADDED)
    key_codes, keys = columns.codes_of(table, "key")
    type_codes, _ = columns.codes_of(table, "type")
    inputs = (
        type_codes,
        columns.times_of(table, "event_time"),
        columns.receive_times_of(table),
        columns.sizes_of(table, rules.max_bytes),
    )
    order, ends = kernel.group_by_key(key_codes, len(keys))
    # One key is in order already. Of many, the columns are brought together first: that is quicker than reading here
    # and there, for the processor can fetch ahead.
    type_, event, receive, size = inputs if len(keys) < 2 else (columns.frozen(column[order]) for column in inputs)
    verdicts, links = np.empty(table.num_rows, np.int8), np.empty(table.num_rows, layout.LINK)
    # Room for a batch per row: what is never written costs no memory.
    batches = np.empty(table.num_rows, layout.BATCH)
    rows = layout.Rows(type_, event, receive, size, verdicts, links)
    count = kernel.batch_rows(numbers_of(rules), rows, batches, np.zeros(1, layout.CURSOR), ends)
    numbers = links["batch"]
    if len(keys) > 1:
        verdicts, numbers = _scattered(verdicts, order), _scattered(numbers, order)
    return _with_answers(table, verdicts, numbers, batches[:count], keys)


def _scattered(values: NDArray[Any], order: NDArray[np.int32]) -> NDArray[Any]:
    """The values of the grouped rows, back in the order of the table."""
    scattered = np.empty(values.size, values.dtype)
    scattered[order] = values
    return scattered


def numbers_of(rules: BatchRules) -> layout.Numbers:
    """The rules as the kernel takes them."""
    return layout.Numbers(
        rules.window_us,
        rules.max_delay_us,
        rules.leap_limit_us,
        -1 if rules.max_bytes is None else rules.max_bytes,
        kernel.ANCHOR_CODES[rules.anchor],
        rules.split == "midpoint",
    )


def _with_answers(
    table: pa.Table, verdicts: NDArray[np.int8], numbers: NDArray[np.int32], batches: NDArray[np.void], keys: pa.Array
) -> pa.Table:
    """The table with the added columns; those of a batch are spread over its rows, and null where there is none."""
    rejected = verdicts != kernel.BATCHED
    batch_of_row = pa.array(numbers, mask=rejected if rejected.any() else None)
    answers = (
        pa.array(kernel.VERDICTS).take(pa.array(verdicts)),
        _spread_ids(_ids(batches, keys), batch_of_row),
        *(_moments(batches, name).take(batch_of_row) for name in ("start", "end", "closed_at")),
        pa.array(kernel.CLOSE_REASONS).take(pa.array(batches["reason"])).take(batch_of_row),
    )
    for name, column in zip(ADDED, answers, strict=True):
        table = table.append_column(name, column)
    return table


def _moments(batches: NDArray[np.void], name: str) -> pa.Array:
    return pa.array(np.ascontiguousarray(batches[name])).view(MOMENT)


def _ids(batches: NDArray[np.void], keys: pa.Array) -> pa.Array:
    """The ids of the batches, as `core.batch.batch_id` makes them."""
    # 64-bit offsets where the ids together might pass 2 GiB.
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    kind = pa.string() if len(batches) * (longest + LONGEST_SUFFIX) < MOST_STRING_BYTES else pa.large_string()
    key = keys.cast(kind).take(pa.array(batches["key"]))
    start = pa.array(np.ascontiguousarray(batches["start"])).cast(kind)
    if not batches["ordinal"].any():
        return pc.binary_join_element_wise(key, start, pa.scalar("@", kind))
    ordinal = pa.array(np.ascontiguousarray(batches["ordinal"]))
    suffix = pc.if_else(pc.equal(ordinal, 0), "", pc.binary_join_element_wise("", ordinal.cast(pa.string()), "."))
    name = pc.binary_join_element_wise(key, start, pa.scalar("@", kind))
    return pc.binary_join_element_wise(name, suffix.cast(kind), pa.scalar("", kind))


def _spread_ids(ids: pa.Array, batch_of_row: pa.Array) -> pa.ChunkedArray:
    """The id of each row, in chunks that stay below the 2 GiB which an array of strings can hold."""
    longest = pc.max(pc.binary_length(ids)).as_py() or 1
    step = max(1, MOST_STRING_BYTES // longest)
    starts = range(0, max(1, len(batch_of_row)), step)
    return pa.chunked_array([ids.take(batch_of_row.slice(at, step)).cast(pa.string()) for at in starts])
