"""Files into Spark: each is read by our own reader, so that a malformed line is the same wherever it is read.

files ──► a task each ──► Parquet in a staging directory ──► all of the same columns ──► a DataFrame
              ├──► malformed lines, beside it                          ▲
              └──► what columns it has ──► joined as one reader would ─┘
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from batchline import errors
from batchline.columnar.columns import MOMENT
from batchline.errors import BatchlineError, InvalidFile
from batchline.sinks.files import write_table
from batchline.sources.files import FORMATS, MALFORMED, read_measurements
from batchline.sources.files.joining import join
from batchline.sources.files.room import check_room, free_bytes
from batchline.spark.lanes import epoch_of_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FILE",
    "ROW",
    "Landed",
    "as_spark_reads",
    "from_spark",
    "land",
    "look_at",
    "new_files",
    "spark_name",
    "to_spark",
]

#: Where a row stood: in batch mode the number of its file and of the row in it, in a stream the latter only.
ROW: Final = "batchline_row"
#: In a stream, whose files have no numbers, the name of its file: in batch mode their numbers are in that order.
FILE: Final = "batchline_file"
#: In a staged file, the columns of the file as they were read.
OWN: Final = b"batchline_columns"
#: The columns of ours, which Spark knows by their own names.
OURS: Final = ("key", "type", "event_time", "receive_time", "size")
ROWS_OF_A_FILE: Final = 2**40
#: More files than this share tasks.
MOST_TASKS: Final = 200
#: Spark forgets files so old, and takes none that are older: a file that was moved here may be of any age.
NEVER: Final = "36500d"
#: What Spark's source of whole files gives.
BINARY_FILE: Final = "path string, modificationTime timestamp, length long, content binary"
ABOUT_FILES: Final = "number long, malformed long, columns binary, error string, message string"


class Landed(NamedTuple):
    """Files that Spark can read."""

    frame: "DataFrame"
    #: Their columns as our reader gives them; Spark has some of them in other types.
    columns: pa.Schema
    malformed: pa.Table


class _Stage(NamedTuple):
    """A task that reads files, says what columns they have and, given a directory, leaves their rows in it."""

    names: Mapping[str, str]
    staging: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist([self._answer(**row)], ANSWER)

    def _answer(self, number: int, path: str, shown: str) -> dict[str, Any]:
        """What became of a file. An error is an answer too: raised here, Spark would tell of it in its own words."""
        try:
            return self._stage(number, path, shown)
        except BatchlineError as error:
            return {"number": number, "error": type(error).__name__, "message": str(error).replace(path, shown)}

    def _stage(self, number: int, path: str, shown: str) -> dict[str, Any]:
        check_room([Path(path)], 1.0, free_bytes())
        reading = read_measurements([Path(path)], self.names)
        if self.staging is not None:
            _write(reading.table, _rows(self.staging, number), number)
            write_table(_said_of(reading.malformed, shown), _malformed(self.staging, number))
        columns = reading.table.schema.remove_metadata().serialize().to_pybytes()
        return {"number": number, "malformed": reading.malformed.num_rows, "columns": columns}


class _Fit(NamedTuple):
    """A task that gives staged files the columns that all have together, in types that Spark knows."""

    columns: pa.Schema
    staging: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist([self._answer(row["number"], row["shown"])], ANSWER)

    def _answer(self, number: int, shown: str) -> dict[str, Any]:
        path = _rows(self.staging, number)
        try:
            staged = pa_parquet.ParquetFile(path).read()
            own = pa.ipc.read_schema(pa.py_buffer(staged.schema.metadata[OWN]))
            table = from_spark(staged, own)
            _write(join([(Path(), self.columns.empty_table()), (Path(shown), table)]), path, number)
        except BatchlineError as error:
            return {"number": number, "error": type(error).__name__, "message": str(error)}
        return {"number": number}


ANSWER: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("malformed", pa.int64()),
        ("columns", pa.binary()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


def _rows(staging: str, number: int) -> Path:
    return Path(staging) / "rows" / f"{number:06}.parquet"


def _malformed(staging: str, number: int) -> Path:
    return Path(staging) / "malformed" / f"{number:06}.parquet"


def _write(table: pa.Table, path: Path, number: int) -> None:
    rows = np.arange(len(table), dtype=np.int64) + number * ROWS_OF_A_FILE
    own = {OWN: table.schema.remove_metadata().serialize().to_pybytes()}
    write_table(to_spark(table).append_column(ROW, pa.array(rows)).replace_schema_metadata(own), path)


def _said_of(malformed: pa.Table, shown: str) -> pa.Table:
    """The malformed lines under the name that the user gave the file."""
    return malformed.set_column(0, MALFORMED.field(0), pa.array([shown] * len(malformed), pa.string()))


def land(spark: "SparkSession", files: Sequence[Path], names: Mapping[str, str], staging: Path) -> Landed:
    """Read files into a staging directory that all of Spark can reach; what is wrong with one is raised by its name."""
    for below in ("rows", "malformed"):
        (staging / below).mkdir(parents=True)
    made = _columns_by_file(_ask(_listed(spark, files), _Stage(dict(names), str(staging.absolute()))))
    columns = _joined(files, made)
    unlike = [number for number, own in made.items() if carried_schema(own) != carried_schema(columns)]
    if unlike:
        _ask(_listed(spark, files, unlike), _Fit(columns, str(staging.absolute())))
    malformed = [pa_parquet.ParquetFile(_malformed(str(staging), number)).read() for number in range(len(files))]
    rows = carried_schema(columns).append(pa.field(ROW, pa.int64()))
    frame = spark.read.schema(_spark_schema(rows)).parquet(as_spark_reads(staging / "rows"))
    return Landed(frame, columns, pa.concat_tables(malformed))


def look_at(spark: "SparkSession", files: Sequence[Path], names: Mapping[str, str]) -> pa.Schema:
    """The columns that files have together, as our reader gives them."""
    return _joined(files, _columns_by_file(_ask(_listed(spark, files), _Stage(dict(names), None))))


def _listed(spark: "SparkSession", files: Sequence[Path], numbers: Sequence[int] | None = None) -> "DataFrame":
    """A row per file, spread over tasks."""
    from pyspark.sql import functions as sf

    places = range(len(files)) if numbers is None else numbers
    rows = [(place, str(files[place].absolute()), str(files[place])) for place in places]
    tasks = min(len(rows), MOST_TASKS)
    listed = spark.createDataFrame(rows, "number long, path string, shown string").coalesce(1)
    return listed.repartitionById(tasks, (sf.col("number") % tasks).cast("int"))


def _ask(listed: "DataFrame", task: _Stage | _Fit) -> list[Any]:
    answers = sorted(listed.mapInArrow(task.__call__, ABOUT_FILES).collect(), key=lambda answer: answer.number)
    for answer in answers:
        if answer.error is not None:
            raise getattr(errors, answer.error)(answer.message)
    return answers


def _columns_by_file(answers: Sequence[Any]) -> dict[int, pa.Schema]:
    return {answer.number: pa.ipc.read_schema(pa.py_buffer(answer.columns)) for answer in answers}


def _joined(files: Sequence[Path], made: Mapping[int, pa.Schema]) -> pa.Schema:
    """The columns of all files, as `read_measurements` joins them."""
    table = join([(files[number], columns.empty_table()) for number, columns in made.items()])
    first = [name for name in OURS if name in table.column_names]
    return table.select([*first, *(name for name in table.column_names if name not in OURS)]).schema


def new_files(
    spark: "SparkSession", directory: Path, names: Mapping[str, str], columns: pa.Schema, malformed: Path
) -> "DataFrame":
    """The rows of a directory's files as a stream, of these columns; malformed lines go to their directory by epoch."""
    # Spark lists the files and remembers which it has seen; as only their paths are asked for, it opens none.
    files = spark.readStream.format("binaryFile").schema(BINARY_FILE).option("maxFileAge", NEVER)
    paths = files.load(as_spark_reads(directory)).select("path")
    rows = carried_schema(columns).append(pa.field(FILE, pa.string())).append(pa.field(ROW, pa.int64()))
    task = _Follow(dict(names), columns, str(directory.resolve()), str(malformed.absolute()))
    # All mentions of a path in one task: see `_Follow`.
    spread = paths.repartition(spark.sparkContext.defaultParallelism, "path")
    return spread.mapInArrow(task.__call__, _spark_schema(rows))


