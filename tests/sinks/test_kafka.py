"""Parcels in Kafka: whole or measurement by measurement, in order, and what is said when they cannot be."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from batchline.core.consignment import Consignment
from batchline.core.kafka_address import KafkaAddress, kafka_address
from batchline.errors import BatchlineError, InvalidInput, RefusedParcel, Throttled, Undelivered
from batchline.sinks.kafka import KafkaSink
from tests.servers.topics import new_topic, records_of

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tests.servers.own import OwnServer

SHORTLY = timedelta(seconds=1)


def parcel(number: int, lane: int = 0, keys: tuple[str, ...] = ("A", "B"), filling: str = "") -> Consignment:
    time = "2026-11-15T12:00:00.000000Z"
    measurements = [{"key": key, "type": "temperature", "value": number, "note": filling} for key in keys]
    payload = json.dumps(measurements).encode()
    return Consignment(f"P{lane}-{number}", "import", lane, number, None, len(keys), time, time, payload)


def headers(record: Message) -> dict[str, bytes]:
    return dict(record.headers() or [])  # type: ignore[arg-type]


def test_a_parcel_is_a_record_whose_key_is_its_lane_and_whose_headers_name_it(kafka_url: str) -> None:
    topic = new_topic(kafka_url, partitions=3)
    sink = KafkaSink(f"{kafka_url}/{topic}")
    for number in (1, 2, 3):
        assert not sink.send([parcel(number, lane) for lane in range(4)])
    asyncio.run(sink.close())
    numbers: dict[bytes, list[bytes]] = {}
    for record in records_of(kafka_url, topic):
        numbers.setdefault(record.key() or b"", []).append(headers(record)["number"])
        told = json.loads(record.value() or b"")
        assert headers(record)["parcel"].decode() == told["parcel"]
        assert [one["key"] for one in told["measurements"]] == ["A", "B"]
    assert numbers == {f"import/{lane}".encode(): [b"1", b"2", b"3"] for lane in range(4)}


def test_measurements_are_records_in_order_each_with_its_key_and_a_repetition_is_known_by_its_headers(
    kafka_url: str,
) -> None:
    topic = new_topic(kafka_url)
    sink = KafkaSink(f"{kafka_url}/{topic}", each="measurement")
    for _ in range(2):
        assert not sink.send([parcel(1, keys=("A", "Ω", "A"))])
    first, again = (records_of(kafka_url, topic)[half : half + 3] for half in (0, 3))
    assert [(record.key() or b"").decode() for record in first] == ["A", "Ω", "A"]
    assert [headers(record) for record in first] == [
        {"parcel": b"P0-1", "number": b"1", "place": b"%d" % place} for place in range(3)
    ]
    told = [(record.key(), record.value(), record.headers()) for record in first]
    assert [(record.key(), record.value(), record.headers()) for record in again] == told
    assert json.loads(first[0].value() or b"") == parcel(1).measurements[0]


def test_what_kafka_never_takes_is_refused_and_the_others_arrive(kafka_url: str) -> None:
    topic = new_topic(kafka_url, config={"max.message.bytes": "2000"})
    sink = KafkaSink(f"{kafka_url}/{topic}", settings={"message.max.bytes": 100_000})
    too_large_for_us, too_large_for_the_broker = parcel(1, 1, filling="x" * 60_000), parcel(1, 2, filling="x" * 2_000)
    answer = sink.send([too_large_for_us, parcel(1, 0), too_large_for_the_broker])
    assert answer is not None
    assert {id: type(error) for id, error in answer.items()} == {"P1-1": RefusedParcel, "P2-1": RefusedParcel}
    assert "MSG_SIZE_TOO_LARGE" in str(answer["P1-1"])
    assert [headers(record)["parcel"] for record in records_of(kafka_url, topic)] == [b"P0-1"]


def test_a_measurement_without_a_key_refuses_its_parcel(kafka_url: str) -> None:
    sink = KafkaSink(f"{kafka_url}/{new_topic(kafka_url)}", each="measurement", key="device")
    answer = sink.send([parcel(1)])
    assert answer is not None
    assert isinstance(answer["P0-1"], RefusedParcel)
    assert "measurement 0 of the parcel has no text 'device'" in str(answer["P0-1"])


def test_while_the_broker_is_away_parcels_are_undelivered_and_when_it_is_back_they_arrive(own_kafka: OwnServer) -> None:
    topic = new_topic(own_kafka.url)
    sink = KafkaSink(f"{own_kafka.url}/{topic}", timeout=SHORTLY)
    patient = KafkaSink(f"{own_kafka.url}/{topic}")
    assert not patient.send([parcel(1)])
    own_kafka.end()
    answer = sink.send([parcel(2)])
    assert answer is not None
    assert isinstance(answer["P0-2"], Undelivered)
    one_place = {"queue.buffering.max.messages": 1}
    full = KafkaSink(f"{own_kafka.url}/{topic}", each="measurement", timeout=SHORTLY, settings=one_place)
    with pytest.raises(Throttled, match="queue stays full"):
        full.send([parcel(2)])
    own_kafka.start()
    assert not patient.send([parcel(2), parcel(3)])
    assert [headers(record)["parcel"] for record in records_of(own_kafka.url, topic)] == [b"P0-1", b"P0-2", b"P0-3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"each": "measurment"}, "each must be one of 'parcel', 'measurement', got 'measurment'; did you mean"),
        ({"settings": {"acks": 1}}, "the setting acks is 'all' in a Kafka sink, got 1"),
        ({"settings": {"no.such": 1}}, "No such configuration property"),
        ({"timeout": timedelta(0)}, "timeout must be"),
        ({"address": "mqtt://localhost/topic"}, "expected the address of a Kafka topic, kafka://host:9092,"),
        ({"address": "kafka://localhost:9092"}, "got the topic ''"),
        ({"address": "kafka:///topic"}, "got no host"),
        ({"address": "kafka://a:b@localhost/topic"}, "has no user in it"),
    ],
)
def test_what_a_sink_cannot_be_made_of_is_named(arguments: dict[str, Any], message: str) -> None:
    address = arguments.pop("address", "kafka://localhost:9092/topic")
    with pytest.raises(BatchlineError, match=message):
        KafkaSink(address, **arguments)


def test_an_address_names_servers_and_a_topic() -> None:
    text = "kafka://one:9092,[::1]:9093,two/fleet.readings_1"
    assert kafka_address(text) == KafkaAddress("one:9092,[::1]:9093,two", "fleet.readings_1")
    assert str(kafka_address(text)) == text
    with pytest.raises(InvalidInput, match="got 5"):
        kafka_address(5)
