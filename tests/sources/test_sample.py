import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from batchline.columnar.columns import MOMENT
from batchline.core.batcher import EventTimeBatcher
from batchline.core.measurement import Measurement
from batchline.errors import InvalidRules
from batchline.sources.sample import CAUSES, Fleet, describe, sample_fleet

#: Nothing goes wrong here; a test adds the one fault it is about.
FLAWLESS = Fleet(devices=10, minutes=1, slow=0, duplicates=0, conflicts=0, loss=0, skewed=0, outages=0)
SMALL = Fleet(devices=20, minutes=0.5)
COLUMNS: dict[str, pa.DataType] = {
    "key": pa.string(),
    "type": pa.string(),
    "event_time": MOMENT,
    "receive_time": MOMENT,
    "size": pa.int64(),
    "value": pa.float64(),
    "sequence": pa.int64(),
    "cause": pa.string(),
}
SCHEMA = pa.schema(COLUMNS)

quarters = st.floats(0, 0.25)
fleets = st.builds(
    Fleet,
    devices=st.integers(1, 6),
    minutes=st.floats(0.1, 0.3),
    seed=st.integers(0, 2**63),
    interval_ms=st.floats(50, 2_000),
    jitter_ms=st.floats(0, 40),
    delay_ms=st.floats(0, 500),
    slow=quarters,
    duplicates=quarters,
    conflicts=quarters,
    loss=quarters,
    skewed=st.floats(0, 0.5),
    outages=st.floats(0, 0.5),
)


def texts(table: pa.Table, column: str) -> NDArray[Any]:
    return np.array(table[column].to_pylist(), dtype=object)


def moments_us(table: pa.Table, column: str) -> NDArray[np.int64]:
    return np.asarray(table[column].cast(pa.int64()))


def delays_us(table: pa.Table) -> NDArray[np.int64]:
    return moments_us(table, "receive_time") - moments_us(table, "event_time")


def rows_by(table: pa.Table, cause: str) -> pa.Table:
    return table.filter(pc.field("cause") == cause)


