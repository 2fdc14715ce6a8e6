"""What a lane of a stream holds between two epochs, as Arrow files beside the checkpoint.

    lane-0003/
      000011.json                          what epoch 11 left: its segments, watermark and counts
      000007.keys.arrow  000007.rows.arrow   a segment: keys that changed in epoch 7, and their rows
      000011.keys.arrow  000011.rows.arrow   the newest that has a key is right about it

An epoch reads what an earlier one left, never its own: replayed, it reads the same and writes the same. It writes
only the keys that changed; a segment that has become large beside the one before it is merged with it, so that the
cost follows the rows and not the state. The json is written last: where it is, its segments are.
"""

import json
import secrets
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import fs, ipc

from batchline.columnar.hashing import find_keys
from batchline.columnar.stream import Held, Move
from batchline.errors import InvalidCheckpoint

__all__ = ["Directory", "LaneState", "Left"]

NEVER_US: Final = -(2**63)


class Directory:
    """A directory on any file system that a checkpoint can be on; a file in it is there whole or not at all."""

    def __init__(self, uri: str) -> None:
        #: Where it is, in whichever process.
        self.uri = uri if "://" in uri else str(Path(uri).absolute())
        try:
            self.files, self.path = fs.FileSystem.from_uri(self.uri)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InvalidCheckpoint(f"state cannot be kept in {uri}: {error}") from error
        if isinstance(self.files, fs.LocalFileSystem):
            # Mapped, so that only the pages of the keys at hand are read.
            self.files = fs.LocalFileSystem(use_mmap=True)

    def names(self, below: str) -> list[str]:
        """The names of the files in a directory below this one."""
        found = self.files.get_file_info(fs.FileSelector(f"{self.path}/{below}", allow_not_found=True))
        return [info.base_name for info in found]

    def read_text(self, name: str) -> str | None:
        """A text, or None if there is no such file."""
        try:
            with self.files.open_input_file(f"{self.path}/{name}") as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None

    def read_table(self, name: str) -> pa.Table:
        """A table; its columns are read as they are used."""
        return ipc.open_file(self.files.open_input_file(f"{self.path}/{name}")).read_all()

    def write_text(self, name: str, text: str) -> None:
        """Write a text."""
        partial = self._partial(name)
        with self.files.open_output_stream(partial) as file:
            file.write(text.encode())
        self.files.move(partial, f"{self.path}/{name}")

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table."""
        partial = self._partial(name)
        with self.files.open_output_stream(partial) as file, ipc.new_file(file, table.schema) as writer:
            # In one piece, so that a row is found by its place.
            writer.write_table(table.combine_chunks())
        self.files.move(partial, f"{self.path}/{name}")

    def delete(self, name: str) -> None:
        """Delete a file that another process may have deleted already."""
        try:
            self.files.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return

    def _partial(self, name: str) -> str:
        lane, _, base = name.rpartition("/")
        self.files.create_dir(f"{self.path}/{lane}", recursive=True)
        return f"{self.path}/{lane}/.{base}.{secrets.token_hex(4)}"


class Left(NamedTuple):
    """What an epoch left of a lane."""

    epoch: int = -1
    #: The segments, oldest first, and how large each is: its keys and rows.
    segments: tuple[tuple[str, int], ...] = ()
    watermark_us: int = NEVER_US
    #: The largest receive time that came.
    highest_us: int = NEVER_US
    #: How many rows came, what became of them, and what came behind the watermark, since the stream began.
    counts: dict[str, int] = {}  # noqa: RUF012 (never changed in place)
    #: The query that the state belongs to; None where the checkpoint says so itself.
    query: str | None = None

    def text(self) -> str:
        """As written."""
        return json.dumps(self._asdict(), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "Left":
        """As read."""
        data = json.loads(text)
        return cls(**data | {"segments": tuple((name, size) for name, size in data["segments"])})


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
        hashes, ends, wakes = (_flat(keys.column(name)).to_numpy() for name in ("hash", "end", "wake"))
        return cls(Held(keys, held.rows), hashes, ends, wakes)

    @property
    def size(self) -> int:
        """Its keys and rows."""
        return int(self.hashes.size + self.held.rows.num_rows)

    @property
    def names(self) -> pa.Array:
        """Its keys."""
        return _flat(self.held.keys.column("key"))

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

    def __init__(self, directory: Directory, lane: int, epoch: int, query: str | None = None) -> None:
        self.directory, self.lane, self.epoch, self.query = directory, f"lane-{lane:04}", epoch, query
        self.files = directory.names(self.lane)
        self.left = self._before()

    def _before(self) -> Left:
        epochs = [int(name[:-5]) for name in self.files if name.endswith(".json") and not name.startswith(".")]
        before = max((epoch for epoch in epochs if epoch < self.epoch), default=None)
        text = None if before is None else self.directory.read_text(f"{self.lane}/{before:06}.json")
        left = Left() if text is None else Left.read(text)
        if epochs and left.query != self.query and before is not None:
            raise InvalidCheckpoint(
                f"the state in {self.directory.path} belongs to the query {left.query}, not to {self.query}; "
                "a new checkpoint needs a new directory for its state"
            )
        return left

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments, oldest first."""
        return [self._segment(name) for name, _ in self.left.segments]

    def _segment(self, name: str) -> Segment:
        tables = (self.directory.read_table(f"{self.lane}/{name}.{part}.arrow") for part in ("keys", "rows"))
        return Segment.of(Held(*tables))

    def held(self, hashes: NDArray[np.uint64], names: pa.Array, move: Move, schema: pa.Schema) -> Held:
        """All that is held of these keys, and of those for which the watermark's move changes something."""
        parts = [Held.nothing(schema)]
        unseen = np.arange(hashes.size)
        newer: list[Segment] = []
        for segment in reversed(self.segments):
            found = segment.find(hashes[unseen], names.take(pa.array(unseen)))
            places = [found[found >= 0], self._due(segment, newer, move)]
            parts.append(segment.take(np.unique(np.concatenate(places))))
            unseen = unseen[found < 0]
            newer.append(segment)
        return _joined(parts)

    def _due(self, segment: Segment, newer: list[Segment], move: Move) -> NDArray[np.int32]:
        """The keys of a segment that the watermark wakes, and that no newer segment has."""
        due = segment.wakes <= move.watermark_us if not move.flush else segment.wakes < 2**63 - 1
        places = np.flatnonzero(due & (segment.wakes > move.before_us)).astype(np.int32)
        return _unseen(segment, places, newer)

    def write(self, held: Held, left: Left) -> Left:
        """Write what changed, merged with what is not much larger, and then that it is there; as it was written."""
        changed, kept = Segment.of(held), list(self.left.segments)
        older = self.segments[:]
        while older and 2 * changed.size >= older[-1].size:
            changed = _merged(changed, older.pop(), oldest=not older)
            kept.pop()
        if changed.hashes.size:
            name = f"{self.epoch:06}"
            for part, table in zip(("keys", "rows"), changed.held, strict=True):
                self.directory.write_table(f"{self.lane}/{name}.{part}.arrow", table)
            kept.append((name, changed.size))
        left = left._replace(epoch=self.epoch, segments=tuple(kept), query=self.query)
        self.directory.write_text(f"{self.lane}/{self.epoch:06}.json", left.text())
        self._clean(left)
        return left

    def _clean(self, left: Left) -> None:
        """Delete what neither this epoch nor the one before it needs; never what a later one has written."""
        live = {name for name, _ in left.segments + self.left.segments}
        live |= {f"{self.left.epoch:06}", f"{self.epoch:06}"}
        for name in self.files:
            of = name.partition(".")[0]
            if of.isdigit() and int(of) < self.epoch and (of not in live):
                self.directory.delete(f"{self.lane}/{name}")


