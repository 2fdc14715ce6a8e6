"""Rows as messages: each executor creates those of its partition, in bulk, straight in the store.

A task that is repeated creates the same messages again: with ids of their own they `exists` by then, and nothing is
created twice. So a row needs an id, unless the caller says that it need not have one.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from batchline.core.message import NewMessage, Outcome
from batchline.errors import InvalidInput, InvalidMessage, InvalidTable, RefusedMessage, did_you_mean
from batchline.runtime.timeline import Timeline
from batchline.spark.store_address import store_address
from batchline.spark.timeline_options import WriteOptions
from batchline.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TimelineStreamWriter", "TimelineWriter", "check_sink", "write_messages"]

#: The columns that a row can have, what they must be, and how that is called.
COLUMNS: Final[dict[str, tuple[tuple[type[types.DataType], ...], str]]] = {
    "id": ((types.StringType,), "strings"),
    "at": ((types.TimestampType,), "timestamps with a time zone"),
    "body": ((types.BinaryType, types.StringType), "bytes or strings"),
    "priority": ((types.IntegralType,), "whole numbers"),
    "after": ((types.DayTimeIntervalType,), "day-time intervals"),
}
#: Messages that an error names.
NAMED: Final = 3


def check_sink(options: WriteOptions, schema: types.StructType, *, overwrite: bool) -> None:
    """The rows can become messages of the topic; asked before anything runs."""
    if overwrite:
        raise InvalidInput('a timeline is not overwritten: write with mode("append")')
    names = schema.names
    for field in schema:
        if field.name not in COLUMNS:
            known = ", ".join(COLUMNS)
            hint = did_you_mean(field.name, COLUMNS)
            raise InvalidTable(f"a message has the columns {known}; got {field.name}: select what it needs{hint}")
        expected, words = COLUMNS[field.name]
        if not isinstance(field.dataType, expected):
            raise InvalidTable(f"column {field.name} must hold {words}, got {field.dataType.simpleString()}")
    if "body" not in names:
        raise InvalidTable(f"a message needs the column body; got {', '.join(names) or 'no columns'}")
    if "id" not in names and not options.allow_made_ids:
        raise InvalidTable(
            "without the column id a task that is repeated creates its messages twice: "
            'add ids, or set the option allow_made_ids to "true"'
        )
    with open_store(store_address(options.store)) as store:
        Timeline(store).topic(options.topic)


class TimelineWriter(DataSourceArrowWriter):
    """Rows of a batch as messages."""

    def __init__(self, options: WriteOptions):
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Create the messages of a partition, in a task."""
        return write_messages(self._options, iterator)


class TimelineStreamWriter(DataSourceStreamArrowWriter):
    """Rows of micro-batches as messages; one that is repeated changes nothing."""

    def __init__(self, options: WriteOptions):
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Create the messages of a partition of a micro-batch, in a task."""
        return write_messages(self._options, iterator)


def write_messages(options: WriteOptions, batches: "Iterable[pa.RecordBatch]") -> WriterCommitMessage:
    """Create a message for each row; raises RefusedMessage if the topic does not take some of them."""
    with open_store(options.store, migrate=False) as store:
        timeline = Timeline(store)
        for batch in batches:
            messages, twins = _distinct(_messages(batch, options))
            outcomes = timeline.create(options.topic, messages, producer_group=options.producer_group)
            _check(outcomes + twins, options)
    return WriterCommitMessage()


def _check(outcomes: list[Outcome], options: WriteOptions) -> None:
    refused = [one for one in outcomes if not one.ok and not (options.keep and one.outcome == "conflict")]
    if refused:
        some = "; ".join(f"{one.id!r} {one.outcome}: {one.reason}" for one in refused[:NAMED])
        raise RefusedMessage(
            f"topic {options.topic!r} does not take {len(refused):,} of {len(outcomes):,} messages: {some}"
            + ("; …" if len(refused) > NAMED else "")
        )


def _distinct(messages: Iterator[NewMessage]) -> tuple[list[NewMessage], list[Outcome]]:
    """Messages whose ids differ; and what becomes of the others, as if they came in a later call."""
    first: dict[str, NewMessage] = {}
    wanted, twins = [], []
    for message in messages:
        twin = message if message.id is None else first.setdefault(message.id, message)
        if twin is message:
            wanted.append(message)
        elif twin.body == message.body:
            twins.append(Outcome(str(message.id), "exists"))
        else:
            reason = "there is a message of this id with another body"
            twins.append(Outcome(str(message.id), "conflict", reason=reason))
    return wanted, twins


def _messages(batch: "pa.RecordBatch", options: WriteOptions) -> Iterator[NewMessage]:
    import pyarrow as pa

    def values(name: str, kind: Any = None) -> Iterable[Any]:
        if name not in batch.schema.names:
            return [None] * batch.num_rows
        column = batch.column(name)
        values: list[Any] = (column if kind is None else column.cast(kind)).to_pylist()
        return values

    columns = values("id"), values("at", pa.int64()), values("body"), values("priority"), values("after")
    for id, at_us, body, priority, after in zip(*columns, strict=True):
        if id is None and not options.allow_made_ids:
            raise InvalidMessage("a row has no id: a task that is repeated would create its message twice")
        if body is None:
            raise InvalidMessage(f"the row with the id {id!r} has no body")
        # The first whole millisecond that is not before the moment: nothing is early.
        at_ms = None if at_us is None else max(-(-at_us // 1_000), 0)
        yield NewMessage(body.encode() if isinstance(body, str) else body, at_ms, id, priority or 0, after)
