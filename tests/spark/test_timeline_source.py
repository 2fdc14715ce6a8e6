"""The timeline as a format of Spark: rows become messages once; a read leases once, however often it is computed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from batchline import NewMessage, Timeline, open_store
from batchline.core.message import ms_of
from batchline.core.spot import SEGMENTS, segment_of
from batchline.core.topic import Topic
from batchline.errors import InvalidInput, InvalidMessage, InvalidStore, InvalidTable, RefusedMessage
from batchline.spark import done, register, release
from batchline.spark.lease_once import MOST_BYTES, NOTES, REMEMBERED_MS, Part, lease_part, parts_of, tidy_notes
from batchline.spark.timeline_options import WriteOptions, read_options, write_options
from batchline.spark.timeline_sink import write_messages
from batchline.spark.timeline_source import LeaseStreamReader, TimelineSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from batchline.core.message import LeasedMessage
    from batchline.stores import Store
    from tests.spark.conftest import RunPython

FORMAT = "batchline_timeline"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'batchline.db'}") as opened:
        yield opened


@pytest.fixture
def timeline(store: Store) -> Timeline:
    timeline = Timeline(store)
    timeline.create_topic("parcels")
    return timeline


def rows(spark: SparkSession, count: int, body: str = "body") -> DataFrame:
    moments = "timestamp_millis(1767225600000 + id % 10) AS at"
    return spark.range(0, count, 1, 4).selectExpr("concat('m-', id) AS id", f"concat('{body} ', id) AS body", moments)


def write(df: DataFrame, store: Store, **options: str) -> None:
    told = {"store": store.address, "topic": "parcels", "producer_group": "etl"} | options
    df.write.format(FORMAT).mode("append").options(**told).save()


def read(spark: SparkSession, store: Store, **options: str | int) -> DataFrame:
    return spark.read.format(FORMAT).options(store=store.address, topic="parcels", **options).load()


def fill(timeline: Timeline, count: int, at: datetime | None = LONG_AGO) -> list[str]:
    ids = [f"m-{number}" for number in range(count)]
    timeline.create("parcels", [NewMessage(id.encode(), at, id) for id in ids], producer_group="etl")
    return ids


def ids_of(df: DataFrame) -> list[str]:
    return sorted(row.id for row in df.select("id").collect())


# --- rows as messages -------------------------------------------------------------------------------------------------


def test_rows_become_messages_and_written_again_change_nothing(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    for _ in range(2):
        write(rows(spark, 1000), store)
        assert timeline.count("parcels").available == 1000
    message = timeline.read("parcels", "m-7", producer_group="etl")
    assert (message.body, message.at, message.priority) == (b"body 7", LONG_AGO + timedelta(milliseconds=7), 0)


def test_moments_priorities_and_bodies_are_kept(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    moment = datetime.now(UTC).replace(microsecond=1) + timedelta(days=1)  # noqa: TID251 - the topic's bounds are of now
    some = [("a", moment, bytearray(b"\x00\xff"), 5), ("b", None, bytearray(), None)]
    write(spark.createDataFrame(some, "id string, at timestamp, body binary, priority short"), store)
    a, b = (timeline.read("parcels", id, producer_group="etl") for id in "ab")
    assert (a.body, a.priority, a.state) == (b"\x00\xff", 5, "waiting")
    assert a.at == moment.replace(microsecond=1000)  # not before its moment
    assert (b.body, b.priority, b.state) == (b"", 0, "available")


def test_rows_are_due_after_a_span_from_when_they_are_written(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    some = [("a", timedelta(hours=1, microseconds=1)), ("b", timedelta(0)), ("c", None)]
    spans = spark.createDataFrame(some, "id string, after interval day to second").selectExpr(
        "id", "id AS body", "after"
    )
    before_ms = timeline.now_ms()
    write(spans, store)
    due_ms = ms_of(timeline.read("parcels", "a", producer_group="etl").at)
    assert before_ms + 3_600_000 < due_ms <= timeline.now_ms() + 3_600_002
    write(spans, store)
    assert ms_of(timeline.read("parcels", "a", producer_group="etl").at) == due_ms, "written again, it stays"
    assert timeline.count("parcels").available == 2
    both = spans.selectExpr("*", "timestamp_millis(0) AS at")
    with pytest.raises(PySparkException, match="InvalidMessage: the moment of a message is given by at and by after"):
        write(both, store)


def test_rows_without_ids_are_taken_only_from_who_says_so(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    bodies = spark.createDataFrame([("x",), ("x",)], "body string")
    with pytest.raises(PySparkException, match="InvalidTable: without the column id a task that is repeated creates"):
        write(bodies, store)
    write(bodies, store, allow_made_ids="true")
    assert timeline.count("parcels").available == 2


def batch_of(*messages: tuple[str | None, str | None]) -> pa.RecordBatch:
    ids, bodies = zip(*messages, strict=True)
    return pa.record_batch([pa.array(ids, pa.string()), pa.array(bodies, pa.string())], names=["id", "body"])


def test_a_message_that_is_there_otherwise_is_refused_by_name_or_kept(store: Store, timeline: Timeline) -> None:
    options = WriteOptions(store.address, "parcels", "etl", allow_made_ids=False, keep=False)
    write_messages(options, [batch_of(("a", "1"), ("a", "1")), batch_of(("a", "1"))])
    assert timeline.count("parcels").available == 1
    for batch in (batch_of(("a", "2"), ("b", "1")), batch_of(("c", "1"), ("c", "2"), ("d", "1"))):
        with pytest.raises(RefusedMessage, match=r"not take 1 of \d messages: '[ac]' conflict: .* another body"):
            write_messages(options, [batch])
        write_messages(options._replace(keep=True), [batch])
    assert timeline.count("parcels").available == 4
    assert timeline.read("parcels", "a", producer_group="etl").body == b"1"
    many = batch_of(*((id, "3") for id in "abcd"))
    with pytest.raises(RefusedMessage, match=r"4 of 4 messages: 'a' .*; 'b' .*; 'c' [^;]*; …$"):
        write_messages(options, [many])
    with pytest.raises(InvalidMessage, match="a row has no id"):
        write_messages(options, [batch_of((None, "1"))])
    with pytest.raises(InvalidMessage, match="the id 'e' has no body"):
        write_messages(options, [batch_of(("e", None))])


def test_what_is_too_far_ahead_ends_the_job_even_if_conflicts_do_not(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    far = spark.sql("SELECT 'a' AS id, 'b' AS body, timestamp'2999-01-01' AS at")
    with pytest.raises(PySparkException, match=r"RefusedMessage: topic 'parcels' does not take 1 of 1 .*'a' too_far"):
        write(far, store, on_conflict="keep")


@pytest.mark.parametrize(
    ("select", "error"),
    [
        ("id", "needs the column body; got id"),
        ("id, body, 1 AS prio", "got prio: select what it needs"),
        ("id, body, 1 AS bodies", "did you mean 'body'"),
        ("1 AS id, body", "column id must hold strings, got int"),
        (
            "id, body, timestamp_ntz'2026-01-01' AS at",
            "column at must hold timestamps with a time zone, got timestamp_ntz",
        ),
        ("id, 1.5 AS body", "column body must hold bytes or strings, got decimal"),
    ],
)
def test_columns_that_make_no_message_are_answered_before_anything_runs(
    spark: SparkSession, store: Store, timeline: Timeline, select: str, error: str
) -> None:
    with pytest.raises(PySparkException, match=f"InvalidTable: .*{error}"):
        write(rows(spark, 1).selectExpr(*re.split(", ", select)), store)


def test_a_timeline_is_not_overwritten_and_its_topic_must_be_there(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    with pytest.raises(PySparkException, match=r"UnknownTopic: .*'parcel'"):
        write(rows(spark, 1), store, topic="parcel")
    told = {"store": store.address, "topic": "parcels", "producer_group": "etl"}
    with pytest.raises(PySparkException, match="InvalidInput: a timeline is not overwritten"):
        rows(spark, 1).write.format(FORMAT).mode("overwrite").options(**told).save()


# --- due messages as rows ---------------------------------------------------------------------------------------------


def test_every_due_message_is_leased_once_and_done(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    ids = fill(timeline, 1000)
    leased = read(spark, store, partitions=4)
    assert leased.rdd.getNumPartitions() == 4
    assert timeline.count("parcels").processing == 0, "nothing is leased before an action"
    first = sorted(leased.collect())
    assert [row.id for row in first] == sorted(ids)
    assert {(bytes(row.body), row.at.astimezone(UTC), row.attempts, row.producer_group) for row in first[:1]} == {
        (b"m-0", LONG_AGO, 1, "etl")
    }
    assert sorted(leased.collect()) == first, "computed again, it gives the same"
    fill(timeline, 1010)
    assert sorted(leased.collect()) == first, "and nothing that is new"
    assert done(leased, store) == {"done": 1000}
    assert leased.count() == 0, "also when all that it had is done"
    assert timeline.count("parcels").available == 10
    assert done(read(spark, store), store) == {"done": 10}


def test_what_two_reads_lease_is_never_the_same(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    ids = fill(timeline, 100)
    one, two = (read(spark, store, limit=10, partitions=2, consumer="same") for _ in range(2))
    seen = ids_of(one.union(two)) + ids_of(read(spark, store))
    assert sorted(seen) == sorted(ids)


def test_a_read_with_a_name_is_the_same_read_in_another_run(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    fill(timeline, 100)
    first = ids_of(read(spark, store, read="run 7", limit=10))
    assert len(first) == 40
    assert ids_of(read(spark, store, read="run 7", limit=10)) == first
    assert not set(first) & set(ids_of(read(spark, store, read="run 8", limit=10)))


def test_leases_are_given_back(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    fill(timeline, 20)
    leased = read(spark, store)
    assert release(leased.where("id < 'm-2'"), store, reason="try again") == {"released": 12}
    assert leased.count() == 8
    assert release(leased, store, after=timedelta(hours=1)) == {"released": 8}
    counts = timeline.count("parcels")
    assert (counts.waiting, counts.processing, counts.available) == (8, 0, 12)
    again = read(spark, store)
    assert {row.attempts for row in again.collect()} == {2}
    assert [tried.reason for tried in timeline.read("parcels", "m-0", producer_group="etl").history] == ["try again"]


def test_what_is_no_lease_is_counted_and_the_rest_counts(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    fill(timeline, 3)
    leased = [row.lease for row in read(spark, store).collect()]
    texts: Sequence[str | None] = [*leased, *leased, None, "nonsense", "a/b/c"]
    df = spark.createDataFrame([(text,) for text in texts], "`the.lease` string")
    assert done(df, store, lease="the.lease") == {"done": 3, "malformed": 3}
    assert timeline.count("parcels").processing == 0


def test_a_lease_that_somebody_else_has_by_now_is_lost(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    fill(timeline, 1)
    texts = spark.createDataFrame([(row.lease,) for row in read(spark, store).collect()], "lease string")
    release(texts, store)
    (taken,) = timeline.lease("parcels", "other")
    assert done(texts, store) == {"lost": 1}
    assert timeline.done([taken.lease])[0].ok


def test_a_look_at_the_line_leases_nothing(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    fill(timeline, 3)
    soon = timeline.now_ms() + 60_000
    timeline.create("parcels", [NewMessage(at=soon, id="soon")], producer_group="etl")
    seen = read(spark, store, mode="peek")
    assert seen.columns == ["id", "at", "version"]
    assert ids_of(seen) == ["m-0", "m-1", "m-2"]
    assert ids_of(read(spark, store, mode="peek", within="2m")) == ["m-0", "m-1", "m-2", "soon"]
    assert read(spark, store, mode="peek", limit=2).count() == 2
    assert timeline.count("parcels").processing == 0


FAILS_ONCE = """
from pathlib import Path
def fails_once(marks):
    def each(batches):
        for batch in batches:
            for id in batch.column("id").to_pylist()[:1]:
                try:
                    (Path(marks) / "failed").touch(exist_ok=False)
                except FileExistsError:
                    continue
                raise RuntimeError("once")
            yield batch
    return each
