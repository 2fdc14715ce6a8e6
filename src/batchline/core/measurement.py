"""A measurement: the message that enters the path."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from batchline.core.moment import EARLIEST_RECEIVE_US, LATEST_RECEIVE_US, moment_of, us_of
from batchline.errors import InvalidMeasurement

__all__ = ["Measurement"]

LARGEST_SIZE = 2**62


@dataclass(frozen=True, slots=True, init=False)
class Measurement:
    """What one device measured of one type at one moment, and when we received it."""

    #: The stream it belongs to: a device, a host.
    key: str
    #: What was measured.
    type: str
    #: When it was generated, in microseconds since the epoch.
    event_us: int
    #: When it was received, in microseconds since the epoch.
    receive_us: int
    #: Whatever the user wants carried along.
    payload: Any = field(hash=False)
    #: Its size in bytes; None where nobody needs it.
    size: int | None

    def __init__(
        self,
        key: str,
        type: str,
        event_time: datetime,
        receive_time: datetime,
        payload: Any = None,
        size: int | None = None,
    ) -> None:
        _fill(self, key, type, _us("event_time", event_time), _us("receive_time", receive_time), payload, size)

    @classmethod
    def from_us(
        cls, key: str, type: str, event_us: int, receive_us: int, payload: Any = None, size: int | None = None
    ) -> Self:
        """The same from times in microseconds since the epoch, as the inside of Batchline has them."""
        for name, us in (("event_us", event_us), ("receive_us", receive_us)):
            if not isinstance(us, int):
                raise InvalidMeasurement(f"{name} must be a whole number of microseconds, got {us!r}")
        measurement = cls.__new__(cls)
        _fill(measurement, key, type, event_us, receive_us, payload, size)
        return measurement

    @property
    def event_time(self) -> datetime:
        """When it was generated, in UTC."""
        return moment_of(self.event_us)

    @property
    def receive_time(self) -> datetime:
        """When it was received, in UTC."""
        return moment_of(self.receive_us)


def _us(name: str, moment: datetime) -> int:
    if not isinstance(moment, datetime):
        raise InvalidMeasurement(f"{name} must be a datetime, got {moment!r} ({type(moment).__name__})")
    try:
        return us_of(moment)
    except ValueError as error:
        raise InvalidMeasurement(f"{name}: {error}") from None


_set = object.__setattr__  # the class is frozen for everybody else


def _fill(
    measurement: Measurement, key: str, kind: str, event_us: int, receive_us: int, payload: Any, size: int | None
) -> None:
    if not isinstance(key, str):
        raise InvalidMeasurement(f"key must be a string, got {key!r}")
    if not isinstance(kind, str):
        raise InvalidMeasurement(f"type must be a string, got {kind!r}")
    if not EARLIEST_RECEIVE_US <= receive_us <= LATEST_RECEIVE_US:
        raise InvalidMeasurement(f"receive_time must lie between the years 1000 and 9000, got {receive_us} µs")
    if size is not None:
        _check_size(size)
    _set(measurement, "key", key)
    _set(measurement, "type", kind)
    _set(measurement, "event_us", event_us)
    _set(measurement, "receive_us", receive_us)
    _set(measurement, "payload", payload)
    _set(measurement, "size", size)


def _check_size(size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidMeasurement(f"size must be a whole number of bytes, got {size!r} ({type(size).__name__})")
    if not 0 <= size <= LARGEST_SIZE:
        raise InvalidMeasurement(f"size must lie between 0 and 2**62 bytes, got {size}")
