"""Messages of thin-edge.io, collectd and of any JSON, as measurements; whatever else comes has a reason."""

import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.errors import InvalidMeasurement, InvalidRules
from batchline.sources.collectd import parse_collectd
from batchline.sources.files import files_of, read_measurements
from batchline.sources.iso_time import us_from_text
from batchline.sources.landing import Landing
from batchline.sources.mapped_json import MeasurementMapping
from batchline.sources.measured import MOST_NAMED, MOST_VALUES, Measured, Parser
from batchline.sources.payload import items_from, json_from
from batchline.sources.thin_edge import parse_thin_edge

MAIN = "te/device/main///m/"
NOON = us_from_text("2026-11-15T12:00:00Z") or 0
NOW = NOON + 7
MAPPING = MeasurementMapping(key="topic:2", type="what", value="reading.v", event_time="t")


def shape(found: list[Measured]) -> list[tuple[str, str, int, float]]:
    return [one[:4] for one in found]


@pytest.mark.parametrize(
    ("topic", "payload", "expected"),
    [
        (MAIN, {"temperature": 23}, [("device/main", "temperature", NOW, 23.0)]),
        (MAIN, {"temperature": 23, "time": "2026-11-15T12:00:00Z"}, [("device/main", "temperature", NOON, 23.0)]),
        (MAIN, {"t": 1, "time": "2026-11-15T14:00:00+02:00"}, [("device/main", "t", NOON, 1.0)]),
        (MAIN, {"t": 1, "time": NOON // 1_000_000}, [("device/main", "t", NOON, 1.0)]),
        (MAIN, {"t": 1, "time": NOON / 1e6 + 0.125}, [("device/main", "t", NOON + 125_000, 1.0)]),
        (
            "te/device/main/service/nodered/m/weather",
            {"coordinate": {"x": 1, "y": -2.5}, "n": 0},
            [
                ("device/main/service/nodered", "weather/coordinate.x", NOW, 1.0),
                ("device/main/service/nodered", "weather/coordinate.y", NOW, -2.5),
                ("device/main/service/nodered", "weather/n", NOW, 0.0),
            ],
        ),
        (MAIN + "a", {"type": "b", "t": 1}, [("device/main", "b/t", NOW, 1.0)]),
        (MAIN, {"type": 3}, [("device/main", "type", NOW, 3.0)]),
        ("te/custom////m/", {"t": 1}, [("custom", "t", NOW, 1.0)]),
    ],
)
def test_a_thin_edge_message_is_a_measurement_for_each_value(
    topic: str, payload: object, expected: list[tuple[str, str, int, float]]
) -> None:
    assert shape(parse_thin_edge(topic, json.dumps(payload).encode(), NOW)) == expected


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("te/device/main///e/login", b"{}", "expected a topic te/"),
        ("te/////m/", b'{"t": 1}', "the entity must be text that is not empty"),
        (MAIN, b"", "not JSON: Expecting value"),
        (MAIN, b"\xff", "not UTF-8"),
        (MAIN, b"[1]", r"expected a JSON object, got \[1\]"),
        (MAIN, b"{}", "it holds no value"),
        (MAIN, b'{"time": 1}', "it holds no value"),
        (MAIN, b'{"t": "warm"}', "t must be a number, got 'warm'"),
        (MAIN, b'{"t": true}', "t must be a number, got True"),
        (MAIN, b'{"t": null}', "t must be a number, got None"),
        (MAIN, b'{"t": 1e999}', "t must be a number that 64 bits can hold"),
        (MAIN, b'{"t": NaN}', "NaN is no number"),
        (MAIN, b'{"t": 1, "t": 2}', "two fields of one name"),
        (MAIN, b'{"a.b": 1, "a": {"b": 2}}', "two values named 'a.b'"),
        (MAIN, b'{"t": 1, "time": "2026-11-15T12:00:00"}', "time: expected a time with a zone"),
        (MAIN, b'{"t": 1, "time": "2026-02-30T12:00:00Z"}', "time: expected a time with a zone"),
        (MAIN, b'{"t": 1, "time": [1]}', "time: expected a time with a zone"),
        (MAIN, b'{"t": 1, "time": 1e300}', "time must lie in the years 1 to 9999"),
        (MAIN, b'{"t": 1, "time": 1e999999999}', "time must lie in the years 1 to 9999"),
        (MAIN, b'{"\\ud800": 1}', "a name must be text that UTF-8 can hold"),
        (MAIN, b"[" * 100_000, "not JSON that can be read"),
        (MAIN, b'{"t": 1' + b"0" * 5_000 + b"}", "not JSON that can be read"),
    ],
)
def test_what_thin_edge_does_not_send_has_a_reason(topic: str, payload: bytes, reason: str) -> None:
    with pytest.raises(InvalidMeasurement, match=reason):
        parse_thin_edge(topic, payload, NOW)


