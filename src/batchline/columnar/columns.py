"""The columns a rule needs, taken out of an Arrow table and checked: what is wrong is named before anything runs."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.core.measurement import LARGEST_SIZE
from batchline.core.moment import EARLIEST_RECEIVE_US, LATEST_RECEIVE_US
from batchline.errors import InvalidTable

__all__ = [
    "MOMENT",
    "NEEDED",
    "US_PER",
    "Inputs",
    "check_names",
    "check_there",
    "codes_of",
    "flat",
    "frozen",
    "inputs_of",
    "is_text",
    "ranks_of",
    "receive_times_of",
    "sizes_of",
    "times_of",
]

#: A moment in every table of ours.
MOMENT: Final = pa.timestamp("us", "UTC")
#: The columns that stage 1 cannot do without.
NEEDED: Final = ("key", "type", "event_time", "receive_time")
#: The microseconds in the units of Arrow that are not finer.
US_PER: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
MOST_ROWS: Final = 2**31 - 1


class Inputs(NamedTuple):
    """The columns that the rule compares, as numbers."""

    type: NDArray[np.int32]
    event: NDArray[np.int64]
    receive: NDArray[np.int64]
    size: NDArray[np.int64]


def check_names(table: Any, added: tuple[str, ...]) -> None:
    """The table has what is needed, and nothing by the name of what will be added."""
    if not isinstance(table, pa.Table):
        raise InvalidTable(f"expected a pyarrow.Table, got {type(table).__name__}")
    if table.num_rows > MOST_ROWS:
        raise InvalidTable(f"expected at most {MOST_ROWS:,} rows in one table, got {table.num_rows:,}")
    check_there(table, NEEDED)
    names = table.column_names
    taken = [name for name in added if name in names]
    if taken:
        raise InvalidTable(f"the table already has a column {', '.join(taken)}, which the result would add")
    twice = [name for name in (*NEEDED, "size") if names.count(name) > 1]
    if twice:
        raise InvalidTable(f"the table has more than one column {', '.join(twice)}")


def check_there(table: pa.Table, needed: Iterable[str]) -> None:
    """The table has the columns that are needed."""
    names = table.column_names
    missing = [name for name in needed if name not in names]
    if missing:
        raise InvalidTable(f"missing column {', '.join(missing)}; the table has {', '.join(names) or 'no columns'}")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings, in whichever form."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def codes_of(table: pa.Table, name: str) -> tuple[NDArray[np.int32], pa.Array]:
    """A column of strings as numbers, and the string that each number stands for."""
    column = table.column(name)
    if not is_text(column.type):
        raise InvalidTable(f"column {name} must hold strings, got {column.type}")
    encoded = _encode(column)
    _check_nulls(encoded, name)
    if encoded.num_chunks == 0:
        return frozen(np.empty(0, np.int32)), pa.array([], pa.string())
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return frozen(codes.astype(np.int32, copy=False)), encoded.chunk(0).dictionary.cast(pa.string())


def _encode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One dictionary for all chunks, without repeated values: a repeated key would be two keys."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    column = column.unify_dictionaries()
    words = column.chunk(0).dictionary if column.num_chunks else None
    if words is not None and (words.null_count or len(words.unique()) < len(words)):
        return column.cast(column.type.value_type).dictionary_encode()
    return column


def _check_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        first = pc.index(column.is_null(), True).as_py()
        raise InvalidTable(
            f"column {name} must have a value in every row; {column.null_count:,} are null, first row {first}"
        )


def times_of(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of times in microseconds since the epoch; finer ones are rounded down."""
    column = table.column(name)
    kind = column.type
    if not pa.types.is_timestamp(kind):
        raise InvalidTable(f"column {name} must hold timestamps with a time zone, got {kind}")
    if kind.tz is None:
        raise InvalidTable(
            f"column {name} holds naive times ({kind}); give it the time zone it is in, UTC for instance"
        )
    _check_nulls(column, name)
    values: NDArray[np.int64] = _numpy(column, pa.int64())
    if kind.unit == "ns":
        return frozen(values // 1_000)
    factor = US_PER[kind.unit]
    _check_range(values, name, -(2**63) // factor + 1, (2**63 - 1) // factor)
    return values if factor == 1 else frozen(values * factor)


def receive_times_of(table: pa.Table) -> NDArray[np.int64]:
    """The receive times in microseconds since the epoch."""
    values = times_of(table, "receive_time")
    _check_range(values, "receive_time", EARLIEST_RECEIVE_US, LATEST_RECEIVE_US, ": the years 1000 to 9000")
    return values


def sizes_of(table: pa.Table, max_bytes: int | None) -> NDArray[np.int64]:
    """The sizes; one that is not there is 0 where no rule needs it."""
    if "size" not in table.column_names:
        if max_bytes is not None:
            raise InvalidTable("max_bytes is set, so the table needs a column size")
        return frozen(np.zeros(table.num_rows, np.int64))
    column = table.column("size")
    if not pa.types.is_integer(column.type):
        raise InvalidTable(f"column size must hold whole numbers of bytes, got {column.type}")
    if max_bytes is None:
        column = column.fill_null(0)
    _check_nulls(column, "size")
    try:
        values = _numpy(column.cast(pa.int64()), pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidTable(f"column size must lie between 0 and {LARGEST_SIZE}: {error}") from error
    _check_range(values, "size", 0, LARGEST_SIZE)
    return values


def inputs_of(table: pa.Table, max_bytes: int | None) -> Inputs:
    """The columns that the rule compares; type codes stand in the order of the types themselves."""
    codes, types = codes_of(table, "type")
    if len(types):
        codes = frozen(_rank(types).astype(np.int32)[codes])
    return Inputs(codes, times_of(table, "event_time"), receive_times_of(table), sizes_of(table, max_bytes))


def ranks_of(table: pa.Table, order: Sequence[str], last: Sequence[str], inputs: Inputs) -> NDArray[np.int64]:
    """What receive order compares, first things first: receive time, `order`, event time, type, and the `last`."""
    check_there(table, (*order, *last))
    first, ties = ([_order_of(table, name) for name in names] for names in (order, last))
    return np.stack([inputs.receive, *first, inputs.event, inputs.type, *ties])


def _order_of(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of any type that can be sorted, as numbers in the same order; nulls last."""
    column = table.column(name)
    kind = column.type
    if column.null_count == 0 and (pa.types.is_timestamp(kind) or pa.types.is_signed_integer(kind)):
        return _numpy(column.cast(pa.int64()), pa.int64())
    try:
        return _rank(column)
    except pa.ArrowException as error:
        raise InvalidTable(f"column {name} cannot be an order: its type {kind} has none") from error


def _rank(values: Any) -> NDArray[np.int64]:
    ranks: NDArray[np.uint64] = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.astype(np.int64)


def _numpy(column: pa.ChunkedArray, kind: pa.DataType) -> NDArray[Any]:
    chunks = [chunk.view(kind).to_numpy() for chunk in column.chunks]
    if len(chunks) == 1:
        return frozen(chunks[0])
    return frozen(np.concatenate(chunks) if chunks else np.empty(0, np.int64))


def flat(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Arrow's own arrays are read-only; with all of them so, the kernel is compiled once and not per combination."""
    values.flags.writeable = False
    return values


def _check_range(values: NDArray[np.int64], name: str, least: int, most: int, meaning: str = "") -> None:
    wrong = (values < least) | (values > most)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidTable(f"column {name} must lie between {least} and {most}{meaning}; row {row} has {values[row]}")
