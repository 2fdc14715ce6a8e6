"""Stages 1 and 2 on Spark: functions on DataFrames, batch and streaming alike."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from batchline.core.batch_rules import BatchRules
from batchline.errors import InvalidInput
from batchline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from batchline.spark.following import Each, Following

__all__ = ["assign_batches", "follow", "session"]

NO_SPAN = timedelta(0)


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
    trigger: Mapping[str, Any] | None = None,
) -> "Following":
    """Follow a stream: `each(rows, epoch)` is given the rows whose fate is known, micro-batch after micro-batch."""
    from batchline.spark.batching import named
    from batchline.spark.following import EVERY_SECOND, Following, Pace

    names = named(key, type, event_time, receive_time, size, order)
    following = Following(df, rules, names, Pace(skew, idle, clock, partition), each, checkpoint, lanes)
    following.start(EVERY_SECOND if trigger is None else trigger)
    return following