def as_spark_reads(directory: Path) -> str:
    """A local directory; Spark decodes no %20, but sees patterns in brackets."""
    return "file://" + PATTERNS.sub(r"\\\g<0>", str(directory.resolve()))


PATTERNS: Final = re.compile(r"[\\{}\[\]*?]")
SCHEME: Final = re.compile(r"^file:/+")


class _Follow(NamedTuple):
    """A task that reads the new files of a stream."""

    names: Mapping[str, str]
    columns: pa.Schema
    directory: str
    malformed: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Where one path has brackets or a star in it, Spark 4.3 names every file of the micro-batch several times.
        uris = sorted({uri for batch in batches for uri in batch.column("path").to_pylist()})
        for path in (Path(SCHEME.sub("/", uri)) for uri in uris):
            if path.parent == Path(self.directory) and path.suffix.lower() in FORMATS:
                yield from self._read(path).to_batches(max_chunksize=65_536)

    def _read(self, path: Path) -> pa.Table:
        reading = read_measurements([path], self.names)
        if reading.malformed.num_rows:
            epoch, _ = epoch_of_task()
            # Of the file, not of the task: an epoch that is replayed writes it once more.
            write_table(reading.malformed, Path(self.malformed) / f"epoch={epoch}" / f"{path.name}.jsonl")
        table = to_spark(fitted(path, reading.table, self.columns))
        table = table.append_column(FILE, pa.array([path.name] * len(table), pa.string()))
        return table.append_column(ROW, pa.array(np.arange(len(table), dtype=np.int64)))


