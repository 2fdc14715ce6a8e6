"""Stage 2 on a stream that comes in pieces: parcels as they fill, the rest held.

    group time ─────────────────────►
    ├── complete: may be packed ──┤ horizon ├── older ones may still come: waits ──┤

Rows up to the horizon are packed in pack order, so the pieces into which a stream was cut cannot be told from its
parcels. A parcel that has lingered too long goes out as it is: then they can.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar import pack_order
from batchline.columnar.columns import times_of
from batchline.columnar.parcels import PackedRows, pack_rows
from batchline.core.pack_rules import PackRules

__all__ = ["PackHeld", "PackMove", "pack_step"]


class PackHeld(NamedTuple):
    """What a lane holds between two steps."""

    #: Rows in parcels that may still be joined, as `pack_rows` carries them.
    carried: pa.Table | None
    #: Rows that wait for older ones.
    waiting: pa.Table
    next_number: int = 1


class PackMove(NamedTuple):
    """How far time has come, in microseconds since the epoch."""

    #: What happened at one of these moments or before has come.
    horizon_us: int
    #: The clock by which rows linger: the largest `closed_at`, or a tick.
    now_us: int
    #: How long a row may wait for its parcel to fill; None for as long as it takes.
    linger_us: int | None
    #: Whether the input has ended.
    end: bool = False


def pack_step(rules: PackRules, held: PackHeld, new: pa.Table, move: PackMove) -> tuple[PackedRows, PackHeld]:
    """Pack what can be packed of the rows held and new; they have a column `closed_at` beside those of `pack_rows`."""
    rows = pa.concat_tables([held.waiting, new])
    taken = pack_order.take(rows, rules)
    order = pack_order.sorted_rows(rows, rules, taken, np.zeros(len(taken.subjects), np.int32))
    rows, times = rows.take(pa.array(order)), pack_order.group_times_of(taken)[order]
    ready = rows.num_rows if move.end else int(np.searchsorted(times, move.horizon_us, side="right"))
    packed = pack_rows(rows.slice(0, ready), rules, held.carried, held.next_number, move.end)
    late = _lingering(packed.carried, rows.slice(ready), move)
    if late is not None:
        ready = int(np.searchsorted(times, times[ready + late], side="right")) if late >= 0 else ready
        packed = pack_rows(rows.slice(0, ready), rules, held.carried, held.next_number, True)
    return packed, PackHeld(packed.carried, rows.slice(ready), packed.next_number)


def _lingering(carried: pa.Table, waiting: pa.Table, move: PackMove) -> int | None:
    """The last waiting row that has lingered too long; -1 if only carried ones have, None if none has."""
    if move.linger_us is None or move.end:
        return None
    due_us = move.now_us - move.linger_us
    late = np.flatnonzero(times_of(waiting, "closed_at") <= due_us)
    if late.size:
        return int(late[-1])
    oldest = pc.min(carried.column("closed_at").cast(pa.int64())).as_py()
    return -1 if oldest is not None and oldest <= due_us else None