def _merged(newer: Segment, older: Segment, oldest: bool) -> Segment:
    """Both as one; a key that is gone is forgotten once nothing older can speak of it."""
    places = np.arange(older.hashes.size, dtype=np.int32)
    parts = [Segment.of(older.take(_unseen(older, places, [newer])))]
    joined = Segment.of(_joined([newer.held, parts[0].held]))
    order = np.argsort(joined.hashes, kind="stable")
    if oldest:
        counts = np.diff(joined.ends, prepend=0)
        order = order[counts[order] > 0]
    return Segment.of(joined.take(order))


def _unseen(segment: Segment, places: NDArray[np.int32], newer: list[Segment]) -> NDArray[np.int32]:
    """Those keys of the segment that no newer one has."""
    for other in newer:
        names = segment.names.take(pa.array(places))
        places = places[other.find(segment.hashes[places], names) < 0]
    return places


def _joined(parts: list[Held]) -> Held:
    """All parts as one, with their ends counted on."""
    rows = pa.concat_tables([part.rows for part in parts], promote_options="none")
    before = np.cumsum([0, *(part.rows.num_rows for part in parts)])
    keys = [_shifted(part.keys, int(shift)) for part, shift in zip(parts, before[:-1], strict=True)]
    return Held(pa.concat_tables(keys), rows)


def _shifted(keys: pa.Table, shift: int) -> pa.Table:
    return keys.set_column(keys.column_names.index("end"), "end", pc.add(keys.column("end"), shift))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