"""
CLUSTER = f"""
from batchline import Timeline, open_store
from batchline.spark import done
{FAILS_ONCE}
directory, *stores = sys.argv[1:]
for number, store in enumerate(stores):
    marks = Path(directory) / str(number)
    marks.mkdir()
    marks.chmod(0o777)
    timeline = Timeline(open_store(store))
    timeline.create_topic("parcels")
    told = {{"store": store, "topic": "parcels"}}
    rows = spark.range(0, 4000, 1, 4).selectExpr("concat('m-', id) AS id", "repeat('x', 50) AS body")
    for _ in range(2):
        rows.write.format("batchline_timeline").mode("append").options(producer_group="etl", **told).save()
        assert timeline.count("parcels").available == 4000
    leased = spark.read.format("batchline_timeline").options(partitions=4, **told).load()
    worked = leased.mapInArrow(fails_once(str(marks)), leased.schema)
    seen = worked.select("id", "attempts").collect()
    assert (marks / "failed").exists()
    assert len(seen) == len({{row.id for row in seen}}) == 4000, len(seen)
    assert {{row.attempts for row in seen}} == {{1}}
    assert done(leased, store) == {{"done": 4000}}
    counts = timeline.count("parcels")
    assert (counts.waiting, counts.processing, counts.available) == (0, 0, 0), counts