def originals(table: pa.Table, cause: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row of the cause with the last normal reading of its sensor at or before it."""
    normal = sorted(rows_by(table, "normal").to_pylist(), key=lambda row: row["event_time"])
    pairs = []
    for row in rows_by(table, cause).to_pylist():
        sensor = [one for one in normal if (one["key"], one["type"]) == (row["key"], row["type"])]
        pairs.append((row, [one for one in sensor if one["event_time"] <= row["event_time"]][-1]))
    return pairs


def numbers(table: pa.Table) -> NDArray[Any]:
    return np.array([int(key.rsplit("-", 1)[1]) for key in texts(table, "key")])


# The same fleet, the same table


def test_the_columns_are_those_of_a_measurement_and_what_was_done_to_it() -> None:
    table = sample_fleet(SMALL)
    assert table.schema == SCHEMA
    assert all(column.null_count == 0 for column in table.columns)


def test_the_same_fleet_gives_the_same_table() -> None:
    assert sample_fleet(SMALL).equals(sample_fleet(replace(SMALL)))


def test_another_seed_gives_another_table() -> None:
    assert not sample_fleet(SMALL).equals(sample_fleet(replace(SMALL, seed=3)))


@settings(max_examples=25, deadline=None)
@given(fleets, st.integers(0, 6))
def test_a_larger_fleet_contains_the_smaller_one(fleet: Fleet, fewer: int) -> None:
    larger, smaller = sample_fleet(fleet), sample_fleet(replace(fleet, devices=min(fewer, fleet.devices)))
    shared = larger.filter(pa.array(numbers(larger) < fewer, pa.bool_()))
    assert shared.drop_columns("sequence").equals(smaller.drop_columns("sequence"))


@pytest.mark.parametrize("nothing", [{"devices": 0}, {"minutes": 0}, {"loss": 1}])
def test_a_fleet_that_says_nothing_is_an_empty_table(nothing: dict[str, float]) -> None:
    table = sample_fleet(replace(FLAWLESS, **nothing))  # type: ignore[arg-type] # one of several fields
    assert table.schema == SCHEMA
    assert len(table) == 0


# Properties of any fleet


@settings(max_examples=40, deadline=None)
@given(fleets)
def test_rows_are_in_order_of_receipt_and_numbered(fleet: Fleet) -> None:
    table = sample_fleet(fleet)
    assert np.all(np.diff(moments_us(table, "receive_time")) >= 0)
    assert table["sequence"].to_pylist() == list(range(len(table)))


@settings(max_examples=40, deadline=None)
@given(fleets)
def test_a_sensor_s_normal_readings_are_strictly_increasing_in_event_time(fleet: Fleet) -> None:
    order: list[Any] = [(name, "ascending") for name in ("key", "type", "event_time")]
    normal = rows_by(sample_fleet(fleet), "normal").sort_by(order)
    key, type_ = texts(normal, "key"), texts(normal, "type")
    same_sensor = (key[1:] == key[:-1]) & (type_[1:] == type_[:-1])
    steps_us = np.diff(moments_us(normal, "event_time"))[same_sensor]
    assert np.all(steps_us >= max(1, round(fleet.interval_ms * 1_000) - round(fleet.jitter_ms * 1_000)))


@settings(max_examples=40, deadline=None)
@given(fleets)
def test_only_a_clock_that_is_off_sees_a_reading_received_before_it_was_taken(fleet: Fleet) -> None:
    table = sample_fleet(fleet)
    assert set(texts(table, "cause")[delays_us(table) < 0]) <= {"skewed"}


@settings(max_examples=40, deadline=None)
@given(fleets)
def test_sizes_are_those_of_the_payload_as_json(fleet: Fleet) -> None:
    for row in sample_fleet(fleet).slice(0, 50).to_pylist():
        value = int(row["value"]) if row["value"].is_integer() else row["value"]
        time = f"{row['event_time']:%Y-%m-%dT%H:%M:%S.%fZ}"
        payload = {"device": row["key"], "type": row["type"], "time": time, "value": value}
        assert row["size"] == len(json.dumps(payload, separators=(",", ":")))


# How much goes wrong


def test_nothing_goes_wrong_in_a_flawless_fleet() -> None:
    table = sample_fleet(FLAWLESS)
    sensors = len(set(zip(texts(table, "key"), texts(table, "type"), strict=True)))
    assert Counter(texts(table, "cause")) == {"normal": sensors * 60}


@pytest.mark.parametrize(
    ("share", "cause"),
    [
        ("slow", "slow"),
        ("duplicates", "duplicate"),
        ("conflicts", "conflict"),
        ("skewed", "skewed"),
        ("outages", "burst"),
    ],
)
def test_a_cause_occurs_only_when_its_share_is_above_0(share: str, cause: str) -> None:
    everything = replace(SMALL, slow=0.2, duplicates=0.2, conflicts=0.2, skewed=0.3, outages=0.3)
    assert set(texts(sample_fleet(everything), "cause")) == set(CAUSES)
    without = replace(everything, **{share: 0})  # type: ignore[arg-type] # one of several fields
    assert set(texts(sample_fleet(without), "cause")) == set(CAUSES) - {cause}


@pytest.mark.parametrize(("share", "cause"), [("slow", "slow"), ("duplicates", "duplicate"), ("conflicts", "conflict")])
@pytest.mark.parametrize("asked", [0.01, 0.1, 0.5])
def test_a_mishap_befalls_the_share_of_readings_asked_for(share: str, cause: str, asked: float) -> None:
    fleet = replace(FLAWLESS, devices=30, minutes=5)
    readings = len(sample_fleet(fleet))
    table = sample_fleet(replace(fleet, **{share: asked}))  # type: ignore[arg-type] # one of several fields
    # Five standard deviations: the seed is fixed, so that this holds for good or not at all.
    assert len(rows_by(table, cause)) == pytest.approx(asked * readings, abs=5 * np.sqrt(asked * readings))


@pytest.mark.parametrize("asked", [0.01, 0.1, 0.5])
def test_the_share_asked_for_is_lost(asked: float) -> None:
    fleet = replace(FLAWLESS, devices=30, minutes=5)
    readings = len(sample_fleet(fleet))
    lost = readings - len(sample_fleet(replace(fleet, loss=asked)))
    assert lost == pytest.approx(asked * readings, abs=5 * np.sqrt(asked * readings))


@pytest.mark.parametrize(("share", "cause"), [("skewed", "skewed"), ("outages", "burst")])
@pytest.mark.parametrize("asked", [0.05, 0.3, 1])
def test_a_fault_befalls_the_share_of_devices_asked_for(share: str, cause: str, asked: float) -> None:
    table = sample_fleet(replace(FLAWLESS, devices=100, **{share: asked}))  # type: ignore[arg-type] # as above
    assert len(set(texts(rows_by(table, cause), "key"))) == pytest.approx(asked * 100, abs=2)


# What goes wrong


def test_a_duplicate_is_the_same_reading_received_again() -> None:
    pairs = originals(sample_fleet(replace(FLAWLESS, duplicates=0.1)), "duplicate")
    for again, first in pairs:
        assert [again[name] for name in ("event_time", "value", "size")] == [
            first[name] for name in ("event_time", "value", "size")
        ]
        gap = again["receive_time"] - first["receive_time"]
        assert timedelta(milliseconds=1) <= gap <= timedelta(milliseconds=300)
    assert pairs


def test_a_conflict_is_the_same_type_shortly_after() -> None:
    pairs = originals(sample_fleet(replace(FLAWLESS, conflicts=0.1)), "conflict")
    for other, first in pairs:
        gap = other["event_time"] - first["event_time"]
        assert timedelta(milliseconds=1) <= gap <= timedelta(milliseconds=300)
        assert other["receive_time"] > first["receive_time"]
    assert any(other["value"] != first["value"] for other, first in pairs)


def test_slow_readings_are_held_up_for_far_longer_than_usual() -> None:
    table = sample_fleet(replace(FLAWLESS, slow=0.1, delay_ms=50))
    usual_us, slow_us = (delays_us(rows_by(table, cause)) for cause in ("normal", "slow"))
    assert np.median(usual_us) == pytest.approx(50_000, rel=0.1)
    assert np.mean(usual_us > 400_000) < 0.001
    assert np.mean(slow_us > 400_000) > 0.9


def test_a_burst_holds_all_that_was_buffered_and_arrives_at_the_reconnect() -> None:
    table = sample_fleet(replace(FLAWLESS, devices=4, minutes=10, outages=1))
    for key in sorted(set(texts(table, "key"))):
        device = table.filter(pc.field("key") == key)
        burst = rows_by(device, "burst")
        offline_us, online_us = moments_us(burst, "event_time").min(), moments_us(burst, "event_time").max()
        normal_us = moments_us(rows_by(device, "normal"), "event_time")
        assert not np.any((normal_us > offline_us) & (normal_us < online_us))
        assert np.ptp(moments_us(burst, "receive_time")) < 2_000_000
        assert moments_us(burst, "receive_time").min() >= online_us
        assert online_us - offline_us > 25_000_000


def test_clocks_that_are_off_run_ahead_or_behind_or_drift() -> None:
    table = sample_fleet(replace(FLAWLESS, devices=30, minutes=5, skewed=1))
    seen = Counter[str]()
    for key in sorted(set(texts(table, "key"))):
        delay_us = delays_us(table.filter(pc.field("key") == key))
        early_us, late_us = np.median(delay_us[:50]), np.median(delay_us[-50:])
        drifted = abs(late_us - early_us) > 100_000
        seen["drifting" if drifted else "ahead" if early_us < -400_000 else "behind"] += 1
        assert drifted or early_us < -400_000 or early_us > 400_000
    assert seen == {
        "ahead": pytest.approx(10, abs=2),
        "behind": pytest.approx(10, abs=2),
        "drifting": pytest.approx(10, abs=2),
    }


def test_the_sensors_of_a_device_are_read_within_tens_of_milliseconds() -> None:
    table = sample_fleet(replace(FLAWLESS, minutes=0.1))
    for key in set(texts(table, "key")):
        device = table.filter(pc.field("key") == key)
        event_us = np.sort(moments_us(device, "event_time"))
        rounds = event_us.reshape(6, -1)
        assert np.ptp(rounds, axis=1).max() <= 50_000


def test_values_follow_the_day_and_differ_by_kind_of_device() -> None:
    table = sample_fleet(replace(FLAWLESS, devices=40, minutes=24 * 60, interval_ms=1_800_000))
    mean = {
        kind: np.mean(
            table.filter((pc.field("type") == "temperature") & pc.starts_with(pc.field("key"), kind))["value"]
        )
        for kind in ("pump", "weather", "gateway")
    }
    assert mean == {
        kind: pytest.approx(expected, abs=2) for kind, expected in (("pump", 54), ("weather", 9), ("gateway", 41))
    }
    weather = table.filter((pc.field("type") == "temperature") & pc.starts_with(pc.field("key"), "weather"))
    hour = moments_us(weather, "event_time") % 86_400_000_000 / 3_600_000_000
    value = weather["value"].to_numpy()
    assert np.mean(value[(hour > 4) & (hour < 8)]) - np.mean(value[(hour > 16) & (hour < 20)]) == pytest.approx(
        12, abs=2
    )


def test_the_default_faults_show_every_way_to_be_rejected() -> None:
    table = sample_fleet(Fleet(minutes=0.5))
    batcher, reasons = EventTimeBatcher(), Counter[str | None]()
    for row in table.select(["key", "type", "event_time", "receive_time"]).to_pylist():
        reasons[batcher.add(Measurement(**row)).reason] += 1
    assert set(reasons) == {None, "late", "future", "duplicate"}
    assert 0.90 <= reasons[None] / len(table) <= 0.95
    batcher.flush()
    assert any(batch.end - batch.start < timedelta(milliseconds=500) for batch in batcher.closed())


# Summary


def test_a_sample_is_described_by_its_counts_and_ends() -> None:
    table = sample_fleet(SMALL)
    assert describe(table) == {
        "rows": len(table),
        "devices": 20,
        "types": len(set(texts(table, "type"))),
        "first_event_time": min(texts(table, "event_time")),
        "last_event_time": max(texts(table, "event_time")),
        "causes": dict.fromkeys(CAUSES, 0) | Counter(texts(table, "cause")),
    }


def test_an_empty_sample_is_described_too() -> None:
    summary = describe(sample_fleet(Fleet(devices=0)))
    assert summary["first_event_time"] is summary["last_event_time"] is None
    assert summary["causes"] == dict.fromkeys(CAUSES, 0)


# Fleets that cannot be


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"devices": -1}, r"devices must be a whole number between 0 and 1,000,000, got -1"),
        ({"devices": 1.5}, r"devices must be a whole number .* got 1\.5"),
        ({"devices": True}, r"devices must be a whole number .* got True"),
        ({"seed": -1}, r"seed must be a whole number .* got -1"),
        ({"minutes": -0.1}, r"minutes must be a number between 0 and 10,000,000, got -0\.1"),
        ({"minutes": float("nan")}, r"minutes must be .* got nan"),
        ({"delay_ms": float("inf")}, r"delay_ms must be .* got inf"),
        ({"delay_ms": "60"}, r"delay_ms must be a number .* got '60'"),
        ({"loss": 1.01}, r"loss must be a number between 0 and 1, got 1\.01"),
        ({"skewed": -0.01}, r"skewed must be a number between 0 and 1, got -0\.01"),
        ({"loss": 0.6, "slow": 0.5}, r"slow \+ duplicates \+ conflicts \+ loss must be at most 1, got 1\.13"),
        ({"skewed": 0.6, "outages": 0.5}, r"skewed \+ outages must be at most 1, got 1\.1"),
        ({"interval_ms": 0, "jitter_ms": 0}, r"interval_ms must be longer than jitter_ms \(0\), got 0"),
        ({"interval_ms": 10}, r"interval_ms must be longer than jitter_ms \(10\), got 10"),
        ({"start": datetime(2026, 11, 15)}, r"start must be a datetime with a time zone, .* got .*2026, 11, 15"),  # noqa: DTZ001 - naive on purpose
        ({"start": "2026-11-15"}, r"start must be a datetime .* got '2026-11-15'"),
        ({"start": datetime(1000, 1, 1, tzinfo=UTC)}, r"from the years 1001 to 8899"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused_when_built(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=message):
        Fleet(**wrong)
