"""Stage 1 on Arrow columns: a table in, the same table with verdicts and batches out."""

from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar import columns, kernel, layout, sorting
from batchline.columnar.columns import MOMENT
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import BEFORE_ALL_US, us_of
from batchline.errors import InvalidInput, InvalidRules

__all__ = [
    "ADDED",
    "Answers",
    "answer",
    "assign_batches",
    "check_rules",
    "columns_of",
    "keys_of",
    "numbers_of",
    "us_until",
    "with_answers",
]

#: The columns that the result has beside those of the input.
ADDED: Final = ("verdict", "batch_id", "batch_start", "batch_end", "closed_at", "close_reason")
MOST_STRING_BYTES: Final = 2**31 - 1
#: The longest start and ordinal in an id, with the signs before them.
LONGEST_SUFFIX: Final = len("@-9223372036854775808.2147483647")


def assign_batches(table: pa.Table, rules: BatchRules, until: datetime | None = None) -> pa.Table:
    """The same rows in the same order, plus what became of each and its batch; the input ends with a flush.

    Rows of a key are taken in the table's order, which must be their receive order. With `until`, the moment up to
    which the input is complete, quiet keys advance to it before the flush: what timed out by then says so.
    """
    check_rules(rules)
    columns.check_names(table, ADDED)
    return with_answers(table, answer(table, rules, until_us=us_until(until)))


def check_rules(rules: BatchRules) -> None:
    """What is given as the rules are rules."""
    if not isinstance(rules, BatchRules):
        raise InvalidRules(f"expected BatchRules, got {rules!r} ({type(rules).__name__})")


def us_until(until: datetime | None) -> int:
    """The moment up to which the input is complete, in microseconds since the epoch."""
    try:
        return BEFORE_ALL_US if until is None else us_of(until)
    except (AttributeError, ValueError) as error:
        raise InvalidInput(f"until expects a datetime with a time zone, got {until!r}") from error


class Answers(NamedTuple):
    """What became of each row of a table: its verdict and the number of its batch; and the batches, and their keys."""

    verdicts: NDArray[np.int8]
    numbers: NDArray[np.int32]
    batches: NDArray[np.void]
    keys: pa.Array


def answer(table: pa.Table, rules: BatchRules, names: Names | None = None, until_us: int = BEFORE_ALL_US) -> Answers:
    """Batch the rows of a table that has been checked.

    With `names`, of which it is a view, they are first sorted within their key: by receive time, `order`, event time,
    type and what decides last.
    """
    key_codes, keys = columns.codes_of(table, "key")
    inputs = columns.inputs_of(table, rules.max_bytes)
    places, ends = kernel.group_by_key(key_codes, len(keys))
    if names is not None:
        ranks = columns.ranks_of(table, names.our_order(), names.our_last(), inputs)
        sorting.sort_within_keys(places, ends, ranks)
    # One key in order is as it should be. Of many, the columns are brought together first: that is quicker than reading
    # here and there, for the processor can fetch ahead.
    moved = len(keys) > 1 or names is not None
    if moved:
        inputs = columns.Inputs(*(columns.frozen(column[places]) for column in inputs))
    verdicts, links = np.empty(table.num_rows, np.int8), np.empty(table.num_rows, layout.LINK)
    # Room for a batch per row: what is never written costs no memory.
    batches = np.empty(table.num_rows, layout.BATCH)
    rows = layout.Rows(*inputs, verdicts, links)
    cursors = np.zeros(1, layout.CURSOR)
    count = kernel.batch_rows(
        numbers_of(rules), rows, layout.NONE_OPEN, batches, keys_of(ends), cursors, until_us, True
    )
    numbers = links["batch"]
    if moved:
        verdicts, numbers = _scattered(verdicts, places), _scattered(numbers, places)
    return Answers(verdicts, numbers, batches[:count], keys)


def keys_of(ends: NDArray[np.int64]) -> NDArray[np.void]:
    """Keys with nothing open, as the kernel takes them."""
    keys = np.zeros(ends.size, layout.KEY)
    keys["end"] = ends
    keys["begin"][1:] = keys["restored"][1:] = ends[:-1]
    return keys


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


def with_answers(table: pa.Table, answers: Answers) -> pa.Table:
    """The table with the added columns; those of a batch are spread over its rows, and null where there is none."""
    for name, column in zip(ADDED, columns_of(answers), strict=True):
        table = table.append_column(name, column)
    return table


def columns_of(answers: Answers) -> tuple[Any, ...]:
    """The added columns, in the order of ADDED."""
    rejected = answers.verdicts != kernel.BATCHED
    batch_of_row = pa.array(answers.numbers, mask=rejected if rejected.any() else None)
    batches = answers.batches
    return (
        pa.array(kernel.VERDICTS).take(pa.array(answers.verdicts)),
        _spread_ids(_ids(batches, answers.keys), batch_of_row),
        *(_moments(batches, name).take(batch_of_row) for name in ("start", "end", "closed_at")),
        pa.array(kernel.CLOSE_REASONS).take(pa.array(batches["reason"])).take(batch_of_row),
    )


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
