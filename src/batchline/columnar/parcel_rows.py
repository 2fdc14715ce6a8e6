"""A row per parcel, from rows that know their parcel."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import MOMENT, flat, times_of
from batchline.columnar.pack_order import subjects_of

__all__ = ["PARCEL", "parcels_of"]

#: What a parcel has beside its measurements.
PARCEL: Final = pa.schema(
    [
        ("parcel_id", pa.string()),
        ("parcel_number", pa.int64()),
        ("lane", pa.int32()),
        ("items", pa.int32()),
        ("bytes", pa.int64()),
        ("first_time", MOMENT),
        ("last_time", MOMENT),
        ("subjects", pa.list_(pa.string())),
    ]
)


def parcels_of(packed: pa.Table, lane: int, split: str | None) -> pa.Table:
    """A row per parcel of rows that come parcel after parcel; what they carry in `row` becomes its measurements.

    A row in no parcel, which is too large for any, is a row of its own without id and number.
    """
    count = packed.num_rows
    numbers = packed.column("parcel_number").fill_null(0).to_numpy()
    first = np.ones(count, bool)
    first[1:] = (numbers[1:] != numbers[:-1]) | (numbers[1:] == 0)
    begins = np.flatnonzero(first)
    ends = np.append(begins[1:], count)[: begins.size]
    event = times_of(packed, "event_time")
    of_parcel = pa.table(
        {
            "parcel_id": packed.column("parcel_id").take(pa.array(begins)),
            "parcel_number": packed.column("parcel_number").take(pa.array(begins)),
            "lane": np.full(begins.size, lane, np.int32),
            "items": (ends - begins).astype(np.int32),
            "bytes": _bytes(packed, begins),
            "first_time": pa.array(np.minimum.reduceat(event, begins) if count else event).view(MOMENT),
            "last_time": pa.array(np.maximum.reduceat(event, begins) if count else event).view(MOMENT),
            "subjects": _subjects(packed, split, np.cumsum(first) - 1, begins.size),
        },
        schema=PARCEL,
    )
    offsets = pa.array(np.append(begins, count).astype(np.int32))
    return of_parcel.append_column("measurements", pa.ListArray.from_arrays(offsets, flat(packed.column("row"))))


def _bytes(packed: pa.Table, begins: np.ndarray) -> pa.Array:
    """The sizes together; null where there are none."""
    if "size" not in packed.column_names:
        return pa.nulls(begins.size, pa.int64())
    sizes = packed.column("size").cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array(np.add.reduceat(sizes, begins) if sizes.size else sizes)


def _subjects(packed: pa.Table, split: str | None, parcel: np.ndarray, count: int) -> pa.Array:
    """The subjects of each parcel, each once, in order of their names."""
    codes, subjects = subjects_of(packed, split)
    pairs = np.unique(np.stack([parcel, pc.rank(subjects).to_numpy().astype(np.int64)[codes]]), axis=1)
    by_rank = pc.sort_indices(subjects)
    names = subjects.take(by_rank).take(pa.array(pairs[1] - 1))
    offsets = np.searchsorted(pairs[0], np.arange(count + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names)
