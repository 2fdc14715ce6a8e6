"""What messages carry: JSON, numbers and times, each checked; what is wrong is an InvalidMeasurement that says so."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from typing import Any, Final

from batchline.core.moment import EARLIEST_US, LATEST_US
from batchline.errors import InvalidMeasurement, shown
from batchline.sources.iso_time import EXPECTED, us_from_text

__all__ = ["US_PER_UNIT", "items_from", "json_from", "name_from", "number_from", "time_from"]

#: What JSON has between values.
BLANKS: Final = re.compile(r"[ \t\n\r]*")
#: How many microseconds a number of a time counts in.
US_PER_UNIT: Final[Mapping[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1}


def json_from(payload: bytes) -> Any:
    """The JSON value that bytes are; numbers with a point in them are Decimal."""
    with _translated():
        return _decoder().decode(_text(payload))


def items_from(payload: bytes) -> Iterator[tuple[str, Any]]:
    """The items of a JSON array, each with its text, one after the other; any other value is an array of one."""
    with _translated():
        text = _text(payload)
        place = _after_blanks(text, 0)
        if not text.startswith("[", place):
            yield text, _decoder().decode(text)
            return
        place = _after_blanks(text, place + 1)
        comma = text.startswith("]", place)
        while not (comma and text.startswith("]", place)):
            item, end = _decoder().raw_decode(text, place)
            yield text[place:end], item
            place = _after_blanks(text, end)
            comma = text.startswith("]", place)
            if not comma:
                if not text.startswith(",", place):
                    raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
                place = _after_blanks(text, place + 1)
        if _after_blanks(text, place + 1) < len(text):
            raise json.JSONDecodeError("Extra data", text, place + 1)


def _text(payload: bytes) -> str:
    text = payload.decode()
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
    return text


def _after_blanks(text: str, place: int) -> int:
    found = BLANKS.match(text, place)
    return found.end() if found else place


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidMeasurement("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise InvalidMeasurement(f"not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidMeasurement(f"not JSON that can be read: {error}") from error


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_object)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _object(fields: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(fields)
    if len(row) < len(fields):
        raise ValueError("an object has two fields of one name")
    return row


def name_from(what: str, value: object) -> str:
    """A key or a type: text that is not empty and can be written."""
    if not isinstance(value, str) or not value:
        raise InvalidMeasurement(f"{what} must be text that is not empty, got {_seen(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidMeasurement(f"{what} must be text that UTF-8 can hold, got {_seen(value)}") from error
    return value


def number_from(what: str, value: object) -> float:
    """A value: a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidMeasurement(f"{what} must be a number, got {_seen(value)}")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an int too large; a NaN that signals
        number = math.inf
    if not math.isfinite(number):
        raise InvalidMeasurement(f"{what} must be a number that 64 bits can hold, got {_seen(value)}")
    return number


def time_from(what: str, value: object, unit: str = "s") -> int:
    """Microseconds since the epoch: from ISO-8601 text with a zone, or a number that counts in the unit."""
    us = us_from_text(value) if isinstance(value, str) else _us_from_number(value, US_PER_UNIT[unit])
    if us is None:
        raise InvalidMeasurement(f"{what}: expected {EXPECTED}, or a number, got {_seen(value)}")
    if not EARLIEST_US <= us <= LATEST_US:
        raise InvalidMeasurement(f"{what} must lie in the years 1 to 9999, got {_seen(value)}")
    return us


def _us_from_number(value: object, factor: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    # Compared first: the digits of 1e999999 would fill the memory.
    return math.floor(value * factor) if -LATEST_US <= value <= LATEST_US else LATEST_US + 1


def _seen(value: object) -> str:
    return str(value)[:80] if isinstance(value, Decimal) else shown(value)[:80]
