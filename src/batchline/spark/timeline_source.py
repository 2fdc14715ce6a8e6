"""The timeline as a format of Spark: due messages as rows, rows as messages.

    spark.read.format("batchline_timeline")          a row per message, leased once by each read: see `lease_once`
    spark.readStream.format("batchline_timeline")    a read per micro-batch, which is done when the micro-batch is
    df.write, df.writeStream                         a message per row: see `timeline_sink`

Its partitions are ranges of the topic's buckets: executors lease side by side, straight from the store. pyarrow is
imported where it is needed only: Spark imports this module when it looks for a format, of whatever name.
"""

import secrets
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from batchline.core.message import LeasedMessage, lease_text
from batchline.errors import InvalidInput, InvalidTable
from batchline.runtime.timeline import Timeline
from batchline.spark.lease_once import Part, finish_part, forget_parts, lease_part, parts_of, tidy_notes
from batchline.spark.store_address import store_address
from batchline.spark.timeline_options import ReadOptions, read_options, write_options
from batchline.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "LeaseReader", "LeaseStreamReader", "PeekReader", "TimelineSource", "register_source"]

FORMAT: Final = "batchline_timeline"
LEASED: Final = "id string, body binary, at timestamp, attempts int, producer_group string, lease string"
SEEN: Final = "id string, at timestamp, version int"
ROWS_AT_ONCE: Final = 10_000
BYTES_AT_ONCE: Final = 16 << 20
#: Micro-batches whose notes are kept: as many as Spark keeps of its own log.
EPOCHS_KEPT: Final = 100


