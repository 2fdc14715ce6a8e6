"""`batchline batch` on Spark: files through stage 1 into files, each row moved once.

    files ──► land ──► batch_frame ──► a task per part: its rows, written as they come ──► batched, rejected, batches
                                             └──► counts ──► summary

The rows of a key are in one part, so each task knows its batches whole.
"""

import json
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from batchline import errors
from batchline.columnar.assign import ADDED
from batchline.columnar.batches import counts_of
from batchline.columnar.columns import MOMENT, check_names, check_there, sizes_of
from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.watch import Watch, unwatched
from batchline.errors import BatchlineError, InvalidFile
from batchline.sinks.files import remove_file, write_table, write_text
from batchline.sources.files import files_of
from batchline.spark.batching import batch_frame
from batchline.spark.landing import ROW, from_spark, land, spark_name
from batchline.spark.progress import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Counts",
    "checked_columns",
    "names_for",
    "replace_directory",
    "run_batch",
    "translated",
    "write_parts",
]

#: What a column that is added to each row is.
KINDS: Final = {"batch_start": MOMENT, "batch_end": MOMENT, "closed_at": MOMENT}
OF_BATCH: Final = ("batch_id", "key", "batch_start", "batch_end", "closed_at", "close_reason")
RESULTS: Final = ("batched.parquet", "batches.parquet", "rejected.parquet")
#: Rows that are written at once: large enough for Parquet, small enough to be held.
ROWS_AT_ONCE: Final = 262_144
STAGING: Final = ".batchline-"
#: How an error of ours stands in what Spark says of a failed task.
RAISED: Final = re.compile(r"batchline\.errors\.(\w+): (.*)")


