"""Receive order, as a total order: no shuffle, file or partition can change the result."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import NEEDED, receive_us_of
from batchline.errors import InvalidTable

__all__ = ["in_receive_order"]


def in_receive_order(table: pa.Table, order: Sequence[str] = ()) -> pa.Table:
    """The rows by receive time, then by the `order` columns (an offset, a position), then by event time and type.

    Rows that tie in all of that stay as they came.
    """
    missing = [name for name in (*NEEDED, *order) if name not in table.column_names]
    if missing:
        raise InvalidTable(f"missing column {', '.join(missing)}; the table has {', '.join(table.column_names)}")
    if np.all(np.diff(receive_us_of(table)) > 0):
        return table
    names = ("receive_time", *order, "event_time", "type")
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))