"""


def test_on_a_cluster_a_task_that_fails_is_repeated_with_the_same_messages(
    postgresql_database: str, run_on_cluster: RunPython, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    run = run_on_cluster(CLUSTER, str(tmp_path), f"sqlite:///{tmp_path / 'on_cluster.db'}", postgresql_database)
    assert run.returncode == 0, run.stderr


# --- leasing once -----------------------------------------------------------------------------------------------------


def part_of(timeline: Timeline, read: str = "read", **changes: Any) -> Part:
    tidy_notes(timeline)
    (part,) = parts_of(timeline.topic("parcels"), "spark", read, timeline.now_ms(), 1, 100, None)
    return part._replace(**changes)


def test_of_two_tasks_for_one_part_the_first_to_leave_its_note_wins(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one may be a task that Spark has given up and that does not know it."""
    fill(timeline, 10)
    part = part_of(timeline, limit=6)
    lease = timeline.lease
    fast: list[LeasedMessage] = []

    def overtaken(*arguments: Any, **options: Any) -> list[LeasedMessage]:
        monkeypatch.setattr(timeline, "lease", lease)
        found = lease(*arguments, **options)
        fast.extend(lease_part(timeline, part))
        return found

    monkeypatch.setattr(timeline, "lease", overtaken)
    slow = lease_part(timeline, part)
    assert [message.id for message in slow] == [message.id for message in fast]
    assert len(slow) == 4, "what the fast one found"
    counts = timeline.count("parcels")
    assert (counts.processing, counts.available) == (4, 6), "what the slow one had leased is offered again"


