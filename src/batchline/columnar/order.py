"""Receive order: a total order but for copies of one measurement, which keep the order given."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import NEEDED, check_there, receive_times_of

__all__ = ["in_receive_order"]


def in_receive_order(table: pa.Table, order: Sequence[str] = ()) -> pa.Table:
    """Sort rows by receive time, then by the `order` columns (an offset, a position), then by event time and type.

    Rows that tie in all of that keep the order given. Of one key, these are copies of one measurement: read from files,
    the order of file names and lines decides which copy is kept.
    """
    check_there(table, (*NEEDED, *order))
    if np.all(np.diff(receive_times_of(table)) > 0):
        return table
    names = ("receive_time", *order, "event_time", "type")
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))
