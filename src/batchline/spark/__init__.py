"""Stages 1 to 4 on Spark: functions on DataFrames, batch and streaming alike, and the timeline as a format."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from batchline.core.batch_rules import BatchRules
from batchline.core.moment import span_us
from batchline.core.pack_rules import PackRules
from batchline.errors import InvalidInput
from batchline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from batchline.core.ack import AckOutcome
    from batchline.core.on_complete import OnComplete
    from batchline.spark.following import Each, Following
    from batchline.spark.kafka import KafkaReading
    from batchline.spark.publishing import Published
    from batchline.stores import Store

__all__ = [
    "ack",
    "assign_batches",
    "collect_batches",
    "done",
    "follow",
    "kafka_packages",
    "pack_parcels",
    "publish",
    "read_kafka",
    "register",
    "release",
    "session",
]

NO_SPAN = timedelta(0)
A_SECOND = timedelta(seconds=1)


def assign_batches(
    df: "DataFrame",
    rules: BatchRules,
    *,
    key: str = "key",
    type: str = "type",
    event_time: str = "event_time",
    receive_time: str = "receive_time",
    size: str | None = None,
    order: Sequence[str] = (),
    until: datetime | None = None,
    partitions: int | None = None,
    state: str | None = None,
    lanes: int | None = None,
    skew: timedelta = NO_SPAN,
    clock: str = "data",
) -> "DataFrame":
    """The rows with what became of each: verdict, batch_id, batch_start, batch_end, closed_at, close_reason."""
    from batchline.spark.batching import batch_frame, named

    names = named(key, type, event_time, receive_time, size, order)
    if not df.isStreaming:
        return batch_frame(df, rules, names, until, partitions)
    from batchline.spark.following import Pace, stream_frame

    if state is None:
        raise InvalidInput("a streaming DataFrame needs a directory for its open batches: state=…")
    return stream_frame(df, rules, names, Pace(skew, clock=clock), state, lanes)


def collect_batches(
    batched: "DataFrame", *, key: str = "key", type: str = "type", event_time: str = "event_time"
) -> "DataFrame":
    """A row per batch, its messages in order of event time and type, from what `assign_batches` gives."""
    from batchline.spark.collecting import collect_frame

    return collect_frame(batched, key, type, event_time)


def pack_parcels(
    batched: "DataFrame",
    rules: PackRules,
    *,
    subject: str = "key",
    type: str = "type",
    event_time: str = "event_time",
    receive_time: str = "receive_time",
    size: str | None = None,
    lanes: int | None = None,
    state: str | None = None,
    linger: timedelta | None = A_SECOND,
    clock: str = "data",
) -> "DataFrame":
    """A row per parcel, with its measurements; each lane is packed and numbered on its own.

    What is too large for any parcel is a row of its own without a `parcel_id`. A streaming DataFrame needs `state=`,
    and has the lanes of its `assign_batches`.
    """
    from batchline.spark.pack_lanes import PackNames
    from batchline.spark.packing import LANES, pack_frame, pack_stream_frame

    names = PackNames(subject, type, event_time, receive_time, size)
    if not batched.isStreaming:
        return pack_frame(batched, rules, names, LANES if lanes is None else lanes)
    if state is None:
        raise InvalidInput("a streaming DataFrame needs a directory for its part-filled parcels: state=…")
    if lanes is not None:
        raise InvalidInput("a streaming DataFrame has the lanes of its assign_batches: give lanes=… there")
    return pack_stream_frame(batched, rules, names, state, linger, clock)


def follow(
    df: "DataFrame",
    rules: BatchRules,
    each: "Each",
    *,
    checkpoint: str,
    key: str = "key",
    type: str = "type",
    event_time: str = "event_time",
    receive_time: str = "receive_time",
    size: str | None = None,
    order: Sequence[str] = (),
    partition: str | None = None,
    lanes: int | None = None,
    skew: timedelta = NO_SPAN,
    idle: timedelta | None = None,
    clock: str = "data",
    pack: PackRules | None = None,
    linger: timedelta | None = A_SECOND,
    trigger: Mapping[str, Any] | None = None,
) -> "Following":
    """Follow a stream: `each(rows, epoch)` is given the rows whose fate is known, micro-batch after micro-batch.

    With `pack` it is given parcels instead.
    """
    from batchline.spark.batching import named
    from batchline.spark.following import EVERY_SECOND, Following, Pace
    from batchline.spark.packing import packer_of

    names = named(key, type, event_time, receive_time, size, order)
    packer = None if pack is None else packer_of(pack, names, linger)
    following = Following(df, rules, names, Pace(skew, idle, clock, partition), each, checkpoint, lanes, packer)
    following.start(EVERY_SECOND if trigger is None else trigger)
    return following


def publish(
    parcels: "DataFrame",
    store: "Store | str",
    *,
    topic: str = "parcels",
    fanout: str,
    at: str | None = None,
    delay: timedelta = NO_SPAN,
    fields: Mapping[str, str] | None = None,
    tolerate: int | None = 0,
    labels: Mapping[str, str] | None = None,
    on_complete: "OnComplete | None" = None,
    checkpoint: str | None = None,
    period: timedelta | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> "Published | StreamingQuery":
    """Put parcels, as `pack_parcels` gives them, on the timeline, each an item of a fanout.

    A batch DataFrame: runs, seals the fanout, and tells what was published; run again under the same name it publishes
    what is missing. A streaming one needs a `checkpoint`, and returns its query: each epoch, or each `period`, is a
    fanout of its own, `fanout/…`.

    Parcels are due at the moment in the column `at`, or at once; and by `delay` later. `fields` says which fields of
    the measurements are sent, by the names they are to have. A topic that is not there is made.
    """
    from batchline.spark.following import EVERY_SECOND
    from batchline.spark.publishing import Due, Opening, Publishing, publish_frame

    due, opening = Due(at, span_us(delay)), Opening(tolerate, labels, on_complete)
    if not parcels.isStreaming:
        if checkpoint is not None or period is not None or trigger is not None:
            raise InvalidInput("checkpoint, period and trigger belong to a stream; the DataFrame is none")
        return publish_frame(parcels, store, topic, fanout, due, opening, fields)
    if checkpoint is None:
        raise InvalidInput("a streaming DataFrame needs a directory for its progress: checkpoint=…")
    publishing = Publishing(
        store, topic, fanout, f"{checkpoint}/batchline", period=period, due=due, opening=opening, fields=fields
    )
    writer = parcels.writeStream.foreachBatch(publishing).option("checkpointLocation", checkpoint)
    return writer.trigger(**(EVERY_SECOND if trigger is None else trigger)).start()


def read_kafka(
    spark: "SparkSession",
    address: str,
    *,
    stream: bool = False,
    key: str | None = None,
    type: str = "type",
    event_time: str = "event_time",
    others: str = "value double",
    times: str = "append",
    options: Mapping[str, Any] | None = None,
) -> "KafkaReading":
    """The records of a Kafka topic, `kafka://host:9092/topic`: `measurements`, and apart what is `malformed`.

    The key is the record's, or a field of its JSON; receive time is when the broker was given it. Give the rows on with
    `order=["offset"]`, and to `follow` with `partition="partition"`.
    """
    from batchline.spark.kafka import KafkaFields, kafka_frames

    fields = KafkaFields(key, type, event_time, others)
    return kafka_frames(spark, address, fields, options or {}, stream=stream, times=times)


def kafka_packages(version: str | None = None) -> str:
    """What `spark.jars.packages` must name for Spark to read from Kafka; of Spark's own version unless you say so."""
    from batchline.spark.kafka import kafka_packages

    return kafka_packages(version)


