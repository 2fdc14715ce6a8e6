"""Stage 2 on Arrow columns: rows in, the same rows with their parcels out; at once, or chunk by chunk."""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar import columns, pack_kernel, pack_order
from batchline.columnar.columns import MOMENT, frozen
from batchline.columnar.layout import Codes, Ints
from batchline.columnar.pack_order import Taken, pack_keys
from batchline.core.pack_rules import PackRules
from batchline.core.subject_order import LOOK_AHEAD
from batchline.errors import InvalidTable

__all__ = ["ADDED", "CARRIED", "PackedRows", "assign_parcels", "pack_keys", "pack_rows"]

#: The columns that the result has beside those of the input.
ADDED: Final = ("parcel_id", "parcel_number", "lane")
#: The columns that carried rows have beside their own: the first event time of their group, and its piece.
CARRIED: Final = ("carried_group_time", "carried_piece")
MOST_STRING_BYTES: Final = 2**31 - 1


class PackedRows(NamedTuple):
    """What `pack_rows` makes of a chunk."""

    #: The rows whose parcel is final, parcel after parcel, with `parcel_id` and `parcel_number`.
    packed: pa.Table
    #: The rows whose parcel may still be joined by later ones, to be given back with the next chunk.
    carried: pa.Table
    #: The number of the next parcel.
    next_number: int
    #: The rows of this chunk that no parcel can hold.
    oversize: pa.Table


class _Rows(NamedTuple):
    """Rows in pack order: a group's side by side."""

    subject: Codes
    #: Where each group begins, and the end.
    begins: Ints
    #: The time of each group.
    times: Ints
    size: Ints


def assign_parcels(table: pa.Table, rules: PackRules, lanes: int = 1) -> pa.Table:
    """The same rows in the same order, plus the parcel of each; every lane is packed and numbered on its own.

    Where the parcel is null, the row is in none: it is larger than max_bytes, or stage 1 did not batch it.
    """
    pack_order.check(table, rules, ADDED)
    batched = _batched(table, rules)
    chosen = table if batched is None else table.filter(pa.array(batched))
    taken = pack_order.take(chosen, rules)
    lane_of = pack_order.lanes_of(taken.subjects, lanes)
    lane = lane_of[taken.subject] if batched is None else _lanes(table, rules, lanes)
    order = pack_order.sorted_rows(chosen, rules, taken, lane_of)
    times = pack_order.group_times_of(taken)[order]
    taken = _arranged(taken, order)
    fits = _fitting(taken, rules)
    if fits is not None:
        order, times, taken = order[fits], times[fits], _arranged(taken, fits)
    parcel, number, piece = _pack_lanes(rules, taken, times, lane_of[taken.subject])
    ids = _ids(taken, times, parcel, piece)
    places = order if batched is None else np.flatnonzero(batched)[order]
    return _with_parcels(table, places, parcel, number, ids).append_column("lane", pa.array(lane))


def _batched(table: pa.Table, rules: PackRules) -> NDArray[np.bool_] | None:
    """Which rows stage 1 put into a batch; None where it was not asked, or took all."""
    masks = []
    if "verdict" in table.column_names:
        masks.append(pc.equal(table.column("verdict"), "batched").fill_null(False))
    if rules.together == "batch":
        masks.append(table.column("batch_id").is_valid())
    mask = np.ones(table.num_rows, np.bool_)
    for column in masks:
        mask &= column.to_numpy()
    return None if mask.all() else mask


def _lanes(table: pa.Table, rules: PackRules, lanes: int) -> Codes:
    """The lane of every row, also of those that are in no parcel."""
    subject, subjects = pack_order.subjects_of(table, rules.split)
    return pack_order.lanes_of(subjects, lanes)[subject]


def _fitting(taken: Taken, rules: PackRules) -> NDArray[np.int64] | None:
    """The rows that are not larger than a parcel; None for all."""
    if rules.max_bytes is None or not (taken.size > rules.max_bytes).any():
        return None
    return np.flatnonzero(taken.size <= rules.max_bytes)


def _arranged(taken: Taken, order: NDArray[Any]) -> Taken:
    return taken._replace(
        subject=frozen(taken.subject[order]),
        group=frozen(taken.group[order]),
        event=frozen(taken.event[order]),
        size=frozen(taken.size[order]),
    )


