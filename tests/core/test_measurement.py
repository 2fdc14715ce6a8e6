"""What a measurement accepts and refuses."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from batchline import Measurement
from batchline.errors import InvalidMeasurement

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_times_come_back_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    measurement = Measurement("pump-1", "flow", NOON.astimezone(tokyo), NOON, {"value": 3}, 12)
    assert measurement.event_time == NOON
    assert measurement.event_time.tzinfo is UTC
    assert measurement == Measurement.from_us(
        "pump-1", "flow", measurement.event_us, measurement.receive_us, {"value": 3}, 12
    )


def test_it_is_frozen_and_can_be_pickled() -> None:
    measurement = Measurement("k", "t", NOON, NOON, b"payload", 7)
    with pytest.raises(AttributeError):
        measurement.key = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(measurement)) == measurement  # noqa: S301 - our own bytes


def test_an_event_time_from_a_device_without_a_clock_is_not_an_error() -> None:
    assert Measurement("k", "t", datetime.min.replace(tzinfo=UTC), NOON).event_us < 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": None}, "key must be a string, got None"),
        ({"key": 7}, "key must be a string, got 7"),
        ({"type": b"x"}, "type must be a string, got b'x'"),
        (
            {"event_time": NOON.replace(tzinfo=None)},
            "event_time: expected a time with a time zone, got the naive 2026-11-15T12",
        ),
        ({"receive_time": NOON.replace(tzinfo=None)}, "receive_time: expected a time with a time zone"),
        ({"event_time": 1_700_000_000}, "event_time must be a datetime, got 1700000000 (int)"),
        ({"receive_time": datetime(1, 1, 1, tzinfo=UTC)}, "receive_time must lie between the years 1000 and 9000"),
        ({"size": -1}, "size must lie between 0 and 2**62 bytes, got -1"),
        ({"size": 1.0}, "size must be a whole number of bytes, got 1.0 (float)"),
        ({"size": True}, "got True (bool)"),
    ],
)
def test_a_wrong_value_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    right: dict[str, Any] = {"key": "k", "type": "t", "event_time": NOON, "receive_time": NOON, "size": 1}
    with pytest.raises(InvalidMeasurement) as caught:
        Measurement(**(right | wrong))
    assert said in str(caught.value)


def test_microseconds_must_be_whole() -> None:
    with pytest.raises(InvalidMeasurement, match=r"event_us must be a whole number of microseconds, got 1\.5"):
        Measurement.from_us("k", "t", 1.5, 2)  # type: ignore[arg-type]
