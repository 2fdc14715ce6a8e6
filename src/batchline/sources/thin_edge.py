"""thin-edge.io's measurements: JSON on `te/<device>/<id>/<service>/<id>/m/<type>`.

    te/device/main///m/              {"temperature": 23, "coordinate": {"x": 1, "y": 2}, "time": "2026-11-15T12:00:00Z"}
      key device/main                types temperature, coordinate.x, coordinate.y

The key is the entity: the four levels after `te` without the empty ones at their end. The type is the name of the
value, those of nested ones joined by points. Where the measurement has a type, in its topic or as `type` in the
payload (which goes first), that stands before it: `weather/temperature`. The time is ISO-8601 with a zone or a number
of seconds since the epoch; without one it is the receive time.
"""

from collections.abc import Iterator
from typing import Any

from batchline.errors import InvalidMeasurement, shown
from batchline.sources.measured import Measured
from batchline.sources.payload import json_from, name_from, number_from, time_from

__all__ = ["parse_thin_edge"]

TIME = "time"
TYPE = "type"


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
    values = [(name_from("a name", before + name), number_from(name, value)) for name, value in _values(message)]
    _check_names([name for name, _ in values])
    return [Measured(key, name, event_us, value) for name, value in values]


def _entity(topic: str) -> tuple[str, str]:
    """The key and the measurement's type of a topic."""
    levels = topic.split("/")
    if len(levels) != 7 or levels[0] != "te" or levels[5] != "m":
        raise InvalidMeasurement(f"expected a topic te/…/…/…/…/m/…, got {shown(topic)}")
    return name_from("the entity", "/".join(levels[1:5]).rstrip("/")), levels[6]


def _values(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values in a message with their names, however deep; not by recursion, since anybody may send anything."""
    waiting = list(reversed(message.items()))
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{inner}", part) for inner, part in reversed(value.items())]
        else:
            yield name, value


def _check_names(names: list[str]) -> None:
    if not names:
        raise InvalidMeasurement("it holds no value")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidMeasurement(f"it holds two values named {shown(twice)}")