def test_a_task_that_dies_before_its_note_leaves_nothing_to_be_called_done(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(timeline, 10)
    part = part_of(timeline, limit=6)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(timeline, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            lease_part(timeline, part)
    assert len(lease_part(timeline, part)) == 4
    assert len(lease_part(timeline, part)) == 4
    assert timeline.count("parcels").processing == 10, "six come back when their leases end"


def test_leases_that_have_ended_are_no_longer_read_and_their_messages_come_again(store: Store) -> None:
    now_us = [1_800_000_000_000_000]
    timeline = Timeline(store, clock=lambda: now_us[0])
    timeline.create_topic("parcels")
    fill(timeline, 5)
    part = part_of(timeline, duration=timedelta(minutes=1))
    assert [message.at for message in lease_part(timeline, part)] == [LONG_AGO] * 5
    assert [message.at for message in lease_part(timeline, part)] == [LONG_AGO] * 5
    now_us[0] += 60_000_000
    assert lease_part(timeline, part) == []
    assert len(lease_part(timeline, part_of(timeline, "next"))) == 5


def test_notes_are_forgotten_in_time_and_a_read_that_is_older_leases_nothing(store: Store) -> None:
    now_us = [1_800_000_000_000_000]
    timeline = Timeline(store, clock=lambda: now_us[0])
    timeline.create_topic("parcels")
    fill(timeline, 5)
    part = part_of(timeline)
    assert len(lease_part(timeline, part)) == 5
    now_us[0] += REMEMBERED_MS * 1_000
    tidy_notes(timeline)
    counts = timeline.count(NOTES)
    assert (counts.waiting, counts.processing, counts.available) == (0, 0, 0)
    assert lease_part(timeline, part) == []
    assert len(lease_part(timeline, part_of(timeline, "next"))) == 5


def test_a_part_leases_no_more_than_it_can_hold(timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BYTES >= 100 << 20
    monkeypatch.setattr("batchline.spark.lease_once.MOST_BYTES", 10)
    monkeypatch.setattr("batchline.spark.lease_once.LEASED_AT_ONCE", 2)
    fill(timeline, 10)
    assert len(lease_part(timeline, part_of(timeline))) == 4


@pytest.mark.parametrize("buckets", [1, 3, 8, 89, 1024])
def test_parts_are_whole_segments(buckets: int) -> None:
    topic = Topic("parcels", buckets=buckets)
    for count in range(1, SEGMENTS + 1):
        parts = parts_of(topic, "spark", "read", 0, count, 10, None)
        assert [bucket for part in parts for bucket in part.buckets] == list(range(buckets))
        segments = [{segment_of(bucket, buckets) for bucket in part.buckets} for part in parts]
        assert sum(map(len, segments)) == len(set().union(*segments))
        assert len({part.note_id for part in parts}) == len(parts)


# --- streams ----------------------------------------------------------------------------------------------------------


def streamed(spark: SparkSession, store: Store, directory: Path, **options: str | int) -> StreamingQuery:
    """What is due, into files; ends when all of it is read."""
    told = {"store": store.address, "topic": "parcels"} | options
    source = spark.readStream.format(FORMAT).options(**told).load()
    sink = source.select("id", "attempts").writeStream.format("parquet").option("path", str(directory / "out"))
    return sink.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()


def test_a_stream_reads_what_is_due_and_finishes_it(
    spark: SparkSession, store: Store, timeline: Timeline, tmp_path: Path
) -> None:
    ids = fill(timeline, 100)
    for _ in range(2):
        streamed(spark, store, tmp_path, partitions=2, limit=30).awaitTermination()
        assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == sorted(ids)
        counts = timeline.count("parcels")
        assert (counts.waiting, counts.processing, counts.available) == (0, 0, 0)
        ids += ["late"]
        timeline.create("parcels", [NewMessage(id="late")], producer_group="etl")


def stream_reader(store: Store, **options: str) -> LeaseStreamReader:
    reader = source(store, **options).streamReader(schema_of(store))
    assert isinstance(reader, LeaseStreamReader)
    return reader


def source(store: Store, **options: str) -> TimelineSource:
    return TimelineSource({"store": store.address, "topic": "parcels"} | options)


def schema_of(store: Store) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(source(store).schema())


def read_epoch(reader: LeaseStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    batches = (batch for part in reader.partitions(start, end) for batch in reader.read(part))
    return sorted(id for batch in batches for id in batch.column("id").to_pylist())


def test_an_epoch_that_is_repeated_gives_the_same_and_is_finished_before_the_next(
    spark: SparkSession, store: Store, timeline: Timeline
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    fill(timeline, 40)
    reader = stream_reader(store, limit="2", partitions="2")
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadAllAvailable())
    assert first["epoch"] == 1
    assert reader.partitions(first, first) == []
    read_first = read_epoch(reader, begin, first)
    assert len(read_first) == 4
    # The driver dies; another goes on from the checkpoint, with other options.
    reader = stream_reader(store, limit="2", partitions="4")
    assert read_epoch(reader, begin, first) == read_first
    second = reader.latestOffset(first, ReadAllAvailable())
    assert second["epoch"] == 2
    assert (timeline.count("parcels").processing, timeline.count("parcels").available) == (0, 36)
    read_second = read_epoch(reader, first, second)
    reader.commit(second)
    reader.commit(second)
    assert timeline.count("parcels").processing == 0
    assert not set(read_first) & set(read_second)
    assert read_epoch(reader, first, second) == []


def test_a_stream_waits_until_something_is_due_and_forgets_old_notes(
    spark: SparkSession, store: Store, timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    monkeypatch.setattr("batchline.spark.timeline_source.EPOCHS_KEPT", 2)
    reader = stream_reader(store, limit="1", partitions="1")
    offset = reader.initialOffset()
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    fill(timeline, 5)
    for epoch in range(1, 6):
        end = reader.latestOffset(offset, ReadAllAvailable())
        assert end["epoch"] == epoch
        assert len(read_epoch(reader, offset, end)) == 1
        offset = end
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    assert timeline.count(NOTES).waiting == 2


def test_a_stream_of_rows_becomes_messages(
    spark: SparkSession, store: Store, timeline: Timeline, tmp_path: Path
) -> None:
    rows(spark, 100).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id string, body string, at timestamp").parquet(str(tmp_path / "in"))
    for checkpoint in ("one", "two"):
        query = (
            stream.writeStream.format(FORMAT)
            .options(store=store.address, topic="parcels", producer_group="etl")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert timeline.count("parcels").available == 100


def test_a_stream_is_told_what_is_wrong(spark: SparkSession, store: Store, timeline: Timeline, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match=r"UnknownTopic: .*'parcel'"):
        streamed(spark, store, tmp_path, topic="parcel").awaitTermination()
    for wrong in ({"mode": "peek"}, {"read": "run 7"}):
        columns = "id string, at timestamp, version int" if "mode" in wrong else None
        schema: Any = schema_of(store) if columns is None else type(schema_of(store)).fromDDL(columns)
        with pytest.raises(InvalidInput, match=r"is for spark\.read"):
            source(store, **wrong).streamReader(schema)


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "needs the option 'store'"),
        ({"store": "sqlite:///x"}, "needs the option 'topic'"),
        ({"store": "x", "topic": "t", "tpoic": "u"}, "no option 'tpoic'; .* did you mean 'topic'"),
        (
            {"store": "x", "topic": "t", "mode": "pek"},
            "option mode must be one of 'lease', 'peek', .* did you mean 'peek'",
        ),
        (
            {"store": "x", "topic": "t", "limit": "50001"},
            "option limit must be a whole number from 1 to 50,000, got '50001'",
        ),
        ({"store": "x", "topic": "t", "mode": "peek", "limit": "10001"}, "from 1 to 10,000"),
        (
            {"store": "x", "topic": "t", "partitions": "9"},
            "option partitions must be a whole number from 1 to 8, got '9'",
        ),
        ({"store": "x", "topic": "t", "partitions": "-1"}, "option partitions must be"),
        ({"store": "x", "topic": "t", "duration": "5"}, "option duration: expected a span such as"),
        ({"store": "x", "topic": "t", "read": ""}, "option read must have 1 to 255 characters"),
    ],
)
def test_wrong_options_of_a_read_are_named(options: dict[str, str], error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        read_options(options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"store": "x", "topic": "t"}, "needs the option 'producer_group'"),
        ({"on_conflict": "kep"}, "did you mean 'keep'"),
        ({"allow_made_ids": "yes"}, "option allow_made_ids must be one of 'true', 'false', got 'yes'"),
        ({"checkpointlocation": "x"}, "no option 'checkpointlocation'"),
    ],
)
def test_wrong_options_of_a_write_are_named(options: dict[str, str], error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        write_options(options, streaming=False)


def test_wrong_input_is_answered_before_anything_runs(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    with pytest.raises(PySparkException, match=r"InvalidInput: there is no option 'limti'.*did you mean 'limit'"):
        read(spark, store, limti=1)
    for options, error in (
        ({"topic": "parcel"}, "UnknownTopic: .*'parcel'"),
        ({"duration": "13h"}, "InvalidRules: .*leases for at most"),
        ({"store": "memory://"}, "InvalidStore: .* do not see memory://"),
        ({"store": "nonsense"}, "InvalidStore: "),
    ):
        told = {"store": store.address, "topic": "parcels"} | options
        with pytest.raises(PySparkException, match=error):
            spark.read.format(FORMAT).options(**told).load().collect()
    with pytest.raises(PySparkException, match=r"InvalidTable: .* has the columns id string, body binary"):
        spark.read.format(FORMAT).schema("id string").options(store=store.address, topic="parcels").load().collect()
    leases = spark.createDataFrame([("x",)], "lease string")
    with pytest.raises(InvalidTable, match="did you mean 'lease'"):
        done(leases, store, lease="leases")
    with pytest.raises(InvalidStore, match="do not see memory://"):
        done(leases, open_store("memory://"))
    with pytest.raises(InvalidInput, match="done takes a batch DataFrame"):
        done(spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS lease"), store)
    with pytest.raises(InvalidMessage, match="the moment of a release"):
        release(leases, store, at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is wrong
    with pytest.raises(InvalidMessage, match="after must be 0 or longer"):
        release(leases, store, after=timedelta(-1))
    with pytest.raises(InvalidMessage, match="is given by at and by after"):
        release(leases, store, at=0, after=timedelta(1))


def test_the_format_can_be_registered_where_spark_does_not_find_it(spark: SparkSession) -> None:
    register(spark)
    register(spark.newSession())


def test_the_password_of_a_store_is_not_in_a_plan(spark: SparkSession, store: Store, timeline: Timeline) -> None:
    leased = read(spark, store)
    assert store.address not in leased._jdf.queryExecution().toString()
