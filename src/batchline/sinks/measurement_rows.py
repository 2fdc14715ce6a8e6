"""The measurements of a parcel as rows of a table."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from batchline.core.consignment import Consignment
from batchline.core.moment import moment_of
from batchline.errors import InvalidSink, RefusedParcel, did_you_mean, shown

__all__ = ["FIELDS", "Row", "check_fields", "rows_of"]

#: Which field of a measurement a column is filled from, unless told otherwise.
FIELDS: Final = {name: name for name in ("key", "type", "event_time", "receive_time", "value")}


class Row(NamedTuple):
    """A measurement; its names are those of the columns."""

    parcel: str
    #: Its place in the parcel, from 0 on.
    place: int
    key: str | None
    type: str | None
    #: In UTC.
    event_time: datetime | None
    receive_time: datetime | None
    #: Its value, if that is a number.
    value: float | None
    #: All of it, as JSON.
    measurement: str


def rows_of(parcel: Consignment, fields: Mapping[str, str]) -> list[Row]:
    """A parcel's rows; raises RefusedParcel if there is a measurement that cannot be one."""
    try:
        return [_row(parcel.id, place, one, fields) for place, one in enumerate(parcel.measurements)]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RefusedParcel(f"its measurements cannot be rows: {error}") from error


def _row(parcel: str, place: int, one: dict[str, Any], fields: Mapping[str, str]) -> Row:
    found = one.get
    return Row(
        parcel,
        place,
        _text(found(fields["key"])),
        _text(found(fields["type"])),
        _moment(found(fields["event_time"])),
        _moment(found(fields["receive_time"])),
        _number(found(fields["value"])),
        json.dumps(one, ensure_ascii=False, separators=(",", ":")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)


def _moment(value: object) -> datetime | None:
    """ISO 8601 with a zone, or microseconds since the epoch."""
    if value is None:
        return None
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    elif type(value) is int:
        return moment_of(value)
    raise ValueError(f"expected a time with a zone, got {shown(value)}")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def check_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Which field fills each column, with those that were not told."""
    for column, field in fields.items():
        if column not in FIELDS:
            words = ", ".join(FIELDS)
            raise InvalidSink(f"fields are of {words}, got {shown(column)}{did_you_mean(str(column), FIELDS)}")
        if not isinstance(field, str):
            raise InvalidSink(f"the field of {column} must be a name, got {shown(field)}")
    return FIELDS | dict(fields)
