"""A Kafka topic on Spark: the same batches in batch mode and in a stream, with the broker killed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from batchline import BatchRules, Consumer, Measurement
from batchline.core.moment import moment_of, us_of
from batchline.core.pipeline_tables import pipeline_of
from batchline.errors import InvalidInput
from batchline.flow import run_once
from batchline.runtime.clock import now_us
from batchline.spark import assign_batches, follow, kafka_packages, read_kafka
from tests.servers.server import REPOSITORY
from tests.servers.topics import new_topic, put_records, records_of
from tests.spark.streams import by_library, end_of, shown

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.servers.own import OwnServer
    from tests.spark.conftest import RunPython

FULL = os.environ.get("BATCHLINE_TEST_PROFILE") == "full"
RULES = BatchRules(timedelta(milliseconds=50), timedelta(seconds=2), timedelta(milliseconds=100))
FIELDS: dict[str, Any] = {"type": "what", "event_time": "time", "others": "number long"}
PARTITIONS = 2


def put_some(url: str, topic: str, numbers: range) -> None:
    """Measurements of the last three seconds, and some of the next hour, in a random order."""
    draw, begin_us = random.Random(numbers.start), now_us()
    records = []
    for number in numbers:
        ahead_us = draw.choice([-draw.randrange(3_000_000)] * 9 + [3_600_000_000])
        time = moment_of(begin_us + ahead_us).isoformat(timespec="microseconds")
        said = {"what": f"type-{draw.randrange(3)}", "time": time, "number": number}
        records.append((f"ключ-{draw.randrange(8)}".encode(), json.dumps(said).encode()))
    put_records(url, topic, records)


def in_topic(url: str, topic: str) -> list[Measurement]:
    """The measurements of a topic in receive order, as Kafka's own client reads them."""
    records = sorted(records_of(url, topic), key=lambda record: (record.timestamp()[1], record.offset()))
    measurements = []
    for record in records:
        said = json.loads(record.value() or b"")
        time_us, key = us_of(datetime.fromisoformat(said["time"])), (record.key() or b"").decode()
        measurements.append(
            Measurement.from_us(key, said["what"], time_us, record.timestamp()[1] * 1_000, said["number"], 1)
        )
    return measurements


def test_a_batch_job_says_what_the_library_says(spark: SparkSession, kafka_url: str) -> None:
    topic = new_topic(kafka_url, PARTITIONS)
    put_some(kafka_url, topic, range(200))
    messages = in_topic(kafka_url, topic)
    rows, malformed = read_kafka(spark, f"{kafka_url}/{topic}", **FIELDS)
    batched = assign_batches(rows, RULES, order=["offset"], until=end_of(messages))
    expected = by_library(RULES, messages)
    assert shown(batched.toArrow()) == expected
    assert {row[1] for row in expected} >= {"batched", "late", "future"}
    assert malformed.count() == 0


def test_a_stream_says_what_the_library_says_although_the_broker_is_killed_on_the_way(
    spark: SparkSession, own_kafka: OwnServer, tmp_path: Path
) -> None:
    topic, handed_out = new_topic(own_kafka.url, PARTITIONS), dict[int, pa.Table]()

    def each(rows: DataFrame, epoch: int) -> None:
        handed_out[epoch] = rows.toArrow()

    def following(**trigger: Any) -> Any:
        rows, _ = read_kafka(
            spark, f"{own_kafka.url}/{topic}", stream=True, options={"maxOffsetsPerTrigger": 60}, **FIELDS
        )
        given: dict[str, Any] = {"order": ["offset"], "partition": "partition", "lanes": 2, "trigger": trigger}
        return follow(rows, RULES, each, checkpoint=str(tmp_path / "checkpoint"), **given)

    put_some(own_kafka.url, topic, range(100))
    running = following(processingTime="0 seconds")
    running.query.processAllAvailable()
    own_kafka.end()
    own_kafka.start()
    put_some(own_kafka.url, topic, range(100, 160))
    running.query.processAllAvailable()
    running.stop()
    put_some(own_kafka.url, topic, range(160, 200))
    rest = following(availableNow=True)
    rest.finish()
    assert rest.summary()["read"] == 200
    assert rest.summary()["behind_watermark"] == 0
    answered = pa.concat_tables(handed_out[epoch] for epoch in sorted(handed_out))
    assert shown(answered) == by_library(RULES, in_topic(own_kafka.url, topic))