def ack(
    df: "DataFrame", store: "Store | str", *, item: str = "item", fail: object = None, call_id: str | None = None
) -> "AckOutcome":
    """Acknowledge the items whose ids are in a column, or, with a reason, `fail` them; runs, and tells what it did.

    Ids are combined to one mask per group before they touch the database. The executors open the store by its address.
    """
    from batchline.spark.acking import ack_frame

    return ack_frame(df, store, item, fail, call_id)


def done(df: "DataFrame", store: "Store | str", *, lease: str = "lease") -> Counter[str]:
    """Finish the messages whose leases are in a column; runs, and counts: `done`, `lost`, `malformed`.

    A lease that ended before is `lost`: its message is offered again. The executors open the store by its address.
    """
    from batchline.spark.leases import done_frame

    return done_frame(df, store, lease)


def release(
    df: "DataFrame",
    store: "Store | str",
    *,
    lease: str = "lease",
    at: datetime | int | None = None,
    after: timedelta | None = None,
    reason: object = "",
) -> Counter[str]:
    """Give the messages whose leases are in a column back, due again at once, at a moment or after a span.

    Runs, and counts as `done` does.
    """
    from batchline.spark.leases import release_frame

    return release_frame(df, store, lease, at, after, reason)


def register(spark: "SparkSession") -> None:
    """Make the format `batchline_timeline` known to a session that does not find it by itself.

    Spark finds it where Batchline is installed for the driver's Python.
    """
    from batchline.spark.timeline_source import register_source

    register_source(spark)
