"""What a lane of a stream holds between two epochs, as Arrow files beside the checkpoint.

    lane-0003/
      000011.json                          what epoch 11 left: its segments, watermark and counts
      000007.keys.arrow  000007.rows.arrow   a segment: keys that changed in epoch 7, and their rows
      000011.keys.arrow  000011.rows.arrow   the newest that has a key is right about it

An epoch writes only the keys that changed; a segment that has become large beside the one before it is merged with
it, so that the cost follows the rows and not the state.
"""

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar.columns import flat
from batchline.columnar.hashing import find_keys
from batchline.columnar.stream import Held, Move
from batchline.core.moment import AFTER_ALL_US, BEFORE_ALL_US
from batchline.spark.epoch_files import EpochFiles

__all__ = ["LaneState", "Left"]

PARTS: Final = ("keys", "rows")


class Left(NamedTuple):
    """What an epoch left of a lane."""

    #: The segments, oldest first, and how large each is: its keys and rows.
    segments: tuple[tuple[str, int], ...] = ()
    watermark_us: int = BEFORE_ALL_US
    #: The largest receive time that came.
    highest_us: int = BEFORE_ALL_US
    #: How many rows came, what became of them, and what came behind the watermark, since the stream began.
    counts: dict[str, int] = {}  # noqa: RUF012 (never changed in place)
    #: How many batches are open.
    open_batches: int = 0

    @property
    def size(self) -> int:
        """The keys and rows of its segments."""
        return sum(size for _, size in self.segments)

    @classmethod
    def read(cls, notes: dict[str, Any]) -> "Left":
        """As it was noted."""
        data = {name: notes[name] for name in cls._fields if name in notes}
        return cls(**data | {"segments": tuple((name, size) for name, size in notes.get("segments", ()))})


class Segment(NamedTuple):
    """The keys that changed in an epoch, sorted by hash, and what is held of them."""

    held: Held
    hashes: NDArray[np.uint64]
    ends: NDArray[np.int64]
    wakes: NDArray[np.int64]

    @classmethod
    def of(cls, held: Held) -> "Segment":
        """The same as a segment."""
        keys = held.keys.combine_chunks()
        hashes, ends, wakes = (flat(keys.column(name)).to_numpy() for name in ("hash", "end", "wake"))
        return cls(Held(keys, held.rows), hashes, ends, wakes)

    @property
    def size(self) -> int:
        """Its keys and rows."""
        return int(self.hashes.size + self.held.rows.num_rows)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows each key has; 0 where it is gone."""
        return np.diff(self.ends, prepend=0)

    @property
    def names(self) -> pa.Array:
        """Its keys."""
        return flat(self.held.keys.column("key"))

    def find(self, hashes: NDArray[np.uint64], names: pa.Array) -> NDArray[np.int32]:
        """Where each of these keys stands here; -1 where it does not."""
        return find_keys(hashes, names, self.hashes, self.names)

    def take(self, places: NDArray[Any]) -> Held:
        """These keys, and their rows; `end` is where they end among those taken."""
        begins = np.where(places > 0, self.ends[places - 1], 0) if places.size else places.astype(np.int64)
        counts = self.ends[places] - begins
        ends = np.cumsum(counts)
        rows = np.repeat(begins - (ends - counts), counts) + np.arange(ends[-1] if ends.size else 0)
        keys = self.held.keys.take(pa.array(places))
        keys = keys.set_column(keys.column_names.index("end"), "end", pa.array(ends, pa.int64()))
        return Held(keys, self.held.rows.take(pa.array(rows)))


class LaneState:
    """One lane's state, as it was before an epoch."""

    def __init__(self, files: EpochFiles) -> None:
        self.files = files
        self.left = Left.read(files.notes)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments, oldest first."""
        names = [name for name, _ in self.left.segments]
        return [Segment.of(Held(*(self.files.read(name, part) for part in PARTS))) for name in names]

    def held(self, hashes: NDArray[np.uint64], names: pa.Array, move: Move, schema: pa.Schema) -> Held:
        """All that is held of these keys, and of those for which the watermark's move changes something."""
        parts = [Held.nothing(schema)]
        unseen = np.arange(hashes.size)
        newer: list[Segment] = []
        for segment in reversed(self.segments):
            found = segment.find(hashes[unseen], names.take(pa.array(unseen)))
            places = np.unique(np.concatenate([found[found >= 0], self._due(segment, newer, move)]))
            # A key that is gone is there without rows, so that nobody looks for it any further.
            parts.append(segment.take(places[segment.counts[places] > 0]))
            unseen = unseen[found < 0]
            newer.append(segment)
        return _joined(parts)

    def _due(self, segment: Segment, newer: list[Segment], move: Move) -> NDArray[np.int32]:
        """The keys of a segment that the watermark wakes, and that no newer segment has."""
        due = segment.wakes <= move.watermark_us if not move.flush else segment.wakes < AFTER_ALL_US
        places = np.flatnonzero(due & (segment.wakes > move.before_us)).astype(np.int32)
        return _unseen(segment, places, newer)

    def write(self, held: Held, left: Left) -> None:
        """Write what changed, merged with what is not much larger, and then that it is there."""
        changed, kept = Segment.of(held), list(self.left.segments)
        older = self.segments[:]
        while older and 2 * changed.size >= older[-1].size:
            changed = _merged(changed, older.pop(), oldest=not older)
            kept.pop()
        tables = {}
        if changed.hashes.size:
            tables = dict(zip(PARTS, changed.held, strict=True))
            kept.append((f"{self.files.epoch:06}", changed.size))
        live = [name for name, _ in (*kept, *self.left.segments)]
        self.files.write(tables, left._replace(segments=tuple(kept))._asdict(), live)


def _merged(newer: Segment, older: Segment, oldest: bool) -> Segment:
    """Both as one; a key that is gone is forgotten once nothing older can speak of it."""
    unseen = _unseen(older, np.arange(older.hashes.size, dtype=np.int32), [newer])
    both = Segment.of(_joined([newer.held, older.held]))
    places = np.concatenate([np.arange(newer.hashes.size), unseen + newer.hashes.size])
    if oldest:
        places = places[both.counts[places] > 0]
    return Segment.of(both.take(places[np.argsort(both.hashes[places], kind="stable")]))


def _unseen(segment: Segment, places: NDArray[np.int32], newer: list[Segment]) -> NDArray[np.int32]:
    """Those keys of the segment that no newer one has."""
    for other in newer:
        names = segment.names.take(pa.array(places))
        places = places[other.find(segment.hashes[places], names) < 0]
    return places


def _joined(parts: list[Held]) -> Held:
    """All parts as one, with their ends counted on. Rows from before a column that decides ties have null there."""
    rows = pa.concat_tables([part.rows for part in parts], promote_options="default")
    before = np.cumsum([0, *(part.rows.num_rows for part in parts)])
    keys = [_shifted(part.keys, int(shift)) for part, shift in zip(parts, before[:-1], strict=True)]
    return Held(pa.concat_tables(keys), rows)


def _shifted(keys: pa.Table, shift: int) -> pa.Table:
    return keys.set_column(keys.column_names.index("end"), "end", pc.add(keys.column("end"), shift))