def _pack_lanes(rules: PackRules, taken: Taken, times: Ints, lanes: Codes) -> tuple[Codes, Ints, Codes]:
    """Of each row the parcel, counted over all lanes, its number in the lane, and the piece."""
    parcel, number = np.empty(lanes.size, np.int32), np.empty(lanes.size, np.int64)
    piece = np.empty(lanes.size, np.int32)
    ends = np.append(np.flatnonzero(np.diff(lanes)) + 1, lanes.size)
    begin, before = 0, 0
    for end in ends if lanes.size else ():
        lane = slice(begin, end)
        mine = _rows(taken.subject[lane], taken.group[lane], times[lane], taken.size[lane], 0, rules)
        parcels, pieces, count = _pack(rules, mine, len(taken.subjects), 0, 0, True)
        parcel[lane], number[lane], piece[lane] = parcels + before, parcels + 1, pieces
        begin, before = end, before + count
    return parcel, number, piece


def _rows(subject: Codes, group: Ints, times: Ints, size: Ints, border: int, rules: PackRules) -> _Rows:
    """Find the groups; at the border between two chunks a new one begins in any case."""
    changes = np.ones(subject.size, np.bool_)
    changes[1:] = (subject[1:] != subject[:-1]) | (group[1:] != group[:-1])
    changes[border : border + 1] = True
    begins = np.flatnonzero(changes)
    counted = size if rules.max_bytes is not None else np.zeros(subject.size, np.int64)
    return _Rows(frozen(subject), frozen(np.append(begins, subject.size)), frozen(times[begins]), frozen(counted))


def _pack(
    rules: PackRules, rows: _Rows, subjects: int, open_items: int, open_bytes: int, end: bool
) -> tuple[Codes, Codes, int]:
    """Of each row the parcel, from 0, or -1 where it has to wait, and the piece; how many parcels are final."""
    begins = rows.begins[:-1]
    sums = np.concatenate(([0], np.cumsum(rows.size)))
    groups = pack_kernel.Groups(
        frozen(begins),
        frozen(np.diff(rows.begins)),
        frozen(np.diff(sums[rows.begins])),
        frozen(rows.subject[begins]),
        rows.size,
    )
    limits = pack_kernel.Limits(rules.max_items, -1 if rules.max_bytes is None else rules.max_bytes, LOOK_AHEAD)
    states = np.zeros(1, pack_kernel.STATE)
    states["items"], states["bytes"] = open_items, open_bytes
    desk = pack_kernel.desk_of(limits, groups, rows.subject.size, begins.size, subjects, states)
    if rules.order == "subject":
        pack_kernel.pack_by_subject(desk, end)
        return desk.parcel, desk.piece, int(states["parcel"][0])
    pack_kernel.pack_by_time(desk, rows.times)
    return desk.parcel, desk.piece, int(states["parcel"][0]) + (end and bool(states["items"][0] > 0))


def _ids(taken: Taken, times: Ints, parcel: Codes, piece: Codes) -> pa.Array:
    """The ids of the parcels by the first row of each, as `core.parcel` makes them; rows without a parcel have -1."""
    placed = np.flatnonzero(parcel >= 0)[::-1]
    first = np.empty(int(parcel.max(initial=-1)) + 1, np.int64)
    first[parcel[placed]] = placed
    # 64-bit offsets, for the ids of many parcels together may pass 2 GiB.
    kind = pa.large_string()
    if taken.batches is None:
        subject = taken.subjects.cast(kind).take(pa.array(taken.subject[first]))
        name = pc.binary_join_element_wise(subject, pa.array(times[first]).cast(kind), pa.scalar("@", kind))
    else:
        name = taken.batches.cast(kind).take(pa.array(taken.group[first]))
    pieces = pa.array(piece[first])
    if not piece[first].any():
        return name
    cut = pc.binary_join_element_wise(name, pieces.cast(kind), pa.scalar("-", kind))
    return pc.if_else(pc.equal(pieces, 0), name, cut)


