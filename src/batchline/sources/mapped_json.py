"""Plain JSON of any shape: a mapping says where in the topic or the payload a measurement's parts are.

    plant/line1/temp    {"t": 1763208000, "reading": {"v": 21.5}, "unit": "C"}
    MeasurementMapping(key="topic:2", type="topic:3", event_time="t", value="reading.v")

A part is a level of the topic (`topic:2`, counted from 1), the same text always (`text:temperature`), or a field of the
payload, inner ones behind points. A payload is an object, or an array of them. Fields of the payload that are not asked
for go along in `more`.
"""

from dataclasses import dataclass, fields
from typing import Any, Final

from batchline.errors import InvalidMeasurement, InvalidRules, check_choice, did_you_mean, shown
from batchline.sources.measured import Measured, collect, more_of
from batchline.sources.payload import US_PER_UNIT, json_from, name_from, number_from, time_from

__all__ = ["MeasurementMapping"]

TOPIC: Final = "topic:"
TEXT: Final = "text:"


@dataclass(frozen=True, slots=True)
class MeasurementMapping:
    """Where the parts of a measurement are. Calling it parses a message; see the module."""

    key: str
    type: str
    value: str = "value"
    #: None: the receive time is the event time.
    event_time: str | None = None
    #: What a time that is a number counts in: s, ms or us since the epoch.
    time_unit: str = "s"

    def __post_init__(self) -> None:
        for name in ("key", "type", "value", "event_time"):
            place = getattr(self, name)
            if place is not None or name != "event_time":
                _check_place(name, place)
        check_choice("time_unit", self.time_unit, tuple(US_PER_UNIT), InvalidRules)

    @classmethod
    def from_text(cls, text: str) -> "MeasurementMapping":
        """The mapping that pairs such as `key=topic:2,type=sensor` tell."""
        known = [field.name for field in fields(cls)]
        parts: dict[str, str] = {}
        for pair in filter(None, text.split(",")):
            name, equals, place = (part.strip() for part in pair.partition("="))
            if not equals or name not in known:
                raise InvalidRules(
                    f"a mapping has pairs such as key=topic:2 of {', '.join(known)}, got {pair!r}"
                    f"{did_you_mean(name, known)}"
                )
            parts[name] = place
        missing = [name for name in ("key", "type") if name not in parts]
        if missing:
            raise InvalidRules(f"a mapping says where {' and '.join(missing)} is, got {text!r}")
        return cls(**parts)

    def __call__(self, topic: str, payload: bytes, receive_us: int) -> list[Measured]:
        """A measurement for each object of a message."""
        found = json_from(payload)
        rows = found if isinstance(found, list) else [found]
        if not rows:
            raise InvalidMeasurement("it holds no value")
        return collect(self.measured(topic, row, receive_us) for row in rows)

    def measured(self, topic: str, row: object, receive_us: int) -> Measured:
        """The measurement that an object is, or InvalidMeasurement with the reason."""
        if not isinstance(row, dict):
            raise InvalidMeasurement(f"expected a JSON object, got {shown(row)[:80]}")
        key = name_from(_label("key", self.key), _found(self.key, topic, row))
        type = name_from(_label("type", self.type), _found(self.type, topic, row))
        value = number_from(_label("value", self.value), _found(self.value, topic, row))
        event_us = receive_us
        if self.event_time is not None:
            label = _label("event_time", self.event_time)
            event_us = time_from(label, _found(self.event_time, topic, row), self.time_unit)
        return Measured(key, type, event_us, value, self._more(row))

    def _more(self, row: dict[str, Any]) -> str:
        used = {place for place in (self.key, self.type, self.value, self.event_time) if place is not None}
        try:
            return more_of({name: value for name, value in row.items() if name not in used})
        except (ValueError, RecursionError, ArithmeticError) as error:
            raise InvalidMeasurement(f"its other fields cannot be kept: {error}") from error


def _check_place(name: str, place: object) -> None:
    if not isinstance(place, str) or not place:
        raise InvalidRules(f"{name} must be topic:N, text:… or a field, got {shown(place)}")
    level = place.removeprefix(TOPIC)
    if place.startswith(TOPIC) and not (level.isascii() and level.isdecimal() and 0 < int(level) < 1_000):
        raise InvalidRules(f"{name} must name a level of the topic as topic:1, got {place!r}")
    if place.startswith(TEXT) and (place == TEXT or name in ("value", "event_time")):
        raise InvalidRules(f"{name} must be a field or a level of the topic, got {place!r}")


def _label(name: str, place: str) -> str:
    return name if place == name else f"{name} ({place})"


def _found(place: str, topic: str, row: dict[str, Any]) -> Any:
    """What is at a place; a missing part is None."""
    if place.startswith(TEXT):
        return place.removeprefix(TEXT)
    if place.startswith(TOPIC):
        return _level(topic, int(place.removeprefix(TOPIC)))
    if place in row:
        return row[place]
    part: Any = row
    for name in place.split("."):
        part = part.get(name) if isinstance(part, dict) else None
    return part


def _level(topic: str, number: int) -> Any:
    levels = topic.split("/")
    return levels[number - 1] if number <= len(levels) else None