def run_batch(
    spark: "SparkSession",
    path: Path,
    names: Mapping[str, str],
    rules: BatchRules,
    order: Sequence[str],
    out: Path,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """The files of a path into batches, in a directory; the figures of the run."""
    files = files_of(path)
    with _staging(out) as staging:
        watch("reading", 0, 1)
        with watched(spark, watch, ["reading"]):
            landed = land(spark, files, names, staging)
        checked_columns(landed.columns, rules, order)
        with watched(spark, watch, ["batching", "writing"]):
            assigned = batch_frame(landed.frame, rules, names_for(landed.columns, order, (ROW,)))
            counts = write_parts(assigned, landed.columns, staging / "results", RESULTS)
        write_table(landed.malformed, staging / "results" / "malformed.jsonl")
        summary = counts.summary(landed.malformed.num_rows, rules)
        _publish(staging, out)
        write_text(json.dumps(summary, indent=2), out / "summary.json")
    return summary


def checked_columns(columns: pa.Schema, rules: BatchRules, order: Sequence[str]) -> None:
    """The columns are those that the rules need: what local mode refuses is refused, in the same words."""
    empty = columns.empty_table()
    check_there(empty, ("receive_time", *order))
    check_names(empty, ADDED)
    sizes_of(empty, rules.max_bytes)


def names_for(columns: pa.Schema, order: Sequence[str], last: Sequence[str]) -> Names:
    """What stage 1 is to look at, in rows that come from files."""
    by = tuple(spark_name(columns, name) for name in order)
    return Names(size="size" if "size" in columns.names else None, order=by, last=tuple(last))


class Counts(NamedTuple):
    """What rows add up to."""

    verdicts: Counter[str]
    closed: Counter[str]
    keys: int
    types: frozenset[str]

    def summary(self, malformed: int, rules: BatchRules) -> dict[str, Any]:
        """The figures as `flow.Batched.summary` gives them."""
        rejected = {name: count for name, count in ordered(self.verdicts).items() if name != "batched"}
        return {
            "read": self.verdicts.total() + malformed,
            "batched": self.verdicts["batched"],
            "rejected": rejected | ({"malformed": malformed} if malformed else {}),
            "batches": self.closed.total(),
            "closed": ordered(self.closed),
            "keys": self.keys,
            "types": len(self.types),
            "rules": rules.as_data(),
        }


def ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def write_parts(assigned: "DataFrame", columns: pa.Schema, directory: Path, names: Sequence[str]) -> Counts:
    """Write rows that know their fate into directories of parts, by these names: batched, batches, rejected.

    A directory that stays empty holds one empty part, so that its columns are known.
    """
    for name in names:
        (directory / name).mkdir(parents=True, exist_ok=True)
    task = _Write(columns, str(directory.absolute()), tuple(names))
    told = [json.loads(row.counts) for row in assigned.mapInArrow(task.__call__, "counts string").collect()]
    for name, schema in zip(names, task.schemas(), strict=True):
        if not _parts_of(directory / name):
            write_table(schema.empty_table(), directory / name / "part-00000.parquet")
    return Counts(
        sum((Counter(one["verdicts"]) for one in told), Counter()),
        sum((Counter(one["closed"]) for one in told), Counter()),
        sum(one["keys"] for one in told),
        frozenset(kind for one in told for kind in one["types"]),
    )


def _parts_of(directory: Path) -> int:
    """How many parts a directory has; what a task that was tried again has left half-written is removed."""
    parts = 0
    for file in directory.iterdir():
        if file.name.startswith("."):
            file.unlink()
        else:
            parts += 1
    return parts


class _Write(NamedTuple):
    """A task that writes its rows; sent to the workers."""

    columns: pa.Schema
    directory: str
    names: Sequence[str]

    def schemas(self) -> list[pa.Schema]:
        """The columns of batched, batches and rejected."""
        added = {name: pa.field(name, KINDS.get(name, pa.string())) for name in ADDED}
        batched = pa.schema([*self.columns, *added.values()])
        numbers = ["messages", "bytes"] if "size" in self.columns.names else ["messages"]
        batches = [*(batched.field(name) for name in OF_BATCH), *(pa.field(name, pa.int64()) for name in numbers)]
        return [batched, pa.schema(batches), pa.schema([*self.columns, added["verdict"]])]

    def __call__(self, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"part-{context.partitionId() if context else 0:05}.parquet"
        files = [_Part(Path(self.directory) / result / name, schema) for result, schema in self._results()]
        sums = _Sums("size" in self.columns.names)
        for part in parts:
            self._take(pa.Table.from_batches([part]), files, sums)
        batches = sums.batches(self.schemas()[1])
        files[1].add(batches)
        for file in files:
            file.close()
        yield pa.RecordBatch.from_pydict({"counts": [json.dumps(sums.as_data(batches))]})

    def _results(self) -> Iterator[tuple[str, pa.Schema]]:
        return zip(self.names, self.schemas(), strict=True)

    def _take(self, rows: pa.Table, files: "Sequence[_Part]", sums: "_Sums") -> None:
        rows = self._answered(rows)
        accepted = pc.equal(rows.column("verdict"), "batched")
        batched, rejected = rows.filter(accepted), rows.filter(pc.invert(accepted))
        sums.add(rows, batched)
        files[0].add(batched)
        files[2].add(rejected.drop_columns([name for name in ADDED if name != "verdict"]))

    def _answered(self, rows: pa.Table) -> pa.Table:
        added = [rows[name].cast(KINDS.get(name, pa.string())) for name in ADDED]
        return pa.table([*from_spark(rows, self.columns).columns, *added], schema=self.schemas()[0])


class _Part:
    """A Parquet file, written piece by piece: it has its name once it is whole, and without rows there is none."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        # Of the attempt: one that was given up may still write.
        self.partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self.held: list[pa.Table] = []
        self.writer: pa_parquet.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Take rows in; they are written when there are enough of them."""
        if table.num_rows:
            self.held.append(table)
        if sum(len(held) for held in self.held) >= ROWS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        if self.held:
            self.writer = self.writer or pa_parquet.ParquetWriter(self.partial, self.schema)
            self.writer.write_table(pa.concat_tables(self.held))
            self.held.clear()

    def close(self) -> None:
        """Write what is left, and give the file its name once it is on disk."""
        self._write()
        if self.writer is None:
            return
        self.writer.close()
        with self.partial.open("rb") as file:
            os.fsync(file.fileno())
        self.partial.replace(self.path)


class _Sums:
    """What the rows of a part add up to, taken in piece by piece."""

    def __init__(self, sized: bool) -> None:
        self.sums = {"type_count": "messages"} | ({"size_sum": "bytes"} if sized else {})
        self.verdicts: Counter[str] = Counter()
        self.types: set[str] = set()
        self.keys: list[Any] = []
        self.pieces: list[pa.Table] = []

    def add(self, rows: pa.Table, batched: pa.Table) -> None:
        """Take rows in, and those of them that are in a batch."""
        self.verdicts.update(counts_of(rows.column("verdict")))
        self.types.update(pc.unique(rows.column("type")).to_pylist())
        self.keys.append(pc.unique(rows.column("key")))
        wanted = [tuple(name.split("_")) for name in self.sums]
        self.pieces.append(batched.group_by(list(OF_BATCH)).aggregate(wanted))

    def batches(self, schema: pa.Schema) -> pa.Table:
        """A row per batch, in order of start and key."""
        if not self.pieces:
            return schema.empty_table()
        grouped = pa.concat_tables(self.pieces).group_by(list(OF_BATCH))
        batches = grouped.aggregate([(name, "sum") for name in self.sums])
        batches = batches.rename_columns([*OF_BATCH, *self.sums.values()]).cast(schema)
        return batches.sort_by([("batch_start", "ascending"), ("key", "ascending"), ("batch_id", "ascending")])

    def as_data(self, batches: pa.Table) -> dict[str, Any]:
        """The counts, for the driver."""
        keys = pc.count_distinct(pa.chunked_array(self.keys, pa.string())).as_py()
        closed = counts_of(batches.column("close_reason"))
        return {"verdicts": self.verdicts, "closed": closed, "keys": keys, "types": sorted(self.types)}


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A hidden directory among the results, gone at the end; a killed run may have left one."""
    there = out.exists()
    staging = out / f"{STAGING}{secrets.token_hex(4)}"
    with translated(), _on_disk(out):
        for left in out.glob(f"{STAGING}*") if there else []:
            shutil.rmtree(left)
        staging.mkdir(parents=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if not there:
                # Nothing is left behind by what was refused.
                with suppress(OSError):
                    out.rmdir()


@contextmanager
def _on_disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidFile(f"{out} cannot be written: {error}") from error


def _publish(staging: Path, out: Path) -> None:
    """Give every result its name; an earlier one is moved out of the way first, and removed with what was staged."""
    remove_file(out / "summary.json")
    for name in (*RESULTS, "malformed.jsonl"):
        replace_directory(staging / "results" / name, out / name, staging / name)


def replace_directory(made: Path, path: Path, aside: Path) -> None:
    """Put what was made in the place of what is there: a directory cannot be renamed over another one."""
    if path.exists():
        path.rename(aside)
    made.rename(path)


@contextmanager
def translated() -> Iterator[None]:
    """What Spark raises, as our own error: the one that a task of ours raised, or Spark's in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _ours(str(error)) from error


def _ours(text: str) -> BatchlineError:
    raised = RAISED.search(text)
    kind = getattr(errors, raised[1], None) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, BatchlineError):
        return kind(raised[2])
    return BatchlineError(f"Spark gave up: {text.strip().partition(chr(10))[0]}")
