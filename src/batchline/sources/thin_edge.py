"""thin-edge.io's measurements: JSON on `te/<device>/<id>/<service>/<id>/m/<type>`.

    te/device/main///m/              {"temperature": 23, "coordinate": {"x": 1, "y": 2}, "time": "2026-11-15T12:00:00Z"}
      key device/main                types temperature, coordinate.x, coordinate.y

The key is the entity: the four levels after `te` without the empty ones at their end. The type is the name of the
value, those of nested ones joined by points. Where the measurement has a type, in its topic or as `type` in the
payload (which goes first), that stands before it: `weather/temperature`. The time is ISO-8601 with a zone or a number
of seconds since the epoch; without one it is the receive time.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from batchline.errors import InvalidMeasurement, shown
from batchline.sources.measured import Measured, collect
from batchline.sources.payload import json_from, name_from, number_from, time_from

__all__ = ["parse_thin_edge"]

TIME = "time"
TYPE = "type"
#: Characters of the names that lead to a value: each that is nested in them repeats them.
LONGEST_NAME: Final = 64 << 10


def parse_thin_edge(topic: str, payload: bytes, receive_us: int) -> list[Measured]:
    """A measurement for each value of a message of thin-edge.io."""
    key, kind = _entity(topic)
    message = json_from(payload)
    if not isinstance(message, dict):
        raise InvalidMeasurement(f"expected a JSON object, got {shown(message)}")
    event_us = time_from(TIME, message.pop(TIME)) if TIME in message else receive_us
    if isinstance(message.get(TYPE), str):
        kind = message.pop(TYPE)
    before = f"{kind}/" if kind else ""
    measured = collect(
        Measured(key, name_from("a name", before + name), event_us, number_from(name, value))
        for name, value in _values(message)
    )
    _check_names(one.type for one in measured)
    return measured


def _entity(topic: str) -> tuple[str, str]:
    """The key and the measurement's type of a topic."""
    levels = topic.split("/")
    if len(levels) != 7 or levels[0] != "te" or levels[5] != "m":
        raise InvalidMeasurement(f"expected a topic te/…/…/…/…/m/…, got {shown(topic)}")
    return name_from("the entity", "/".join(levels[1:5]).rstrip("/")), levels[6]


def _values(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values in a message with their names, however deep; not by recursion, since anybody may send anything."""
    waiting = [("", iter(message.items()))]
    while waiting:
        before, fields = waiting[-1]
        name, value = next(fields, (None, None))
        if name is None:
            waiting.pop()
        elif not isinstance(value, dict):
            yield before + name, value
        elif len(before) + len(name) < LONGEST_NAME:
            waiting.append((f"{before}{name}.", iter(value.items())))
        else:
            raise InvalidMeasurement(f"expected names of at most {LONGEST_NAME:,} characters, got {shown(name)[:80]}")


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidMeasurement(f"it holds two values named {shown(name)}")
        seen.add(name)
    if not seen:
        raise InvalidMeasurement("it holds no value")