@pytest.mark.parametrize("end", [b"", b"\0"])
def test_a_collectd_message_is_a_measurement_for_each_value(end: bytes) -> None:
    one = parse_collectd("collectd/pump/cpu/percent-active", b"1763208000.125:12.5" + end, NOW)
    assert shape(one) == [("pump", "cpu.percent-active", 1_763_208_000_125_000, 12.5)]
    two = parse_collectd("collectd/pump/interface-eth0/if_octets", b"1763208000:1:2e3" + end, NOW)
    assert [(found.type, found.value) for found in two] == [
        ("interface-eth0.if_octets.1", 1.0),
        ("interface-eth0.if_octets.2", 2000.0),
    ]


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("collectd/pump/cpu", b"1:2", "expected a topic collectd/host/plugin/value"),
        ("collectd/pump//x", b"1:2", "expected a topic collectd/host/plugin/value"),
        ("collectd//cpu/x", b"1:2", "the host must be text that is not empty"),
        ("collectd/pump/cpu/x", b"1763208000", "expected timestamp:value"),
        ("collectd/pump/cpu/x", b"1763208000:", "expected timestamp:value"),
        ("collectd/pump/cpu/x", b"N:1", "expected timestamp:value"),
        ("collectd/pump/cpu/x", b"nan:1", "expected timestamp:value"),
        ("collectd/pump/cpu/x", b"1:1\0\0", "expected timestamp:value"),
        ("collectd/pump/cpu/x", b"1:nan", "value 1 must be a number that 64 bits can hold"),
        ("collectd/pump/cpu/x", b"1:1:sNaN", "value 2 must be a number that 64 bits can hold"),
        ("collectd/pump/cpu/x", b"1e300:1", "the timestamp must lie in the years 1 to 9999"),
    ],
)
def test_what_collectd_does_not_send_has_a_reason(topic: str, payload: bytes, reason: str) -> None:
    with pytest.raises(InvalidMeasurement, match=reason):
        parse_collectd(topic, payload, NOW)


def test_a_mapping_finds_levels_fields_inner_fields_and_fixed_texts() -> None:
    payload = b'{"what": "temp", "reading": {"v": 21.5}, "t": 1763208000, "unit": "C"}'
    assert MAPPING("plant/line1", payload, NOW) == [
        Measured("line1", "temp", 1_763_208_000_000_000, 21.5, '{"reading":{"v":21.5},"unit":"C"}')
    ]
    fixed = MeasurementMapping(key="topic:1", type="text:temp", value="v", event_time="t", time_unit="ms")
    assert shape(fixed("plant", b'[{"v": 1, "t": 1500}, {"v": 2, "t": "1970-01-01T00:00:02Z"}]', NOW)) == [
        ("plant", "temp", 1_500_000, 1.0),
        ("plant", "temp", 2_000_000, 2.0),
    ]
    assert MeasurementMapping(key="k", type="k")("x", b'{"k": "a", "value": 1}', NOW)[0].event_us == NOW


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"[]", "it holds no value"),
        (b"[1]", "expected a JSON object, got 1"),
        (b'{"reading": {"v": 1}, "t": 1}', r"type \(what\) must be text that is not empty, got None"),
        (b'{"what": "a", "reading": 1, "t": 1}', r"value \(reading.v\) must be a number, got None"),
        (b'{"what": "a", "reading": {"v": 1}}', r"event_time \(t\): expected a time with a zone"),
        (b'{"what": "a", "reading": {"v": 1}, "t": 1, "x": 1e999}', "its other fields cannot be kept"),
    ],
)
def test_what_a_mapping_does_not_find_has_a_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(InvalidMeasurement, match=reason):
        MAPPING("plant/line1", payload, NOW)


def test_a_level_that_a_topic_lacks_has_a_reason() -> None:
    with pytest.raises(InvalidMeasurement, match=r"key \(topic:2\) must be text"):
        MAPPING("plant", b'{"what": "a", "reading": {"v": 1}, "t": 1}', NOW)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("key=a", "says where type is"),
        ("key=a,typo=b", "did you mean 'type'"),
        ("key=a,type=b,value=", "value must be topic:N, text:… or a field, got ''"),
        ("key=topic:0,type=b", "key must name a level of the topic as topic:1"),
        ("key=topic:x,type=b", "key must name a level of the topic as topic:1"),
        ("key=a,type=text:", "type must be a field or a level"),
        ("key=a,type=b,value=text:1", "value must be a field or a level"),
        ("key=a,type=b,time_unit=min", "time_unit must be one of 's', 'ms', 'us', got 'min'"),
    ],
)
def test_a_mapping_that_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRules, match=reason):
        MeasurementMapping.from_text(text)


def test_a_mapping_is_read_from_text() -> None:
    text = "key=topic:2, type=what, value=reading.v, event_time=t"
    assert MeasurementMapping.from_text(text) == MAPPING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("time"), inner, max_size=4),
)
PAYLOADS = st.binary() | JSON.map(lambda value: json.dumps(value).encode())
CASES: list[tuple[Parser, str]] = [
    (parse_thin_edge, MAIN),
    (parse_collectd, "collectd/pump/cpu/x"),
    (MeasurementMapping(key="text:pump", type="text:t", event_time="time"), "x"),
]