GOOD = {"type": "t", "event_time": "2026-11-15T12:00:00.123456789+01:00", "value": 21.5}
#: Records that are no measurements, and why.
WRONG: list[tuple[bytes | None, bytes | None, str]] = [
    (b"A", None, "the record has no value"),
    (b"A", b"\xff{}", "not UTF-8"),
    (b"A", b'{"type": "t", ', "no JSON object, or not of the fields value double"),
    (b"A", json.dumps(GOOD | {"value": "warm"}).encode(), "no JSON object, or not of the fields value double"),
    (b"A", b"", "not one JSON object"),
    (b"A", b"null", "type is missing"),
    (b"A", b"21.5", "no JSON object"),
    (b"A", f"[{json.dumps(GOOD)}]".encode(), "no JSON object"),
    (b"A", f"{json.dumps(GOOD)} 5".encode(), "no JSON object"),
    (b"A", (json.dumps(GOOD) * 2).encode(), "no JSON object"),
    (b"A", f"{json.dumps(GOOD)},{json.dumps(GOOD)}".encode(), "not one JSON object"),
    (b"A", b"{'type': 't'}", "no JSON object"),
    (None, json.dumps(GOOD).encode(), "the key of the record is missing"),
    (b"\xff", json.dumps(GOOD).encode(), "the key of the record is not UTF-8"),
    (b"A", b"{}", "type is missing"),
    (b"A", b'{"type": "t"}', "event_time is missing"),
    (b"A", b'{"type": "t", "event_time": "2026-11-15T12:00:00"}', "got 2026-11-15T12:00:00"),
    (b"A", b'{"type": "t", "event_time": "2026-02-30T12:00:00Z"}', "got 2026-02-30T12:00:00Z"),
    (b"A", b'{"type": "t", "event_time": "0001-01-01T00:00:00+01:00"}', "got 0001-01-01T00:00:00+01:00"),
]
#: Times in other forms that files may have them in, too.
TIMES = {"2026-11-15 12+01": 11, "2026-11-15T12:00+0130": 10, "2026-11-15T12Z": 12, "2026-11-15T12:00:00.5Z": 12}


def test_every_record_is_a_measurement_or_is_kept_with_a_reason(spark: SparkSession, kafka_url: str) -> None:
    topic = new_topic(kafka_url)
    put_records(kafka_url, topic, [(b"A", json.dumps(GOOD).encode()), *((key, value) for key, value, _ in WRONG)])
    rows, malformed = read_kafka(spark, f"{kafka_url}/{topic}")
    (row,) = rows.toArrow().to_pylist()
    assert {name: row[name] for name in ("key", "type", "value", "partition", "offset")} == {
        "key": "A", "type": "t", "value": 21.5, "partition": 0, "offset": 0,
    }  # fmt: skip
    assert row["event_time"].isoformat() == "2026-11-15T11:00:00.123456+00:00"
    assert row["size"] == len(json.dumps(GOOD))
    kept = malformed.orderBy("offset").toArrow().to_pylist()
    assert [(one["offset"], one["value"]) for one in kept] == [(at, one[1]) for at, one in enumerate(WRONG, 1)]
    for one, (_, _, reason) in zip(kept, WRONG, strict=True):
        assert reason in one["reason"]
    times = [(b"A", json.dumps(GOOD | {"event_time": time}).encode()) for time in TIMES]
    put_records(kafka_url, topic, times)
    later = rows.where(f"offset > {len(WRONG)}").orderBy("offset").toArrow()
    assert [moment.hour for moment in later["event_time"].to_pylist()] == list(TIMES.values())
    by_field, _ = read_kafka(spark, f"{kafka_url}/{topic}", key="type", type="event_time", others="")
    assert by_field.first().key == "t"  # type: ignore[union-attr] # there is a row


