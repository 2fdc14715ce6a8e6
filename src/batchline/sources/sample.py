"""A sample fleet: seeded measurements with the faults that real devices have, each row saying what was done to it.

    a device:   read its sensors ─► some readings slow or lost ─► clock off | offline ─► some readings repeated
    the fleet:  join the devices ─► order by receive time ─► work out value and size

A device draws from its own seed, (seed, device number): a larger fleet contains the smaller one.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from batchline.columnar.columns import MOMENT
from batchline.core.moment import us_of
from batchline.errors import InvalidRules

__all__ = ["CAUSES", "Fleet", "describe", "sample_fleet"]

#: What was done to a reading: one thing at most, so that it explains what the batcher answers.
CAUSES: Final = ("normal", "slow", "duplicate", "conflict", "skewed", "burst")
NORMAL, SLOW, DUPLICATE, CONFLICT, SKEWED, BURST, LOST = range(7)
MISHAPS: Final = np.array([SLOW, DUPLICATE, CONFLICT, LOST, NORMAL], np.int8)

MINUTE_US: Final = 60_000_000
DAY_US: Final = 86_400_000_000
SENSOR_SPREAD_US: Final = 40_000  # a device reads its sensors one after the other
DELAY_SPREAD: Final = 0.6  # of the log-normal delay: 1 in 1,000 takes more than six times the median
SLOWER: Final = (8.0, 80.0)  # how many times as long as it would have a slow reading takes
GAP_US: Final = (1_000, 300_000)  # from a reading to its duplicate or conflict
AHEAD_US: Final = (600_000, 5_000_000)
BEHIND_US: Final = (500_000, 30_000_000)
DRIFT: Final = (0.0005, 0.003)  # seconds per second
OFFLINE_FROM: Final = (0.1, 0.7)  # as shares of the whole span, like the next
OFFLINE_FOR: Final = (0.05, 0.2)
BURST_GAP_US: Final = 500.0  # mean, between two buffered readings on reconnect
GOLDEN: Final = (5**0.5 - 1) / 2
PAYLOAD: Final = '{"device":"","type":"","time":"2026-11-15T00:00:00.000000Z","value":}'

#: What the kinds of device measure: kind, type, mean, daily swing, noise, decimals.
SENSORS: Final = (
    ("pump", "temperature", 54, 6, 0.4, 2),
    ("pump", "pressure", 4.2, 0.5, 0.05, 3),
    ("pump", "flow", 12.5, 3, 0.2, 2),
    ("pump", "vibration", 2.6, 0.3, 0.1, 3),
    ("pump", "current", 8.1, 1.2, 0.1, 2),
    ("pump", "power", 3100, 420, 25, 1),
    ("meter", "voltage", 230, 3, 0.4, 1),
    ("meter", "current", 16, 6, 0.3, 3),
    ("meter", "power", 3600, 1200, 60, 1),
    ("meter", "frequency", 50, 0.02, 0.005, 3),
    ("meter", "power_factor", 0.94, 0.02, 0.003, 3),
    ("weather", "temperature", 9, 6, 0.1, 2),
    ("weather", "humidity", 68, 12, 0.5, 1),
    ("weather", "pressure", 1013, 4, 0.1, 1),
    ("weather", "wind_speed", 6, 1.5, 0.4, 1),
    ("weather", "wind_direction", 190, 40, 6, 0),
    ("weather", "illuminance", 21000, 18000, 200, 0),
    ("gateway", "temperature", 41, 3, 0.3, 1),
    ("gateway", "voltage", 24.1, 0.2, 0.03, 2),
    ("gateway", "rssi", -67, 4, 1.5, 0),
    ("gateway", "cpu", 31, 12, 2, 1),
    ("gateway", "memory", 58, 6, 0.5, 1),
)
KIND, TYPE, MEAN, SWING, NOISE, DECIMALS = (np.array(column) for column in zip(*SENSORS, strict=True))
KINDS: Final = tuple(dict.fromkeys(KIND.tolist()))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The devices to imagine and how much goes wrong with them; shares lie between 0 and 1."""

    devices: int = 200
    minutes: float = 10
    seed: int = 2  #: with this one 20 devices already show every way to be rejected
    start: datetime = datetime(2026, 11, 15, tzinfo=UTC)
    interval_ms: float = 1_000  #: between two readings of a sensor
    jitter_ms: float = 10  #: how much after its turn a reading may be taken; below the interval, which keeps the order
    delay_ms: float = 60  #: the median of the network delay
    slow: float = 0.02  #: share of readings that the network holds up for far longer
    duplicates: float = 0.01  #: share of readings that are sent twice
    conflicts: float = 0.02  #: share of readings that another of their type follows 1 to 300 ms later
    loss: float = 0.005  #: share of readings that never arrive
    skewed: float = 0.03  #: share of devices whose clock is off: a third ahead, a third behind, a third drifting
    outages: float = 0.05  #: share of devices that go offline for a while and then deliver all they buffered at once

    def __post_init__(self) -> None:
        _check_number("devices", self.devices, 1_000_000, int)
        _check_number("seed", self.seed, 2**63, int)
        for name in ("minutes", "interval_ms", "jitter_ms", "delay_ms"):
            _check_number(name, getattr(self, name), 10_000_000)
        if _us(self.jitter_ms) >= _us(self.interval_ms):
            raise InvalidRules(f"interval_ms must be longer than jitter_ms ({self.jitter_ms}), got {self.interval_ms}")
        _check_shares(self, "slow", "duplicates", "conflicts", "loss")
        _check_shares(self, "skewed", "outages")
        start: Any = self.start
        if not isinstance(start, datetime) or start.utcoffset() is None or not 1000 < start.year < 8900:
            raise InvalidRules(f"start must be a datetime with a time zone, from the years 1001 to 8899, got {start!r}")


