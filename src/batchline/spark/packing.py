"""Stage 2 on a DataFrame: a row per parcel.

    batched rows ──► lanes by subject ──► sorted by group time and subject, in Java ──► the packer ──► parcels

In a stream nothing is sorted by Java: what an epoch brings is joined to what its lane holds.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from batchline.columnar.names import Names
from batchline.columnar.parcel_rows import PARCEL
from batchline.core.moment import span_us
from batchline.core.pack_rules import PackRules
from batchline.errors import InvalidInput, InvalidRules, InvalidTable, check_choice
from batchline.spark import checkpoint as checkpoints
from batchline.spark.epoch_files import Directory
from batchline.spark.following import ABOUT, CLOCKS, Pack
from batchline.spark.frames import check_column, check_lanes, check_span, lane_of, quoted
from batchline.spark.lanes import LANE
from batchline.spark.marks import by_lane, every_lane, marked
from batchline.spark.pack_lanes import GROUP_TIME, PackNames, PackTask, StreamPackTask

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

__all__ = ["LANES", "pack_frame", "pack_stream_frame", "packer_of"]

#: How many lanes there are unless somebody says so. Not as many as the machine has cores: parcels depend on it.
LANES: Final = 16


def pack_frame(df: "DataFrame", rules: PackRules, names: PackNames, lanes: int = LANES) -> "DataFrame":
    """The parcels of a batch DataFrame, each lane packed and numbered on its own."""
    from pyspark.sql import functions as sf

    check_lanes(lanes)
    rows, names, own = _checked(df, rules, names)
    subject = _subject(names, rules)
    rows = rows.withColumn(LANE, lane_of(subject, lanes)).withColumn(GROUP_TIME, _group_time(names, rules))
    ties = (names.batch_id, names.event_time, names.type, names.key, names.receive_time, names.size)
    order = [sf.col(GROUP_TIME), subject, *(sf.col(quoted(name)) for name in ties if name is not None)]
    arranged = by_lane(rows, lanes).sortWithinPartitions(*order)
    return arranged.mapInArrow(PackTask(rules, names, own).__call__, _schema(df, own))


def pack_stream_frame(
    df: "DataFrame", rules: PackRules, names: PackNames, state: str, linger: timedelta | None, clock: str
) -> "DataFrame":
    """The parcels of a stream that comes straight from `assign_batches`, as a streaming DataFrame to go on with."""
    check_choice("clock", clock, CLOCKS, InvalidInput)
    lanes, task, rows = _stream_task(df, rules, names, state, linger)
    ticking = marked(rows, task.names.key, str(task.names.closed_at), lanes, clock)
    return by_lane(ticking, lanes).mapInArrow(task.__call__, _schema(df, task.own))


def packer_of(rules: PackRules, names: Names, linger: timedelta | None) -> Pack:
    """What makes parcels of the epochs of a stream that is followed."""
    pack_names = PackNames(names.key, names.type, names.event_time, names.receive_time, names.size)

    def pack(df: "DataFrame", state: str, epoch: int, end: bool, tick_us: int | None) -> "DataFrame":
        lanes, task, rows = _stream_task(df, rules, pack_names, state, linger)
        task = task._replace(epoch=epoch, end=end)
        marks = every_lane(rows, lanes, str(task.names.closed_at), tick_us)
        every = marked(rows, task.names.key, "", lanes, "data").unionByName(marks)
        return by_lane(every, lanes).mapInArrow(task.__call__, _schema(df, task.own))

    return pack


def _stream_task(
    df: "DataFrame", rules: PackRules, names: PackNames, state: str, linger: timedelta | None
) -> tuple[int, StreamPackTask, "DataFrame"]:
    about = df.schema["batch_id"].metadata.get(ABOUT) if "batch_id" in df.columns else None
    if about is None:
        raise InvalidTable("in a stream, pack_parcels expects what assign_batches gives, with its column batch_id")
    if rules.split is not None or names.key != about["key"]:
        subject = f"split={rules.split!r}" if rules.split is not None else f"subject={names.key!r}"
        raise InvalidInput(
            f"in a stream the subject must be the key of assign_batches, {about['key']!r}, got {subject}: "
            "only its order is known"
        )
    if linger is not None:
        check_span("linger", linger)
    rows, names, own = _checked(df, rules, names._replace(closed_at="closed_at"))
    lanes = int(about["lanes"])
    columns = {field.name: field.dataType.simpleString() for field in df.schema}
    settings = {"pack_rules": rules.as_data(), "pack_names": names._asdict(), "columns": columns}
    directory = Directory(state)
    checkpoints.agree(directory, settings, lanes, lanes)
    linger_us = None if linger is None else span_us(linger)
    return lanes, StreamPackTask(rules, names, own, directory.uri, int(about["lag_us"]), linger_us), rows


def _checked(df: "DataFrame", rules: PackRules, names: PackNames) -> tuple["DataFrame", PackNames, tuple[str, ...]]:
    """The rows to be packed, the names of what is looked at, and of what becomes a measurement."""
    from pyspark.sql import functions as sf

    if not isinstance(rules, PackRules):
        raise InvalidRules(f"expected PackRules, got {rules!r} ({type(rules).__name__})")
    if rules.max_bytes is not None and names.size is None:
        raise InvalidTable("max_bytes is set, so the name of the column with the sizes is needed: size=…")
    if rules.together == "batch":
        if "batch_id" not in df.columns:
            raise InvalidTable("together='batch' expects what assign_batches gives, with its column batch_id")
        names = names._replace(batch_id="batch_id")
    if names.receive_time not in df.columns:
        names = names._replace(receive_time=None)
    for ours in ("key", "type", "event_time", "size"):
        if getattr(names, ours) is not None:
            check_column(df, ours, getattr(names, ours))
    own = tuple(name for name in df.columns if name != "verdict")
    rows = df.where(sf.col("verdict") == "batched") if "verdict" in df.columns else df
    return rows.select(*(sf.col(quoted(name)) for name in own)), names, own


def _subject(names: PackNames, rules: PackRules) -> "Column":
    """Whom a row is about: its key, or what its type says before the separator; without one, the bucket of such."""
    from pyspark.sql import functions as sf

    if rules.split is None:
        return sf.col(quoted(names.key))
    type_ = sf.col(quoted(names.type))
    return sf.when(sf.instr(type_, rules.split) > 0, sf.substring_index(type_, rules.split, 1)).otherwise(sf.lit(""))


def _group_time(names: PackNames, rules: PackRules) -> "Column":
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    event_time = sf.col(quoted(names.event_time))
    if rules.together == "timestamp":
        return event_time
    return sf.min(event_time).over(Window.partitionBy("batch_id"))


def _schema(df: "DataFrame", own: tuple[str, ...]) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import ArrayType, StructField, StructType

    rows = StructType([StructField(name, df.schema[name].dataType) for name in own])
    return StructType([*from_arrow_schema(PARCEL), StructField("measurements", ArrayType(rows))])
