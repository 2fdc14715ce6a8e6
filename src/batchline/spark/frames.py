"""The columns of a DataFrame that the rules look at, checked before anything runs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import types

from batchline.columnar.names import Names
from batchline.errors import InvalidInput, InvalidTable, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "TIE",
    "check_column",
    "check_lanes",
    "check_span",
    "checked_names",
    "fields_of",
    "lane_of",
    "quoted",
    "refuse_taken",
    "tied",
]

MOST_LANES = 9999
#: What decides between rows that tie in all else.
TIE = "batchline_tie"
#: What a column of ours must be, and how that is called.
KINDS: dict[str, tuple[Any, str]] = {
    "item": (types.StringType, "item ids"),
    "lease": (types.StringType, "leases"),
    "key": (types.StringType, "strings"),
    "type": (types.StringType, "strings"),
    "event_time": (types.TimestampType, "timestamps with a time zone"),
    "receive_time": (types.TimestampType, "timestamps with a time zone"),
    "size": (types.IntegralType, "whole numbers of bytes"),
}


def checked_names(df: "DataFrame", names: Names, max_bytes: int | None, added: Sequence[str]) -> Names:
    """The names, if the DataFrame has such columns of the right types, and none by the name of what will be added."""
    if max_bytes is not None and names.size is None:
        raise InvalidTable("max_bytes is set, so the name of the column with the sizes is needed: size=…")
    for ours, theirs in names.needed().items():
        check_column(df, ours, theirs)
    refuse_taken(df, added)
    return names


def refuse_taken(df: "DataFrame", added: Sequence[str]) -> None:
    """The DataFrame has no column by the name of one that will be added."""
    taken = [name for name in added if name in df.columns]
    if taken:
        raise InvalidTable(f"the DataFrame already has a column {', '.join(taken)}, which the result would add")


def check_column(df: "DataFrame", ours: str, theirs: str) -> None:
    """The DataFrame has that column, of the type that ours must have."""
    if not isinstance(theirs, str):
        raise InvalidTable(f"{ours} must be the name of a column, got {theirs!r} ({type(theirs).__name__})")
    if df.columns.count(theirs) != 1:
        how = "more than one column" if theirs in df.columns else "no column"
        raise InvalidTable(
            f"{ours}={theirs!r}: the DataFrame has {how} of that name; it has {', '.join(df.columns)}"
            + did_you_mean(theirs, [name for name in df.columns if name != theirs])
        )
    kind = df.schema[theirs].dataType
    if ours.startswith("order_"):
        if not isinstance(kind, types.AtomicType):
            raise InvalidTable(f"order column {theirs} must hold values that can be sorted, got {kind.simpleString()}")
        return
    expected, words = KINDS[ours]
    if isinstance(kind, types.TimestampNTZType) and expected is types.TimestampType:
        raise InvalidTable(f"column {theirs} holds naive times ({kind.simpleString()}); give it the time zone it is in")
    if not isinstance(kind, expected):
        raise InvalidTable(f"column {theirs} must hold {words}, got {kind.simpleString()}")


def lane_of(subject: "Column", lanes: int) -> "Column":
    """The lane of a subject, as `columnar.parcels` computes it: CRC-32 of its UTF-8 bytes, modulo the lanes."""
    from pyspark.sql import functions as sf

    lane = (sf.crc32(subject.cast("binary")) % sf.lit(lanes)).cast("int")
    # A row without a key goes somewhere too: there it is told that it needs one.
    return sf.coalesce(lane, sf.lit(0))


def tied(df: "DataFrame", names: Names) -> tuple["DataFrame", Names]:
    """Add a column that decides between rows that tie in all that receive order compares: a hash of the other columns.

    Without it the shuffle would decide which of two copies comes first. The columns of `order` may tie, too: an offset
    is unique in its partition only. `names.last` never ties.
    """
    from pyspark.sql import functions as sf

    compared = {names.key, names.type, names.event_time, names.receive_time, *names.order}
    carried = [field for field in df.schema if field.name not in compared and _has_hash(field.dataType)]
    if names.last or not carried:
        return df, names
    columns = [sf.col(quoted(field.name)) for field in carried]
    # Spark's hash leaves nulls out: without the flags (null, 5) and (5, null) would tie.
    flags = [sf.isnull(column) for field, column in zip(carried, columns, strict=True) if field.nullable]
    tie = sf.xxhash64(*columns, *(flags if len(columns) > 1 else ()))
    return df.withColumn(TIE, tie), replace(names, last=(TIE,))


def _has_hash(kind: types.DataType) -> bool:
    """Whether Spark can hash a value of that type: not where a map is in it."""
    return "map<" not in kind.simpleString() and "variant" not in kind.simpleString()


def check_span(name: str, span: Any) -> None:
    """A span of time is one."""
    if not isinstance(span, timedelta) or span < timedelta(0):
        raise InvalidInput(f"{name} must be a timedelta of 0 or longer, got {span!r}")


def fields_of(ddl: str) -> "list[types.StructField]":
    """The fields that are written as in SQL."""
    fields: Any = types.StructType.fromDDL(ddl)
    return list(fields)


def check_lanes(lanes: Any) -> None:
    """A number of lanes is one, where it is given."""
    if lanes is not None and (not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes <= MOST_LANES):
        raise InvalidInput(f"lanes must be a whole number from 1 to {MOST_LANES}, got {lanes!r}")


def quoted(name: str) -> str:
    """A column's name as Spark reads it when it has a point in it."""
    return f"`{name.replace('`', '``')}`"
