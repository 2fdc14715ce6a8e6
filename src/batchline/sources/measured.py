"""What a source makes of what came: measurements to land, and text that is none."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from batchline.core.moment import moment_of
from batchline.errors import InvalidMeasurement

__all__ = [
    "NOTHING_MORE",
    "Arrival",
    "Malformed",
    "Measured",
    "Parser",
    "collect",
    "kept_text",
    "malformed_rows_of",
    "more_of",
    "rows_of",
]

#: The field `more` of a measurement that has nothing besides what was asked for.
NOTHING_MORE: Final = "{}"
#: Bytes, or characters, that are kept of malformed text.
LONGEST_KEPT: Final = 64 << 10
#: Measurements of a message at most.
MOST_VALUES: Final = 100_000
#: Characters of their keys and types together: one name may be part of every type, and one topic of every key.
MOST_NAMED: Final = 32 << 20


class Measured(NamedTuple):
    """One value of one type of one key."""

    key: str
    type: str
    event_us: int
    value: float
    #: What else was said of it, a JSON object as text: whatever comes, a landing's files have the same columns.
    more: str = NOTHING_MORE


class Malformed(NamedTuple):
    """Text that is no measurement."""

    #: Where it came from: a topic, a route.
    origin: str
    reason: str
    text: str


class Arrival(NamedTuple):
    """What came at once, stamped: its parts count on from the sequence, in their order."""

    receive_us: int
    sequence: int
    parts: Sequence[Measured | Malformed]


#: Makes measurements of a topic, a payload and the receive time, or raises InvalidMeasurement with the reason.
Parser: TypeAlias = Callable[[str, bytes, int], Sequence[Measured]]


def collect(measurements: Iterable[Measured]) -> list[Measured]:
    """Collect the measurements of a message; raises InvalidMeasurement as soon as they are more than is taken."""
    found: list[Measured] = []
    left = MOST_NAMED
    for one in measurements:
        found.append(one)
        left -= len(one.key) + len(one.type)
        if len(found) > MOST_VALUES:
            raise InvalidMeasurement(f"expected a message of at most {MOST_VALUES:,} values, got more: send several")
        if left < 0:
            raise InvalidMeasurement(
                f"expected a message with at most {MOST_NAMED:,} characters of keys and types, got more in its first "
                f"{len(found):,} values: send several, or use shorter names"
            )
    return found


def kept_text(text: bytes | str) -> str:
    """Return what is kept of malformed text: all of it, or the beginning of what is very long."""
    kept = text[:LONGEST_KEPT]
    shown = kept if isinstance(kept, str) else kept.decode("utf-8", "backslashreplace")
    more = len(text) - len(kept)
    return f"{shown}… and {more:,} {'characters' if isinstance(text, str) else 'bytes'} more" if more else shown


def more_of(fields: dict[str, Any]) -> str:
    """Further fields as the text that a measurement carries along."""
    return (
        json.dumps(fields, sort_keys=True, separators=(",", ":"), default=float, allow_nan=False)
        if fields
        else NOTHING_MORE
    )


def rows_of(series: str, arrival: Arrival) -> Iterator[dict[str, Any]]:
    """Its measurements as lines of a landing: always the same fields of the same kinds, as following needs them."""
    receive_time = _text(arrival.receive_us)
    for sequence, part in enumerate(arrival.parts, arrival.sequence):
        if isinstance(part, Measured):
            yield {
                "key": part.key,
                "type": part.type,
                "event_time": _text(part.event_us),
                "receive_time": receive_time,
                "series": series,
                "sequence": sequence,
                "value": part.value,
                "more": part.more,
            }


def malformed_rows_of(arrival: Arrival) -> Iterator[dict[str, Any]]:
    """What of it is none; as of files, but the origin stands for the file, and the sequence for the line."""
    receive_time = _text(arrival.receive_us)
    for sequence, part in enumerate(arrival.parts, arrival.sequence):
        if isinstance(part, Malformed):
            about = {"file": part.origin, "line": sequence, "reason": part.reason, "text": part.text}
            yield about | {"receive_time": receive_time}


def _text(us: int) -> str:
    return moment_of(us).isoformat(timespec="microseconds").replace("+00:00", "Z")
