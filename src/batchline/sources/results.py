"""What a pipeline has left in a directory: batches, their members and what was rejected, read back key by key.

    DIR/batches.parquet, …             of `batchline batch`
    DIR/<run>/batches.parquet, …       of files as one batch; the demo's are one level deeper
    DIR/batches/epoch=7/…              of a stream, which keeps the members of the last epochs only

A page that is open asks every two seconds: a file that has not changed is not read again.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from batchline.columnar.columns import MOMENT
from batchline.errors import StoreUnavailable

__all__ = ["KeyCounts", "KeyRows", "Results"]

BATCHES, BATCHED, REJECTED = "batches", "batched", "rejected"
BATCH_COLUMNS: Final = ("batch_id", "batch_start", "batch_end", "closed_at", "close_reason", "messages")
MEMBER_COLUMNS: Final = ("batch_id", "type", "event_time", "receive_time")
REJECTED_COLUMNS: Final = ("type", "event_time", "receive_time", "verdict")
EPOCH: Final = re.compile(r"epoch=(\d+)")
#: How deep below the directory results are looked for, and how many epochs of a stream are looked at.
DEPTH: Final = 2
MOST_EPOCHS: Final = 300
#: Rows of a file that are looked at for keys, and rows of one key that are read, at most.
MOST_ROWS: Final = 5_000_000
MOST_OF_A_KEY: Final = 200_000
#: Answers that are remembered.
REMEMBERED: Final = 64

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """A key, and how much there is of it."""

    key: str
    batches: int
    rejected: int


@dataclass(frozen=True, slots=True)
class KeyRows:
    """What there is of one key: rows of batches in order of start, and of what was rejected in order of receipt."""

    batches: Rows
    rejected: Rows


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is now; written anew, it is another."""

    path: str
    changed_ns: int
    size: int


class Results:
    """The newest results below a directory; files may come and go while they are read. Threads may share it."""

    def __init__(self, directory: Path):
        """Nothing is read yet, nor need be there."""
        self.directory = directory
        self._lock = threading.Lock()
        self._counts: dict[str, dict[File, Counter[str]]] = {}
        self._rows: dict[Any, Rows] = {}

    def keys(self, like: str, limit: int) -> list[KeyCounts]:
        """Keys with a text in them: those with most that was rejected first, and those without a batch last."""
        batches, rejected = (sum(self._counted(name).values(), Counter[str]()) for name in (BATCHES, REJECTED))
        wanted = [key for key in {**batches, **rejected} if like.lower() in key.lower()]
        found = [KeyCounts(key, batches[key], rejected[key]) for key in wanted]
        return sorted(found, key=lambda one: (not one.batches, -one.rejected, -one.batches, one.key))[:limit]

    def of(self, key: str) -> KeyRows:
        """All batches of a key, and all that was rejected of it, with times in microseconds."""
        batches, rejected = (
            self._read(name, [file for file, keys in self._counted(name).items() if key in keys], columns, key)
            for name, columns in ((BATCHES, BATCH_COLUMNS), (REJECTED, REJECTED_COLUMNS))
        )
        return KeyRows(
            sorted(batches, key=lambda row: (row["batch_start"], len(row["batch_id"]), row["batch_id"])),
            sorted(rejected, key=lambda row: row["receive_time"]),
        )

    def members(self, key: str, batches: Iterable[str]) -> Rows:
        """The measurements in some batches of a key, in order of event time; a stream has forgotten most of them."""
        rows = self._read(BATCHED, self._files(BATCHED), MEMBER_COLUMNS, key, tuple(batches))
        return sorted(rows, key=lambda row: (row["event_time"], row["type"]))

    # --- files ---

    def _files(self, name: str) -> list[File]:
        """The files of a table, of the newest results that there are."""
        roots = [root for root in _below(self.directory, DEPTH) if _table(root, BATCHES) or _table(root, BATCHED)]
        newest = max(roots, key=lambda root: root.stat().st_mtime_ns, default=None)
        return [] if newest is None else list(_seen(_table(newest, name)))

    def _counted(self, name: str) -> dict[File, Counter[str]]:
        """How often keys occur, file by file."""
        with self._lock:
            known = self._counts.get(name, {})
            self._counts[name] = {
                file: known[file] if file in known else _keys_in(name, file) for file in self._files(name)
            }
            return self._counts[name]

    def _read(
        self, name: str, files: list[File], columns: tuple[str, ...], key: str, batches: tuple[str, ...] | None = None
    ) -> Rows:
        asked = (name, tuple(files), key, batches)
        found = self._rows.get(asked)
        if found is None:
            wanted = pc.field("key") == key
            found = _rows_in(name, files, columns, wanted if batches is None else wanted & _one_of(batches))
            self._remember(asked, found)
        return found

    def _remember(self, asked: Any, found: Rows) -> None:
        with self._lock:
            self._rows[asked] = found
            for old in list(self._rows)[:-REMEMBERED]:
                del self._rows[old]