@pytest.mark.parametrize(("parse", "topic"), CASES)
@given(payload=PAYLOADS, other=st.text())
def test_whatever_comes_is_measurements_that_can_land_or_has_a_reason(
    parse: Parser, topic: str, payload: bytes, other: str
) -> None:
    for name in (topic, other):
        with suppress(InvalidMeasurement):
            found = parse(name, payload, NOW)
            assert found
            assert all(type(one.value) is float and one.key and one.type for one in found)


@given(
    values=st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(-(2**53), 2**53), min_size=1)
)
def test_each_value_of_a_flat_message_is_found_under_its_name(values: dict[str, int]) -> None:
    values = {name: value for name, value in values.items() if name != "time"} or {"t": 1}
    found = parse_thin_edge(MAIN, json.dumps(values).encode(), NOW)
    assert {one.type: Decimal(one.value) for one in found} == values


@given(us=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_seconds_with_a_fraction_are_exact_to_the_microsecond(us: int) -> None:
    seconds = Decimal(us).scaleb(-6)
    (found,) = parse_thin_edge(MAIN, f'{{"t": 1, "time": {seconds:f}}}'.encode(), NOW)
    assert found.event_us == us


def test_what_is_odd_but_a_measurement_lands_and_is_read_back(tmp_path: Path) -> None:
    odd = '{"2026-11-15T12:00:00Z": 1e-320, "ä\\n\\"": -0.0, "x": 1e22, "{}": 4503599627370497.5}'
    with Landing(tmp_path, "odd") as landing:
        landing.land([landing.arrived(NOW, lambda now: parse_thin_edge(MAIN, odd.encode(), now))])
    reading = read_measurements(files_of(tmp_path))
    assert reading.malformed.num_rows == 0
    assert dict(zip(*(reading.table[name].to_pylist() for name in ("type", "value")), strict=True)) == json.loads(odd)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(items=st.lists(JSON, max_size=6), indent=st.sampled_from([None, 0, 2]), before=st.sampled_from(["", " \n"]))
def test_the_items_of_an_array_are_read_one_by_one_as_all_together(
    items: list[object], indent: int | None, before: str
) -> None:
    payload = f"{before}{json.dumps(items, indent=indent)}{before}".encode()
    found = list(items_from(payload))
    assert [item for _, item in found] == items
    assert [json_from(text.encode()) for text, _ in found] == items


@pytest.mark.parametrize(
    "payload",
    [
        b"[",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1]]",
        b"[1] 2",
        b"]",
        b"",
        b"\xff",
        b"[NaN]",
        b"[" * 100000,
        "\ufeff[]".encode(),
        b'[{"a":1,"a":2}]',
    ],
    ids=lambda payload: ascii(payload)[:20],
)
def test_an_array_that_is_not_json_is_refused(payload: bytes) -> None:
    for read in (json_from, lambda payload: list(items_from(payload))):
        with pytest.raises(InvalidMeasurement, match=r"not JSON|not UTF-8"):
            read(payload)


def flat(count: int) -> dict[str, int]:
    return {f"{number:x}": 1 for number in range(count)}


LONG: str = "x" * 60_000
#: Messages of less than 2 MiB, most of which would be some gigabytes of measurements.
LARGE: dict[str, tuple[Parser, str, object, str]] = {
    "nested in a long name": (parse_thin_edge, MAIN, {"x" * (1 << 20): flat(100_000)}, "names of at most 65,536"),
    "nested in names": (parse_thin_edge, MAIN, {LONG: flat(100_000)}, f"at most {MOST_NAMED:,} characters"),
    "nested deep": (parse_thin_edge, MAIN, {LONG: {LONG: flat(100_000)}}, "names of at most 65,536"),
    "of a long type": (parse_thin_edge, MAIN, {"type": LONG} | flat(100_000), f"at most {MOST_NAMED:,} characters"),
    "on a long topic": (MAPPING, f"a/{LONG}", [{"what": "t", "reading": {"v": 1}, "t": 1}] * 30_000, "characters"),
    "of many values": (parse_thin_edge, MAIN, flat(MOST_VALUES + 1), f"at most {MOST_VALUES:,} values"),
    "of two values of one name": (parse_thin_edge, MAIN, flat(60_000) | {"a": {"b": 1}, "a.b": 2}, "two values named"),
}


@pytest.mark.parametrize(("parse", "topic", "message", "reason"), LARGE.values(), ids=LARGE)
def test_a_message_that_would_take_far_more_room_than_it_has_is_refused(
    parse: Parser, topic: str, message: object, reason: str
) -> None:
    with pytest.raises(InvalidMeasurement, match=reason):
        parse(topic, json.dumps(message).encode(), NOW)


def test_collectd_values_under_a_long_name_are_refused() -> None:
    with pytest.raises(InvalidMeasurement, match=f"at most {MOST_NAMED:,} characters"):
        parse_collectd(f"collectd/host/{LONG}/t", b"1" + b":1" * 100_000, NOW)