def test_times_of_producers_are_not_taken_for_receive_times_unless_asked(spark: SparkSession, kafka_url: str) -> None:
    topic = new_topic(kafka_url, config={"message.timestamp.type": "CreateTime"})
    put_records(kafka_url, topic, [(b"A", json.dumps(GOOD).encode())])
    address = f"{kafka_url}/{topic}"
    with pytest.raises(Exception, match=r"message\.timestamp\.type to LogAppendTime"):
        read_kafka(spark, address).measurements.collect()
    assert read_kafka(spark, address, times="any").measurements.count() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": "appended"}, "times must be one of 'append', 'any', got 'appended'; did you mean 'append'"),
        ({"type": None}, "type must be the name of a field of the JSON, got None"),
        ({"others": "value duoble"}, "others must be written as in SQL"),
        ({"others": "offset long"}, "others must name further fields, each once; it has offset"),
        ({"options": {"Subscribe": "other"}}, "which servers and topic are read is said by the address"),
    ],
)
def test_what_cannot_be_read_is_answered_before_anything_runs(
    spark: SparkSession, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_kafka(spark, "kafka://localhost:9092/topic", **options)


def blocks_of(page: str, **replaced: str) -> list[str]:
    """What a page shows, on our servers and in our directory."""
    text = (REPOSITORY / "docs/howto" / page).read_text()
    for shown_there, here in replaced.items():
        text = text.replace(shown_there, here)
    return re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


async def consume(consumer: Consumer, count: int) -> None:
    """Until so many messages are done."""
    running = asyncio.ensure_future(consumer.run())
    while consumer.outcomes["done"] < count:
        await asyncio.sleep(0.01)
    consumer.stop()
    await running


@pytest.mark.usefixtures("spark")
def test_the_page_about_a_timeline_between_two_topics_holds_records_until_their_moments(
    kafka_url: str, tmp_path: Path
) -> None:
    before, after = new_topic(kafka_url), new_topic(kafka_url)
    baskets = [{"basket": 1}, {"basket": 2, "remind_at": "2026-01-01T08:00:00Z"}, {"remind_at": "9000-01-01T00:00:00Z"}]
    put_records(kafka_url, before, [(b"ada", json.dumps(basket).encode()) for basket in baskets])
    here = {
        "localhost:9092": kafka_url.removeprefix("kafka://"),
        '"baskets"': f'"{before}"',
        '"reminders"': f'"{after}"',
        "held.db": f"{tmp_path}/held.db",
        "held-checkpoint": f"{tmp_path}/checkpoint",
    }
    page: dict[str, Any] = {}
    for block in blocks_of("kafka-time-buffer.md", **here):
        exec(compile(block, "kafka-time-buffer.md", "exec"), page)  # noqa: S102 - our own page
    asyncio.run(asyncio.wait_for(consume(page["consumer"], 1), 60))
    (record,) = records_of(kafka_url, after)
    assert (record.key(), json.loads(record.value() or b"")) == (b"ada", baskets[1])
    assert record.headers() == [("id", f"{before}/0/1".encode())]
    assert page["timeline"].count("baskets held").waiting == 2
    page.clear()  # its functions know it: the producer would wait for the garbage collector


def test_the_page_about_kafka_reads_a_topic(spark: SparkSession, kafka_url: str) -> None:
    topic = new_topic(kafka_url)
    put_records(kafka_url, topic, [(b"A", json.dumps(GOOD).encode())])
    here = {"kafka://localhost:9092": kafka_url, "/readings": f"/{topic}"}
    reading, _, writing = blocks_of("read-kafka.md", **here)
    page: dict[str, Any] = {}
    for block in (reading, writing):
        exec(compile(block, "read-kafka.md", "exec"), page)  # noqa: S102 - our own page
    assert page["readings"].count() == 1
    assert "verdict" in page["batched"].columns


WITHOUT_CONNECTOR = """
from batchline.errors import MissingExtra
from batchline.spark import read_kafka, session
try:
    read_kafka(session(master="local[1]"), "kafka://localhost:9092/topic")
except MissingExtra as error:
    print(error)
"""


@pytest.mark.skipif(not FULL, reason="starts a Java of its own")
def test_a_session_without_the_connector_is_told_what_to_add(run_python: RunPython) -> None:
    said = run_python(WITHOUT_CONNECTOR)
    assert "this Spark session has no connector for Kafka: start it with" in said.stdout, said.stderr
    assert f'"spark.jars.packages": "{kafka_packages()}"' in said.stdout


def test_a_pipeline_goes_from_topic_to_topic(spark: SparkSession, kafka_url: str, tmp_path: Path) -> None:
    topic, arrived = new_topic(kafka_url, PARTITIONS), new_topic(kafka_url)
    put_some(kafka_url, topic, range(150))
    messages = in_topic(kafka_url, topic)
    put_records(kafka_url, topic, [(b"a", b"no measurement")])
    pipeline = pipeline_of(
        {
            "name": "topics",
            "out": str(tmp_path / "out"),
            "source": {
                "kind": "kafka",
                "address": f"{kafka_url}/{topic}",
                "columns": {"type": "what", "event_time": "time"},
                "others": "number long",
            },
            "batch": {"window": "50ms", "max_delay": "2s", "leap_limit": "100ms"},
            "pack": {"max_items": 20},
            "publish": {"store": f"sqlite:///{tmp_path}/store.db", "lanes": 2},
            "sink": {"address": f"{kafka_url}/{arrived}", "each": "measurement"},
        }
    )
    summary = run_once(pipeline, spark)
    batched = sorted(number for number, verdict, *_ in by_library(RULES, messages) if verdict == "batched")
    assert sorted(json.loads(one.value() or b"")["number"] for one in records_of(kafka_url, arrived)) == batched
    assert summary.complete
    assert (summary.read, summary.rejected["malformed"]) == (len(messages) + 1, 1)
    assert summary.batched == summary.published == summary.arrived == len(batched)