def _one_of(batches: tuple[str, ...]) -> Any:
    return pc.field("batch_id").isin(list(batches))


def _below(directory: Path, depth: int) -> Iterator[Path]:
    yield directory
    if depth and directory.is_dir():
        for found in directory.iterdir():
            if found.is_dir() and found.name[0] not in "._" and not EPOCH.fullmatch(found.name):
                yield from _below(found, depth - 1)


def _table(root: Path, name: str) -> Path | None:
    """A table of results: a file, a directory of parts, or a directory of epochs."""
    return next((path for path in (root / f"{name}.parquet", root / name) if path.exists()), None)


def _seen(table: Path | None) -> Iterator[File]:
    """The files of a table that are there now; of a stream, those of its last epochs."""
    if table is None:
        return
    if table.is_file():
        parts = [table]
    else:
        epochs = {int(found[1]): path for path in table.iterdir() if (found := EPOCH.fullmatch(path.name))}
        places = [epochs[number] for number in sorted(epochs)[-MOST_EPOCHS:]] or [table]
        parts = [file for place in places for file in sorted(place.glob("[!._]*.parquet"))]
    for file in parts:
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue  # it was forgotten meanwhile
        yield File(str(file), stat.st_mtime_ns, stat.st_size)


# --- rows ---


def _keys_in(name: str, file: File) -> Counter[str]:
    counts: Counter[str] = Counter()
    seen = 0
    try:
        for batch in ds.dataset(file.path, format="parquet").scanner(["key"]).to_batches():
            for row in pc.value_counts(batch.column(0).cast(pa.string())).to_pylist():
                counts[row["values"]] += row["counts"]
            seen += batch.num_rows
            if seen >= MOST_ROWS:
                break
    except FileNotFoundError:
        return counts
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name) from error
    return counts


def _rows_in(name: str, files: list[File], columns: tuple[str, ...], wanted: Any) -> Rows:
    """Rows of some files; of those that are still there."""
    paths = [file.path for file in files if Path(file.path).exists()]
    if not paths:
        return []
    try:
        scanner = ds.dataset(paths, format="parquet").scanner(list(columns), filter=wanted)
        return _plain(scanner.head(MOST_OF_A_KEY))
    except FileNotFoundError:
        return []  # forgotten between the look and the read: the next look knows
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name) from error


def _unreadable(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"the table {name} of the pipeline cannot be read now")


def _plain(table: pa.Table) -> Rows:
    """Rows with times in microseconds and words as texts."""
    for place, one in enumerate(table.schema):
        if pa.types.is_timestamp(one.type):
            table = table.set_column(place, one.name, table.column(place).cast(MOMENT).cast(pa.int64()))
        elif pa.types.is_dictionary(one.type):
            table = table.set_column(place, one.name, table.column(place).cast(pa.string()))
    rows: Rows = table.to_pylist()
    return rows
