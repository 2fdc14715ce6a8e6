"""The packer of a lane, as it runs in a Python worker: a whole lane sorted by Java, or a stream's, epoch by epoch."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import MOMENT, flat, times_of
from batchline.columnar.pack_stream import PackHeld, PackMove, pack_step
from batchline.columnar.parcel_rows import parcels_of
from batchline.columnar.parcels import PackedRows, pack_rows
from batchline.core.moment import BEFORE_ALL_US
from batchline.core.pack_rules import PackRules
from batchline.spark.epoch_files import EpochFiles
from batchline.spark.lanes import LANE, lanes_of_epoch

__all__ = ["GROUP_TIME", "PackNames", "PackTask", "StreamPackTask"]

#: By what Java sorts a lane first.
GROUP_TIME: Final = "batchline_group_time"
#: Rows that are packed at once; those of the last group time wait for the next.
AT_ONCE: Final = 100_000


class PackNames(NamedTuple):
    """The columns that stage 2 looks at, by the names that the table gives them."""

    key: str
    type: str
    event_time: str
    #: Only to decide between rows that tie in all else.
    receive_time: str | None = None
    size: str | None = None
    batch_id: str | None = None
    closed_at: str | None = None

    def view(self, table: pa.Table, own: tuple[str, ...]) -> pa.Table:
        """These columns by our names, and every row as it came in `row`."""
        named = {ours: table.column(theirs) for ours, theirs in self._asdict().items() if theirs is not None}
        row = pa.StructArray.from_arrays([flat(table.column(name)) for name in own], list(own))
        return pa.table(named | {"row": row})


class PackTask(NamedTuple):
    """Packs the rows of a lane, which come sorted; only so many are in memory at once."""

    rules: PackRules
    names: PackNames
    own: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parcels, as they fill."""
        carried, number, lane = None, 1, None
        for lane, rows, end in self._chunks(batches):
            packed = pack_rows(rows, self.rules, carried, number, end)
            carried, number = packed.carried, packed.next_number
            yield from _handed_out(packed, lane, self.rules)

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table, bool]]:
        """Rows of a lane, of which no chunk but the last ends between rows of one group time."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.num_rows
            if count >= AT_ONCE:
                table = pa.Table.from_batches(held)
                times = times_of(table, GROUP_TIME)
                last = int(times.searchsorted(times[-1]))
                if last:
                    yield self._view(table.slice(0, last), False)
                held = table.slice(last).combine_chunks().to_batches()
                count -= last
        if count:
            yield self._view(pa.Table.from_batches(held), True)

    def _view(self, table: pa.Table, end: bool) -> tuple[int, pa.Table, bool]:
        return table.column(LANE)[0].as_py(), self.names.view(table, self.own), end


def _handed_out(packed: PackedRows, lane: int, rules: PackRules) -> Iterator[pa.RecordBatch]:
    """The parcels, and what is too large for any."""
    for rows in (packed.packed, _without_parcel(packed.oversize)):
        if rows.num_rows:
            yield from parcels_of(rows, lane, rules.split).to_batches(max_chunksize=1_024)


def _without_parcel(rows: pa.Table) -> pa.Table:
    rows = rows.append_column("parcel_id", pa.nulls(rows.num_rows, pa.string()))
    return rows.append_column("parcel_number", pa.nulls(rows.num_rows, pa.int64()))


class StreamPackTask(NamedTuple):
    """Packs what an epoch brings to a lane, and holds what is not full."""

    rules: PackRules
    names: PackNames
    own: tuple[str, ...]
    state: str
    #: How long after an event its row may come: the window and the max delay of stage 1.
    lag_us: int
    linger_us: int | None
    #: The epoch; None where Spark tells it.
    epoch: int | None = None
    end: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The parcels that are full, have lingered, or can hold no more."""
        for lane, files, marks, rows in lanes_of_epoch(batches, self.state, self.epoch):
            yield from _handed_out(self._step(files, marks, rows), lane, self.rules)

    def _step(self, files: EpochFiles, marks: pa.Table, rows: pa.Table) -> PackedRows:
        new = self.names.view(rows, self.own)
        held = self._held(files, new)
        closed_us = _latest(rows, str(self.names.closed_at), files.notes.get("closed_us", BEFORE_ALL_US))
        # The receive time of a mark is a tick's; it is put where the rows have theirs of closing.
        now_us = _latest(marks, str(self.names.closed_at), max(closed_us, files.notes.get("now_us", BEFORE_ALL_US)))
        horizon_us = closed_us - self.lag_us if closed_us > BEFORE_ALL_US else BEFORE_ALL_US
        move = PackMove(horizon_us, now_us, self.linger_us, self.end)
        packed, held = pack_step(self.rules, held, new, move)
        notes = {"next_number": held.next_number, "closed_us": closed_us, "now_us": now_us}
        carried = held.carried if held.carried is not None else new.slice(0, 0)
        files.write({"carried": carried, "waiting": held.waiting}, notes)
        return packed

    def _held(self, files: EpochFiles, new: pa.Table) -> PackHeld:
        if files.before < 0:
            return PackHeld(None, new.slice(0, 0))
        carried, waiting = (files.read(f"{files.before:06}", part) for part in ("carried", "waiting"))
        return PackHeld(carried, waiting, files.notes["next_number"])


def _latest(rows: pa.Table, name: str, before_us: int) -> int:
    latest: Any = pc.max(rows.column(name).cast(MOMENT).cast(pa.int64())).as_py()
    return before_us if latest is None else max(before_us, latest)