def register_source(spark: "SparkSession") -> None:
    """Make the format known to a session, unless Spark has found it by itself."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(TimelineSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


class TimelineSource(DataSource):
    """What Spark makes of `format("batchline_timeline")`, once for each `load` and each write."""

    def __init__(self, options: MutableMapping[str, str]):
        # Kept for as long as the DataFrame is: so each computation of it is the same read.
        super().__init__({name.lower(): text for name, text in options.items()})
        self._made_name = secrets.token_hex(8)

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a read."""
        return LEASED if read_options(self.options).mode == "lease" else SEEN

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a batch."""
        options = self._checked(schema)
        if options.mode == "peek":
            return PeekReader(options, schema)
        return LeaseReader(options, options.read or self._made_name, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """What reads a stream."""
        options = self._checked(schema)
        if options.mode == "peek":
            raise InvalidInput("mode 'peek' is for spark.read: a stream leases what it reads")
        if options.read is not None:
            raise InvalidInput("option 'read' is for spark.read: a stream's checkpoint says what it has read")
        return LeaseStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a batch."""
        from batchline.spark.timeline_sink import TimelineWriter, check_sink

        options = write_options(self.options, streaming=False)
        check_sink(options, schema, overwrite=overwrite)
        return TimelineWriter(options)

    def streamWriter(  # noqa: N802 - PySpark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """What writes a stream."""
        from batchline.spark.timeline_sink import TimelineStreamWriter, check_sink

        options = write_options(self.options, streaming=True)
        check_sink(options, schema, overwrite=overwrite)
        return TimelineStreamWriter(options)

    def _checked(self, schema: StructType) -> ReadOptions:
        """The options, if the columns are ours: Spark takes any that a caller asks for."""
        wanted = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
        if wanted != self.schema():
            raise InvalidTable(f"{FORMAT} has the columns {self.schema()}; got the schema {wanted}")
        return read_options(self.options)


# --- batch ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeasePartition(InputPartition):
    """A part of a read, as Spark hands it to a task."""

    part: Part


class LeaseReader(DataSourceReader):
    """Due messages, leased once."""

    def __init__(self, options: ReadOptions, read: str, schema: StructType):
        self._options = options
        self._read = read
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The parts of the topic; nothing is leased yet."""
        options = self._options
        with open_store(store_address(options.store)) as store:
            timeline = Timeline(store)
            topic = timeline.topic(options.topic)
            topic.lease_ms(options.duration)
            tidy_notes(timeline)
            return _partitions(timeline, options, self._read, timeline.now_ms(), options.partitions)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The messages of a part, in a task."""
        return _read_part(self._options.store, partition, self._schema)


class PeekReader(DataSourceReader):
    """Messages that are due by a moment; nothing is leased, and what others do meanwhile is not kept off."""

    def __init__(self, options: ReadOptions, schema: StructType):
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One: it is a look at the line."""
        with open_store(store_address(self._options.store)) as store:
            Timeline(store).topic(self._options.topic)
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":  # noqa: ARG002 - there is one
        """The messages, in a task."""
        options = self._options
        with open_store(options.store, migrate=False) as store:
            seen = Timeline(store).upcoming(options.topic, options.consumer, within=options.within, limit=options.limit)
        rows = [(one.id, one.at_ms * 1_000, one.version) for one in seen]
        yield _record_batch(rows, self._schema)


def _partitions(timeline: Timeline, options: ReadOptions, read: str, born_ms: int, count: int) -> list[InputPartition]:
    topic = timeline.topic(options.topic)
    parts = parts_of(topic, options.consumer, read, born_ms, count, options.limit, options.duration)
    return [LeasePartition(part) for part in parts]


def _read_part(address: str, partition: InputPartition, schema: StructType) -> "Iterator[pa.RecordBatch]":
    if not isinstance(partition, LeasePartition):
        raise InvalidInput(f"expected a part of a read, got {partition!r}")
    with open_store(address, migrate=False) as store:
        messages = lease_part(Timeline(store), partition.part)
    rows: list[tuple[Any, ...]] = []
    size = 0
    for message in messages:
        if len(rows) == ROWS_AT_ONCE or size + len(message.body) > BYTES_AT_ONCE:
            yield _record_batch(rows, schema)
            rows, size = [], 0
        rows.append(_row(message))
        size += len(message.body)
    yield _record_batch(rows, schema)


def _row(message: LeasedMessage) -> tuple[Any, ...]:
    moment_us = message.at_ms * 1_000
    lease = lease_text(message.lease)
    return message.id, message.body, moment_us, message.attempts, message.producer_group, lease


def _record_batch(rows: list[tuple[Any, ...]], schema: StructType) -> "pa.RecordBatch":
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = zip(*rows, strict=True) if rows else ((),) * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.record_batch(arrays, schema=arrow)


# --- stream -----------------------------------------------------------------------------------------------------------


class LeaseStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Due messages, micro-batch by micro-batch, each of them a read of its own; at least once.

    A micro-batch that has ended is `done` before the next is planned. One that is repeated after a crash gives the
    same messages if their leases still hold; if not, they come again in a later one.
    """

    def __init__(self, options: ReadOptions, schema: StructType):
        self._options = options
        self._schema = schema
        self._finished = 0
        self._up_to_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Before the first micro-batch: a stream gets its name, which stays in its checkpoint."""
        with open_store(store_address(self._options.store)) as store:
            timeline = Timeline(store)
            timeline.topic(self._options.topic).lease_ms(self._options.duration)
            tidy_notes(timeline)
        return {"stream": secrets.token_hex(8), "epoch": 0, "partitions": 0, "at": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark's name
        """End when all is read that is due by now."""
        with open_store(self._options.store, migrate=False) as store:
            self._up_to_ms = Timeline(store).now_ms()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Another micro-batch, if something is due. What is up to the start has ended: it is finished first."""
        options = self._options
        with open_store(options.store, migrate=False) as store:
            timeline = Timeline(store)
            self._finish(timeline, start)
            now_ms = timeline.now_ms()
            due_ms = timeline.next_due(options.topic, options.consumer)
            if due_ms is None or due_ms > (now_ms if self._up_to_ms is None else self._up_to_ms):
                return start
            return start | {"epoch": start["epoch"] + 1, "partitions": options.partitions, "at": now_ms}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a micro-batch."""
        if start == end:
            return []
        with open_store(self._options.store, migrate=False) as store:
            return self._parts(Timeline(store), end, end["epoch"])

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The messages of a part, in a task."""
        return _read_part(self._options.store, partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Finish the messages of a micro-batch that has ended."""
        with open_store(self._options.store, migrate=False) as store:
            self._finish(Timeline(store), end)

    def _finish(self, timeline: Timeline, end: dict[str, Any]) -> None:
        epoch = end["epoch"]
        if epoch <= self._finished:
            return
        for partition in self._parts(timeline, end, epoch):
            finish_part(timeline, partition.part)
        old = self._parts(timeline, end, epoch - EPOCHS_KEPT)
        forget_parts(timeline, [partition.part for partition in old])
        self._finished = epoch

    def _parts(self, timeline: Timeline, end: dict[str, Any], epoch: int) -> list[LeasePartition]:
        read = f"{end['stream']}-{epoch}"
        topic = timeline.topic(self._options.topic)
        options = self._options
        parts = parts_of(topic, options.consumer, read, end["at"], end["partitions"], options.limit, options.duration)
        return [LeasePartition(part) for part in parts]