def _spread(ids: pa.Array, parcel_of_row: pa.Array) -> pa.ChunkedArray:
    """The id of each row, in chunks that stay below the 2 GiB which an array of strings can hold."""
    longest = pc.max(pc.binary_length(ids)).as_py() or 1
    step = max(1, MOST_STRING_BYTES // longest)
    if len(parcel_of_row) <= step:
        ids = ids.cast(pa.string())
    starts = range(0, max(1, len(parcel_of_row)), step)
    return pa.chunked_array([ids.take(parcel_of_row.slice(at, step)).cast(pa.string()) for at in starts])


def _with_parcels(table: pa.Table, places: NDArray[Any], parcel: Codes, number: Ints, ids: pa.Array) -> pa.Table:
    """The table with the added columns, null where a row is in no parcel."""
    where, numbers = np.full(table.num_rows, -1, np.int32), np.zeros(table.num_rows, np.int64)
    where[places], numbers[places] = parcel, number
    none = where < 0
    mask = none if none.any() else None
    table = table.append_column("parcel_id", _spread(ids, pa.array(where, mask=mask)))
    return table.append_column("parcel_number", pa.array(numbers, mask=mask))


# --- chunk by chunk ---------------------------------------------------------------------------------------------------


def pack_rows(
    rows: pa.Table, rules: PackRules, carried: pa.Table | None = None, next_number: int = 1, end: bool = False
) -> PackedRows:
    """Pack the next rows of one lane, which come in pack order, after those carried from before; at the end, all.

    No chunk ends between rows of one group time. Whatever the chunks, the packed rows together are the same.
    """
    pack_order.check(rows, rules, (*ADDED[:2], *CARRIED))
    fresh = pack_order.take(rows, rules)
    times = _checked_times(fresh)
    fits = _fitting(fresh, rules)
    oversize = rows.slice(0, 0)
    if fits is not None:
        oversize = rows.filter(pa.array(fresh.size > (rules.max_bytes or 0)))
        rows, times = rows.take(pa.array(fits)), times[fits]
    whole, times, piece = _joined(rows, times, carried)
    taken = pack_order.take(whole, rules)
    parcel, piece, count = _pack_after(rules, taken, times, piece, end)
    packed = _packed(whole, taken, times, np.where(parcel < count, parcel, -1), piece, next_number)
    waits = np.flatnonzero((parcel < 0) | (parcel >= count))
    return PackedRows(packed, _carried(whole, times, piece, waits), next_number + count, oversize)


def _checked_times(taken: Taken) -> Ints:
    """The time of each row's group, which is that of its first row; rows out of pack order are refused."""
    subject, group = taken.subject, taken.group
    changes = np.ones(subject.size, np.bool_)
    changes[1:] = (subject[1:] != subject[:-1]) | (group[1:] != group[:-1])
    begins = np.flatnonzero(changes)
    firsts = taken.event[begins]
    names = pack_order.ranks_of(taken.subjects)[subject[begins]]
    wrong = (firsts[1:] < firsts[:-1]) | ((firsts[1:] == firsts[:-1]) & (names[1:] < names[:-1]))
    if wrong.any():
        row = int(begins[1:][wrong.argmax()])
        raise InvalidTable(f"rows must come in pack order, by group time and subject; row {row} is before its turn")
    return np.repeat(firsts, np.diff(np.append(begins, subject.size)))


def _joined(rows: pa.Table, times: Ints, carried: pa.Table | None) -> tuple[pa.Table, Ints, Codes]:
    """The carried rows and the new ones as one table, their group times, and the pieces of the carried."""
    if carried is None:
        return rows, times, np.empty(0, np.int32)
    columns.check_there(carried, CARRIED)
    before = columns.times_of(carried, CARRIED[0])
    piece = np.concatenate([np.empty(0, np.int32), *(chunk.to_numpy() for chunk in carried.column(CARRIED[1]).chunks)])
    bare = carried.drop_columns(list(CARRIED))
    if bare.schema.names != rows.schema.names:
        raise InvalidTable(f"carried rows have columns {bare.schema.names}, the new ones {rows.schema.names}")
    whole = pa.concat_tables([bare.cast(rows.schema), rows])
    return whole, np.concatenate((before, times)), piece.astype(np.int32)


def _pack_after(rules: PackRules, taken: Taken, times: Ints, carried: Codes, end: bool) -> tuple[Codes, Codes, int]:
    """Pack what was carried and what is new: in the order of time, the carried pieces are in the parcel at hand."""
    subjects, before = len(taken.subjects), carried.size
    if rules.order == "subject":
        every = _rows(taken.subject, taken.group, times, taken.size, before, rules)
        return _pack(rules, every, subjects, 0, 0, end)
    new = slice(before, None)
    mine = _rows(taken.subject[new], taken.group[new], times[new], taken.size[new], 0, rules)
    held = int(taken.size[:before].sum()) if rules.max_bytes is not None else 0
    parcel, piece, count = _pack(rules, mine, subjects, before, held, end)
    return np.append(np.zeros(before, np.int32), parcel), np.append(carried, piece), count


def _packed(whole: pa.Table, taken: Taken, times: Ints, parcel: Codes, piece: Codes, next_number: int) -> pa.Table:
    """The rows with a parcel, parcel after parcel."""
    placed = np.flatnonzero(parcel >= 0)
    order = placed[np.argsort(parcel[placed], kind="stable")]
    ids = _ids(taken, times, parcel, piece)
    packed = whole.take(pa.array(order))
    packed = packed.append_column("parcel_id", _spread(ids, pa.array(parcel[order])))
    return packed.append_column("parcel_number", pa.array(parcel[order].astype(np.int64) + next_number))


def _carried(whole: pa.Table, times: Ints, piece: Codes, waits: NDArray[np.int64]) -> pa.Table:
    carried = whole.take(pa.array(waits))
    carried = carried.append_column(CARRIED[0], pa.array(times[waits]).view(MOMENT))
    return carried.append_column(CARRIED[1], pa.array(piece[waits]))