def _check_number(name: str, number: Any, most: float, kinds: Any = (int, float)) -> None:
    if not isinstance(number, kinds) or isinstance(number, bool) or not 0 <= number <= most:
        expected = "whole number" if kinds is int else "number"
        raise InvalidRules(f"{name} must be a {expected} between 0 and {most:,}, got {number!r}")


def _check_shares(fleet: Fleet, *names: str) -> None:
    for name in names:
        _check_number(name, getattr(fleet, name), 1)
    # They exclude each other, hence are parts of one whole.
    total = sum(getattr(fleet, name) for name in names)
    if total > 1 + 1e-9:
        raise InvalidRules(f"{' + '.join(names)} must be at most 1, got {total:g}")


def _us(span_ms: float) -> int:
    return round(span_ms * 1_000)


class _Readings(NamedTuple):
    """Readings as columns: a sensor is a place in SENSORS, a cause one in CAUSES (or lost)."""

    sensor: NDArray[Any]
    event_us: NDArray[Any]
    receive_us: NDArray[Any]
    noise: NDArray[Any]
    cause: NDArray[Any]

    def pick(self, rows: NDArray[Any]) -> "_Readings":
        return _Readings(*(column[rows] for column in self))


def _join(*parts: _Readings) -> _Readings:
    return _Readings(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def sample_fleet(fleet: Fleet) -> pa.Table:
    """The measurements of the fleet in order of receive time; the same fleet gives the same table."""
    rngs = [default_rng(SeedSequence(fleet.seed, spawn_key=(number,))) for number in range(fleet.devices)]
    kinds = [KINDS[rng.integers(len(KINDS))] for rng in rngs]
    parts = [_device(fleet, *device) for device in zip(range(fleet.devices), kinds, rngs, strict=True)]
    device = np.repeat(np.arange(fleet.devices), [len(part.cause) for part in parts])
    no_sensors = np.array([], np.int8)
    readings = _join(_read(fleet, no_sensors, default_rng(0)), *parts)  # so that a fleet may have no devices
    # Stable, so that readings received at once stay in order of device, however many devices there are.
    order = np.argsort(readings.receive_us, kind="stable")
    return _table([f"{kind}-{number:04d}" for number, kind in enumerate(kinds)], device[order], readings.pick(order))


def _device(fleet: Fleet, number: int, kind: str, rng: Generator) -> _Readings:
    sensors = np.flatnonzero(kind == KIND).astype(np.int8)
    # Steps of the golden ratio spread the faulty devices evenly: a small fleet has its share of them too.
    fate = (default_rng(fleet.seed).random() + number * GOLDEN) % 1
    if fate < fleet.skewed:
        return _skew(fleet, _read(replace(fleet, slow=0), sensors, rng), fate / fleet.skewed, rng)
    readings = _read(fleet, sensors, rng)
    if fate < fleet.skewed + fleet.outages:
        _interrupt(fleet, readings, rng)
    return _repeat(readings, rng)


def _read(fleet: Fleet, sensors: NDArray[Any], rng: Generator) -> _Readings:
    interval_us = _us(fleet.interval_ms)
    turns = np.arange(round(fleet.minutes * MINUTE_US) // interval_us).reshape(-1, 1)
    shape = (len(turns), len(sensors))
    first_us = us_of(fleet.start) + rng.integers(interval_us) + rng.integers(SENSOR_SPREAD_US, size=len(sensors))
    event_us = first_us + turns * interval_us + rng.integers(_us(fleet.jitter_ms) + 1, size=shape)
    noise = rng.standard_normal(shape) + 2 * rng.standard_normal(len(sensors))  # no two are calibrated alike
    shares = np.cumsum([fleet.slow, fleet.duplicates, fleet.conflicts, fleet.loss])
    cause = MISHAPS[np.searchsorted(shares, rng.random(shape), side="right")]
    times_longer = np.where(cause == SLOW, rng.uniform(*SLOWER, shape), 1)
    delay_us = 1_000 * fleet.delay_ms * times_longer * np.exp(DELAY_SPREAD * rng.standard_normal(shape))
    columns = np.broadcast_to(sensors, shape), event_us, event_us + delay_us.astype(np.int64), noise, cause
    return _Readings(*(column[cause != LOST] for column in columns))


def _skew(fleet: Fleet, readings: _Readings, way: float, rng: Generator) -> _Readings:
    if way < 1 / 3:
        readings.event_us[:] += rng.integers(*AHEAD_US)
    elif way < 2 / 3:
        readings.event_us[:] -= rng.integers(*BEHIND_US)
    else:
        rate = rng.choice((-1, 1)) * rng.uniform(*DRIFT)
        readings.event_us[:] += (rate * (readings.event_us - us_of(fleet.start))).astype(np.int64)
    readings.cause[:] = SKEWED
    return readings


def _interrupt(fleet: Fleet, readings: _Readings, rng: Generator) -> None:
    span_us = fleet.minutes * MINUTE_US
    offline_us = us_of(fleet.start) + round(rng.uniform(*OFFLINE_FROM) * span_us)
    online_us = offline_us + round(rng.uniform(*OFFLINE_FOR) * span_us)
    held = (readings.event_us >= offline_us) & (readings.event_us < online_us)
    gaps_us = rng.exponential(BURST_GAP_US, np.count_nonzero(held))
    readings.receive_us[held] = online_us + np.cumsum(gaps_us).astype(np.int64)
    readings.cause[held] = BURST


def _repeat(readings: _Readings, rng: Generator) -> _Readings:
    chosen = np.flatnonzero((readings.cause == DUPLICATE) | (readings.cause == CONFLICT))
    again = readings.pick(chosen)
    gap_us = rng.integers(*GAP_US, size=len(chosen), endpoint=True)
    conflict = again.cause == CONFLICT
    again.event_us[conflict] += gap_us[conflict]
    again.noise[conflict] += rng.standard_normal(np.count_nonzero(conflict))
    again.receive_us[:] += gap_us
    readings.cause[chosen] = NORMAL
    return _join(readings, again)


def _table(names: list[str], device: NDArray[Any], readings: _Readings) -> pa.Table:
    key: Any = pa.array(names, pa.string()).take(device)
    type_: Any = pa.array(TYPE.tolist()).take(readings.sensor)
    value: Any = pa.array(_value(readings))
    lengths = [pc.binary_length(text).to_numpy() for text in (key, type_, value.cast(pa.string()))]
    columns = {
        "key": key,
        "type": type_,
        "event_time": pa.array(readings.event_us).cast(MOMENT),
        "receive_time": pa.array(readings.receive_us).cast(MOMENT),
        "size": pa.array(len(PAYLOAD) + np.sum(lengths, axis=0), pa.int64()),
        "value": value,
        "sequence": np.arange(len(device)),
        "cause": pa.array(CAUSES).take(readings.cause),
    }
    return pa.table(columns)


def _value(readings: _Readings) -> NDArray[np.float64]:
    mean, swing, noise, decimals = (column[readings.sensor] for column in (MEAN, SWING, NOISE, DECIMALS))
    daily = np.sin(readings.event_us % DAY_US * (2 * np.pi / DAY_US))
    scaled: NDArray[np.float64] = (mean + swing * daily + noise * readings.noise) * 10.0**decimals
    return np.asarray((scaled.round() + 0.0) / 10.0**decimals)  # no display shows a minus zero


def describe(table: pa.Table) -> dict[str, Any]:
    """How many rows, devices and types a sample has, from when to when, and its rows by cause."""
    causes: Any = table["cause"]
    return {
        "rows": len(table),
        "devices": pc.count_distinct(table["key"]).as_py(),
        "types": pc.count_distinct(table["type"]).as_py(),
        "first_event_time": pc.min(table["event_time"]).as_py(),
        "last_event_time": pc.max(table["event_time"]).as_py(),
        "causes": {cause: pc.sum(pc.equal(causes, pa.scalar(cause)), min_count=0).as_py() for cause in CAUSES},
    }
