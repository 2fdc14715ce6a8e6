"""What a pipeline has left in a directory: batches, their members and what was rejected, read back key by key.

DIR/batches.parquet, …             of `batchline batch`
DIR/<run>/batches.parquet, …       of files as one batch; the demo's are one level deeper
DIR/batches/epoch=7/…              of a stream, which keeps the members of the last epochs only
"""

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
#: How deep below the directory results are looked for.
DEPTH: Final = 2
#: Rows that are looked at for keys, and rows of one key that are read, at most.
MOST_ROWS: Final = 5_000_000
MOST_OF_A_KEY: Final = 200_000


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """A key, and how much there is of it."""

    key: str
    batches: int
    rejected: int


@dataclass(frozen=True, slots=True)
class KeyRows:
    """What there is of one key: rows of batches in order of start, of members, and of what was rejected."""

    batches: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    #: Whether all of it was read.
    whole: bool


class Results:
    """The newest results below a directory; files may come and go while they are read."""

    def __init__(self, directory: Path):
        """Nothing is read yet, nor need be there."""
        self.directory = directory

    def keys(self, like: str, limit: int) -> list[KeyCounts]:
        """Keys with a text in them: those with most that was rejected first, and those without a batch last."""
        batches, rejected = (self._counted(name, like) for name in (BATCHES, REJECTED))
        found = [KeyCounts(key, batches[key], rejected[key]) for key in {**batches, **rejected}]
        return sorted(found, key=lambda one: (not one.batches, -one.rejected, -one.batches, one.key))[:limit]

    def of(self, key: str) -> KeyRows:
        """All batches of a key, and all that was rejected of it, with times in microseconds."""
        batches = self._rows(BATCHES, BATCH_COLUMNS, key)
        rejected = self._rows(REJECTED, REJECTED_COLUMNS, key)
        batches.sort(key=lambda row: (row["batch_start"], len(row["batch_id"]), row["batch_id"]))
        rejected.sort(key=lambda row: row["receive_time"])
        return KeyRows(batches, rejected, len(batches) < MOST_OF_A_KEY and len(rejected) < MOST_OF_A_KEY)

    def members(self, key: str, batches: Iterable[str]) -> list[dict[str, Any]]:
        """The measurements in some batches of a key, in order of event time; a stream has forgotten most of them."""
        among = pc.field("batch_id").isin(list(batches))
        rows = self._rows(BATCHED, MEMBER_COLUMNS, key, among)
        return sorted(rows, key=lambda row: (row["event_time"], row["type"]))

    # --- files ---

    def _root(self) -> Path | None:
        """The directory with the newest results."""
        roots = [root for root in _below(self.directory, DEPTH) if _table(root, BATCHES) or _table(root, BATCHED)]
        return max(roots, key=lambda root: root.stat().st_mtime_ns, default=None)

    def _dataset(self, name: str) -> ds.Dataset | None:
        root = self._root()
        path = root and _table(root, name)
        if path is None:
            return None
        found = ds.dataset(str(path), format="parquet", exclude_invalid_files=False)
        return found if found.schema.names else None

    def _rows(self, name: str, columns: tuple[str, ...], key: str, more: Any = None) -> list[dict[str, Any]]:
        wanted = pc.field("key") == key
        for attempt in (1, 2):
            try:
                dataset = self._dataset(name)
                if dataset is None:
                    return []
                scanner = dataset.scanner(list(columns), filter=wanted if more is None else wanted & more)
                return _plain(scanner.head(MOST_OF_A_KEY))
            except FileNotFoundError:
                # An epoch was forgotten between the look and the read.
                if attempt == 2:
                    return []
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(name) from error
        return []

    def _counted(self, name: str, like: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        try:
            for keys in self._keys(name):
                found = keys.filter(pc.match_substring(keys, like, ignore_case=True)) if like else keys
                for row in pc.value_counts(found).to_pylist():
                    counts[row["values"]] += row["counts"]
        except FileNotFoundError:
            return counts
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(name) from error
        return counts

    def _keys(self, name: str) -> Iterator[Any]:
        dataset, seen = self._dataset(name), 0
        if dataset is None:
            return
        for batch in dataset.scanner(["key"]).to_batches():
            yield batch.column(0).cast(pa.string())
            seen += batch.num_rows
            if seen >= MOST_ROWS:
                return


def _unreadable(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"the table {name} of the pipeline cannot be read now")


def _below(directory: Path, depth: int) -> Iterator[Path]:
    yield directory
    if depth and directory.is_dir():
        for found in directory.iterdir():
            if found.is_dir() and found.name[0] not in "._" and "=" not in found.name:
                yield from _below(found, depth - 1)


def _table(root: Path, name: str) -> Path | None:
    """A table of results: a file, a directory of parts, or a directory of epochs."""
    return next((path for path in (root / f"{name}.parquet", root / name) if path.exists()), None)


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times in microseconds and words as texts."""
    for place, one in enumerate(table.schema):
        if pa.types.is_timestamp(one.type):
            table = table.set_column(place, one.name, table.column(place).cast(MOMENT).cast(pa.int64()))
        elif pa.types.is_dictionary(one.type):
            table = table.set_column(place, one.name, table.column(place).cast(pa.string()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