def fitted(path: Path, table: pa.Table, columns: pa.Schema) -> pa.Table:
    """The rows of a later file with the columns of the first ones; what is not among these is refused by name."""
    began = "when following began"
    other = [name for name in table.column_names if name not in columns.names]
    if other:
        raise InvalidFile(f"{path} has a column {', '.join(other)}, which no file had {began}")
    joined = join([(Path(), columns.empty_table()), (path, table)])
    for now, then in zip(joined.schema, columns, strict=True):
        if now.type != then.type:
            kind = table.schema.field(now.name).type
            raise InvalidFile(f"{path}: column {now.name} holds {kind}, where it held {then.type} {began}")
    return joined


def _spark_schema(columns: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns)


def spark_name(columns: pa.Schema, name: str) -> str:
    """What a column is called in Spark, where points and backticks in a name mean something, and case nothing."""
    return name if name in OURS else f"c{columns.names.index(name)}_{PUNCTUATION.sub('_', name)}"


PUNCTUATION: Final = re.compile(r"\W", re.ASCII)


def carried_schema(columns: pa.Schema) -> pa.Schema:
    """Columns under names and in types that Spark knows."""
    return pa.schema([(spark_name(columns, field.name), _carried(field.type)) for field in columns])


def to_spark(table: pa.Table) -> pa.Table:
    """The table under names and in types that Spark knows."""
    carried = carried_schema(table.schema)
    return pa.table([own.cast(field.type) for own, field in zip(table.columns, carried, strict=True)], schema=carried)


def from_spark(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """What `to_spark` was given: these columns of a table of Spark's."""
    carried = [_back(table[spark_name(columns, field.name)], field.type) for field in columns]
    return pa.table(carried, schema=columns)


def _back(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        # Nothing can be cast to nulls, not even what is null throughout.
        return pa.chunked_array([pa.array(column.to_pylist(), kind)])


def _carried(kind: pa.DataType) -> pa.DataType:
    """The type in which Spark has a column, to which and from which Arrow can cast without a loss."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _carried(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_carried(kind.key_type), _carried(kind.item_type))
    if any(is_list(kind) for is_list in LISTS):
        return pa.list_(_carried(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _carried(kind.value_type)
    if kind == MOMENT:
        return kind
    return next((known for is_such, known in CARRIED if is_such(kind)), kind)


LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
CARRIED: Final[Sequence[tuple[Any, pa.DataType]]] = (
    (pa.types.is_null, pa.bool_()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_time32, pa.int32()),
    (lambda kind: pa.types.is_temporal(kind) and not pa.types.is_date32(kind), pa.int64()),
    (pa.types.is_decimal256, pa.string()),
    (lambda kind: pa.types.is_large_string(kind) or pa.types.is_string_view(kind), pa.string()),
    (
        lambda kind: (
            pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind)
        ),
        pa.binary(),
    ),
)
