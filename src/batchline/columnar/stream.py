"""Stage 1 on a stream that comes in pieces: what was open before, new rows, and how far time has come.

        held ──► open batches, and rows that wait ─┐
        new rows ──────────────────────────────────┼──► rows whose fate is known, with their batches
        watermark ── before it nothing more comes ─┘    and what is held from now on

Rows received at or after the watermark wait: another one, received earlier, may still be on its way. So the pieces
into which a stream was cut cannot be told from the result.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar import columns, kernel, layout, sorting
from batchline.columnar.assign import ADDED, Answers, columns_of, keys_of, numbers_of
from batchline.columnar.columns import flat
from batchline.columnar.hashing import hash_keys
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import AFTER_ALL_US

__all__ = ["CLOSED", "KEYS", "WINDOW", "Held", "Move", "Outcome", "take_rows"]

WORDS: Final = pa.dictionary(pa.int32(), pa.string())
#: The window that a held row is in; null while it waits.
WINDOW: Final = pa.schema([("open_start", pa.int64()), ("open_end", pa.int64()), ("open_ordinal", pa.int32())])
#: A batch that closed while others of its key were open: its start may come again, under the next ordinal.
CLOSED: Final = pa.list_(pa.struct([("start", pa.int64()), ("ordinal", pa.int32())]))
KEYS: Final = pa.schema(
    [
        # Sorted by this.
        ("hash", pa.uint64()),
        ("key", pa.string()),
        # Where its rows end; they begin where those of the key before it end.
        ("end", pa.int64()),
        ("clock", pa.int64()),
        # The watermark that changes something for this key.
        ("wake", pa.int64()),
        ("closed", CLOSED),
    ]
)


class Held(NamedTuple):
    """What a stream keeps: its keys with something open or waiting, as in KEYS, and their rows, followed by WINDOW."""

    keys: pa.Table
    rows: pa.Table

    @classmethod
    def nothing(cls, schema: pa.Schema) -> "Held":
        """Nothing, of a stream with these columns."""
        return cls(KEYS.empty_table(), pa.schema([*schema, *WINDOW]).empty_table())


class Move(NamedTuple):
    """How time moves in a step, in microseconds since the epoch."""

    #: The watermark of the step before.
    before_us: int
    #: The watermark now: no row will come that was received earlier.
    watermark_us: int
    #: Whether the input has ended.
    flush: bool = False


class Outcome(NamedTuple):
    """What a step gives."""

    #: The rows whose fate is known, with ADDED; those of a batch stand together.
    rows: pa.Table
    #: What is held of the keys that the step was about; a key that was held and is no more has no rows.
    held: Held
    #: How many rows came behind the watermark, and how many batches closed.
    behind: int
    closed: int
    #: How many more batches are open than before; below 0, if there are fewer.
    opened: int


def take_rows(rules: BatchRules, names: Names, held: Held, new: pa.Table, move: Move) -> Outcome:
    """Take new rows in, in any order, together with all that is held of their keys and of the keys that are due.

    Every held key has rows. The new rows' keys may be a dictionary, if somebody has looked at them already.
    """
    desk = _Desk(rules, names, held, new, move)
    desk.sort()
    desk.batch()
    return Outcome(desk.known(), desk.kept(), desk.behind, desk.closed(), desk.opened())


class _Desk:
    """The rows of a step on their way: all of them, held and new, and their columns as numbers."""

    def __init__(self, rules: BatchRules, names: Names, held: Held, new: pa.Table, move: Move) -> None:
        self.rules, self.move, self.held = rules, move, held
        old = held.rows.drop_columns(WINDOW.names)
        self.held_counts = np.diff(flat(held.keys.column("end")).to_numpy(), prepend=0)
        keys = _as_words(new.column(names.key))
        new = new.set_column(new.column_names.index(names.key), names.key, keys.cast(pa.string()))
        self.table = pa.concat_tables([old.cast(new.schema), new]) if old.num_rows else new
        # Of the held rows, keys are known one by one; there is no need to look at the key of each row.
        known = [pa.DictionaryArray.from_arrays(_repeated(self.held_counts), flat(held.keys.column("key")))]
        both = pa.chunked_array([*known, *keys.chunks] if old.num_rows else keys.chunks, WORDS)
        view = names.view(self.table)
        view = view.set_column(view.column_names.index("key"), "key", both)
        self.names, self.view = names, view
        self.codes, self.keys = columns.codes_of(view, "key")
        # Where each held key stands now.
        self.at = self.codes[np.cumsum(self.held_counts) - self.held_counts]
        self.inputs = columns.inputs_of(view, rules.max_bytes)
        self.member = _padded(held.rows.column("open_start").is_valid(), self.table.num_rows)
        self.behind = int(np.count_nonzero(self.inputs.receive[held.rows.num_rows :] < move.before_us))
        # A row that came behind the watermark counts as received at it.
        receive = np.maximum(self.inputs.receive, move.before_us)
        self.inputs = self.inputs._replace(receive=columns.frozen(receive))
        self.window = [_padded(held.rows.column(name).fill_null(0), self.table.num_rows) for name in WINDOW.names]
        self.waiting = ~self.member & (receive >= move.watermark_us) if not move.flush else np.zeros(receive.size, bool)

    def sort(self) -> None:
        """Bring the rows of each key together: those in open batches, those whose turn it is, those that wait."""
        self.places, self.ends = kernel.group_by_key(self.codes, len(self.keys))
        ranks = columns.ranks_of(self.view, self.names.our_order(), self.names.our_last(), self.inputs)
        first = np.where(self.member, self.window[0], ranks[0])
        sorting.sort_within_keys(self.places, self.ends, np.stack([~self.member, first, *ranks[1:]]))
        self.inputs = columns.Inputs(*(columns.frozen(column[self.places]) for column in self.inputs))
        self.waiting = self.waiting[self.places]

    def batch(self) -> None:
        """Let the kernel go on from what was open."""
        keys = keys_of(self.ends)
        keys["restored"] += np.bincount(self.codes[self.member], minlength=len(self.keys))
        keys["end"] -= np.bincount(self.codes[self.places[self.waiting]], minlength=len(self.keys))
        closed = self._restore_keys(keys)
        count = self.table.num_rows
        self.verdicts, links = np.zeros(count, np.int8), np.zeros(count, layout.LINK)
        batches = np.empty(count + closed[0].size, layout.BATCH)
        start, end, ordinal = (columns.frozen(column[self.places]) for column in self.window)
        was = layout.Open(start, end, ordinal, *closed)
        rows = layout.Rows(*self.inputs, self.verdicts, links)
        cursors = np.zeros(1, layout.CURSOR)
        opened = kernel.batch_rows(
            numbers_of(self.rules), rows, was, batches, keys, cursors, self.move.watermark_us, self.move.flush
        )
        self.batches, self.numbers, self.key_records = batches[:opened], links["batch"], keys

    def _restore_keys(self, keys: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Enter the clocks of the held keys; the starts and ordinals of their closed batches, in the order of keys."""
        held, at = self.held.keys, self.at
        keys["clock"][at] = held.column("clock").to_numpy()
        closed = held.column("closed").take(pa.array(np.argsort(at))).combine_chunks()
        counts = np.zeros(len(self.keys), np.int64)
        counts[at] = pc.list_value_length(held.column("closed")).to_numpy()
        keys["closed"] = np.cumsum(counts)
        numbers = closed.flatten()
        starts, ordinals = (numbers.field(name).to_numpy() for name in ("start", "ordinal"))
        return columns.frozen(starts), columns.frozen(ordinals)

    def known(self) -> pa.Table:
        """The rows that are rejected or whose batch has closed, those of a batch together."""
        in_batch = self.verdicts == kernel.BATCHED
        # A row that waits has no number yet: 0, which may be no batch at all.
        self.is_open = in_batch & ~self.waiting
        self.is_open[self.is_open] = self.batches["reason"][self.numbers[self.is_open]] == kernel.OPEN
        known = np.flatnonzero(~self.waiting & ~self.is_open)
        known = known[np.argsort(self.numbers[known], kind="stable")]
        rows = self.table.take(pa.array(self.places[known]))
        added = columns_of(Answers(self.verdicts[known], self.numbers[known], self.batches, self.keys))
        for name, column in zip(ADDED, added, strict=True):
            rows = rows.append_column(name, column)
        return rows

    def closed(self) -> int:
        """How many batches have closed."""
        reasons = self.batches["reason"]
        return int(np.count_nonzero((reasons != kernel.OPEN) & (reasons != kernel.KNOWN)))

    def opened(self) -> int:
        """How many more batches are open than before."""
        # Those that were open stand together, by key and start: of two with the same start, one has closed.
        was = self.places[self.member[self.places]]
        keys, starts = self.codes[was], self.window[0][was]
        before = np.count_nonzero((keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])) + bool(was.size)
        return int(np.count_nonzero(self.batches["reason"] == kernel.OPEN) - before)

    def kept(self) -> Held:
        """The rows that are in an open batch or wait, and their keys, sorted by hash."""
        hashes = hash_keys(self.keys)
        kept = np.flatnonzero(self.is_open | self.waiting)
        gone = np.zeros(len(self.keys), bool)
        gone[self.at] = True
        codes = self.codes[self.places[kept]]
        counts = np.bincount(codes, minlength=len(self.keys))
        about = np.flatnonzero((counts > 0) | gone)
        about = about[np.argsort(hashes[about], kind="stable")]
        rank = np.empty(len(self.keys), np.int64)
        rank[about] = np.arange(about.size)
        kept = kept[np.argsort(rank[codes], kind="stable")]
        keys = {
            "hash": hashes[about],
            "key": self.keys.take(pa.array(about)),
            "end": np.cumsum(counts[about]),
            "clock": self.key_records["clock"][about],
            "wake": self._wakes(kept, counts[about]),
            "closed": self._closed(about),
        }
        return Held(pa.table(keys, schema=KEYS), self._kept_rows(kept))

    def _kept_rows(self, kept: NDArray[np.int64]) -> pa.Table:
        rows = self.table.take(pa.array(self.places[kept]))
        opened = self.is_open[kept]
        numbers = self.numbers[kept[opened]]
        for field, name in zip(WINDOW, ("start", "end", "ordinal"), strict=True):
            # Zero where there is none, so that the same rows are the same bytes.
            values = np.zeros(kept.size, field.type.to_pandas_dtype())
            values[opened] = self.batches[name][numbers]
            rows = rows.append_column(field, pa.array(values, mask=~opened))
        return rows

    def _wakes(self, kept: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """When each key has something to do: its first timeout, or its first row that waits."""
        wakes = np.full(counts.size, AFTER_ALL_US)
        if not kept.size:
            return wakes
        at = self.inputs.receive[kept] + 1
        opened = self.is_open[kept]
        at[opened] = self.batches["end"][self.numbers[kept[opened]]] + self.rules.max_delay_us
        begins = np.cumsum(counts) - counts
        wakes[counts > 0] = np.minimum.reduceat(at, begins[counts > 0])
        return wakes

    def _closed(self, about: NDArray[np.int64]) -> pa.Array:
        """Of each key that has open batches, those that closed meanwhile and whose start may come again."""
        batches, keys = self.batches, self.key_records
        numbers = np.empty(0, np.int64)
        if self.rules.max_bytes is not None and batches.size:
            of = keys[batches["key"]]
            since = of["clock"] - self.rules.window_us - self.rules.max_delay_us
            known = (of["oldest"] >= 0) & (np.arange(batches.size) >= of["oldest"])
            numbers = np.flatnonzero(known & (batches["reason"] != kernel.OPEN) & (batches["start"] > since))
        return _lists(batches, _newest(batches, numbers), about, len(keys))


def _newest(batches: NDArray[np.void], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of batches with one key and start, the one with the largest ordinal; sorted by key and start."""
    order = np.lexsort([batches[name][numbers] for name in ("ordinal", "start", "key")])
    numbers = numbers[order]
    same = batches[["key", "start"]][numbers]
    last = np.append(same[1:] != same[:-1], True) if numbers.size else np.empty(0, bool)
    newest: NDArray[np.int64] = numbers[last]
    return newest


def _lists(batches: NDArray[np.void], numbers: NDArray[np.int64], about: NDArray[np.int64], key_count: int) -> pa.Array:
    """A list of starts and ordinals for each key of `about`; the batches come sorted by key."""
    key = batches["key"][numbers]
    counts = np.bincount(key, minlength=key_count)
    rank = np.full(key_count, about.size, np.int64)
    rank[about] = np.arange(about.size)
    numbers = numbers[np.argsort(rank[key], kind="stable")]
    fields: list[Any] = [np.ascontiguousarray(batches[name][numbers]) for name in ("start", "ordinal")]
    values = pa.StructArray.from_arrays([pa.array(field) for field in fields], ["start", "ordinal"])
    offsets = np.append(0, np.cumsum(counts[about])).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _as_words(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Strings as a dictionary, if they are none yet."""
    return keys if pa.types.is_dictionary(keys.type) else keys.cast(pa.string()).dictionary_encode()


def _repeated(counts: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.repeat(np.arange(counts.size, dtype=np.int32), counts))


def _padded(column: pa.ChunkedArray, count: int) -> NDArray[Any]:
    """The column of the held rows, and zeros for the new ones."""
    values = column.to_numpy()
    padded = np.zeros(count, values.dtype)
    padded[: values.size] = values
    return padded
