"""Publishing from Spark: what is on the timeline is what the library packs, once, however often it is published."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from batchline import OnComplete, PackRules, Timeline, Tracker, open_store
from batchline.core.consignment import Consignment, read_consignment
from batchline.core.moment import moment_of
from batchline.errors import Degraded, InvalidInput, InvalidTable
from batchline.runtime import clock
from batchline.spark import assign_batches, follow, pack_parcels, publish
from batchline.spark.publishing import Published, Publishing, PublishTask, _Block
from batchline.spark.running import translated
from tests.columnar.test_agreement import table_of
from tests.spark.streams import RULES, arriving, cuts_of, end_of, land, landing, stream
from tests.spark.test_following import ONCE
from tests.spark.test_parcels import LANES, by_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from batchline import Store

MESSAGES = stream(8, 1_200, 20)
PACK = PackRules(max_items=7)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def parcels_of(spark: SparkSession, pack: PackRules = PACK) -> DataFrame:
    df = spark.createDataFrame(table_of(arriving(MESSAGES, 1, 10**9)))
    batched = assign_batches(df, RULES[0], order=["number"], until=end_of(MESSAGES))
    return pack_parcels(batched, pack, size="size", lanes=LANES)


@pytest.fixture(scope="module")
def parcels(spark: SparkSession) -> Iterator[DataFrame]:
    """Made once: several tests publish them."""
    kept = parcels_of(spark).persist()
    yield kept
    kept.unpersist()


def on_topic(store: Store, topic: str = "parcels") -> list[Consignment]:
    found = Timeline(store).lease(topic, "test", limit=10_000)
    return sorted((read_consignment(one.body) for one in found), key=lambda one: (one.lane, one.number))


def shown(parcels: list[Consignment]) -> list[tuple[Any, ...]]:
    return [
        (one.lane, one.number, one.id, one.count, tuple(row["number"] for row in one.measurements)) for one in parcels
    ]


def expected(pack: PackRules = PACK) -> list[tuple[Any, ...]]:
    return [(*row[:4], row[-1]) for row in by_library(RULES[0], pack, MESSAGES)]


def test_a_batch_is_published_once_as_the_library_packs_it(parcels: DataFrame, url: str) -> None:
    with open_store(url) as store:
        Timeline(store).create_topic("completed")
    first = publish(parcels, url, fanout="import", labels={"of": "test"}, on_complete=OnComplete("completed"))
    again = publish(parcels, url, fanout="import", labels={"of": "test"}, on_complete=OnComplete("completed"))
    wanted = expected()
    measured = sum(row[3] for row in wanted)
    assert first == Published(len(wanted), measured)
    assert again == Published(len(wanted), measured, repeated=len(wanted))
    with open_store(url) as store:
        found, tracker = on_topic(store), Tracker(store)
        assert shown(found) == wanted
        assert tracker.status("import").total == tracker.status("import").pending == len(wanted)
        assert tracker.ack(one.item for one in found if one.item).completed == ("import",)
        assert Timeline(store).count("completed").available == 1
        publish(parcels, store, fanout="import", labels={"of": "test"}, on_complete=OnComplete("completed"))
        assert on_topic(store) == []


def test_other_parcels_under_the_same_name_are_refused(spark: SparkSession, parcels: DataFrame, url: str) -> None:
    publish(parcels, url, fanout="import")
    with pytest.raises(InvalidTable, match="other parcels were published as"), translated():
        publish(parcels_of(spark, PackRules(max_items=9)), url, fanout="import")
    with pytest.raises(InvalidTable, match="do not follow those before"), translated():
        publish(parcels.where("parcel_number > 1"), url, fanout="other")
    with open_store(url) as store:
        assert shown(on_topic(store)) == expected()


def test_measurements_have_the_fields_that_were_asked_for_and_times_in_utc(parcels: DataFrame, url: str) -> None:
    fields = {"device": "key", "t": "event_time", "n": "number"}
    publish(parcels, url, topic="small", fanout="import", fields=fields)
    publish(parcels, url, topic="later", fanout="later", delay=timedelta(days=1))
    with open_store(url) as store:
        (parcel, *_) = on_topic(store, "small")
        number = parcel.measurements[0]["n"]
        message = next(one for one in MESSAGES if one.payload == number)
        moment = moment_of(message.event_us).isoformat(timespec="microseconds").replace("+00:00", "Z")
        assert parcel.measurements[0] == {"device": message.key, "t": moment, "n": number}
        assert Timeline(store).count("later").waiting == len(expected())


def test_a_parcel_is_due_at_its_moment_and_never_early() -> None:
    task = PublishTask("sqlite:///no.db", "parcels", "p", "p", delay_us=500)
    rows: list[dict[str, Any]] = [{"at_us": 1_000_000}, {"at_us": 1_000_501}, {"at_us": -5_000_000}]
    assert task._moments(_Block(rows, [])) == [1_001, 1_002, 0]


def test_what_is_too_large_for_any_parcel_is_a_dead_letter(spark: SparkSession, url: str) -> None:
    large = max(message.size or 0 for message in MESSAGES)
    pack = PackRules(max_items=12, max_bytes=large - 1)
    told = publish(parcels_of(spark, pack), url, fanout="import")
    assert isinstance(told, Published)
    with open_store(url) as store:
        dead = on_topic(store, "parcels-dead")
        assert len(dead) == told.oversize > 0
        assert {one.measurements[0]["size"] for one in dead} == {large}
        assert all(one.reason.startswith("oversize") for one in dead)
        assert shown(on_topic(store)) == expected(pack)


def test_a_stream_is_published_epoch_by_epoch_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    land(arriving(MESSAGES, 2, 150), cuts_of(6, len(MESSAGES), 4), tmp_path / "in")
    publishing = Publishing(url, "parcels", "stream", str(tmp_path / "state"))

    def twice(parcels: DataFrame, epoch: int) -> None:
        publishing(parcels, epoch)
        publishing(parcels, epoch)

    following = follow(
        landing(spark, tmp_path / "in"),
        RULES[0],
        twice,
        checkpoint=str(tmp_path / "checkpoint"),
        order=["number"],
        skew=timedelta(microseconds=150),
        lanes=LANES,
        size="size",
        pack=PACK,
        linger=None,
        trigger=ONCE,
    )
    following.finish()
    with open_store(url) as store:
        assert shown(on_topic(store)) == expected()
        fanouts = Tracker(store).list().fanouts
        assert len(fanouts) > 1
        assert {one.state for one in fanouts} == {"sealed"}
        assert sum(one.total for one in fanouts) == publishing.published.parcels


def test_fanouts_of_a_period_are_sealed_when_the_next_begins(spark: SparkSession, url: str, tmp_path: Path) -> None:
    publishing = Publishing(url, "parcels", "stream", str(tmp_path / "state"), period=timedelta(hours=1))
    parcels = parcels_of(spark)
    publishing.state.write_text("fanouts/000001.json", json.dumps({"fanout": "stream/before"}))
    publishing(parcels.where("parcel_number <= 2"), 1)
    publishing(parcels.where("parcel_number > 2"), 2)
    publishing(parcels.where("parcel_number > 2"), 2)
    with open_store(url) as store:
        before, now = sorted(Tracker(store).list().fanouts, key=lambda one: one.id, reverse=True)
        assert (before.id, before.state) == ("stream/before", "sealed")
        assert (now.state, before.total + now.total) == ("open", len(expected()))
        publishing.finish(2)
        assert Tracker(store).status(now.id).state == "sealed"


def test_no_period_is_noted_by_a_clock_that_is_off(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publishing = Publishing(url, "parcels", "stream", str(tmp_path / "state"), period=timedelta(hours=1))
    right = clock.now_us()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: (right + 7_200_000_000) * 1_000)
        with pytest.raises(Degraded):
            publishing._fanout_of(1)
    assert publishing._noted(1) is None
    assert publishing._fanout_of(1) <= f"stream/{moment_of(clock.now_us()):%Y-%m-%dT%H:%M:%SZ}"


def test_a_streaming_frame_returns_its_query(spark: SparkSession, url: str, tmp_path: Path) -> None:
    land(MESSAGES, cuts_of(6, len(MESSAGES), 2), tmp_path / "in")
    batched = assign_batches(
        landing(spark, tmp_path / "in"), RULES[0], order=["number"], lanes=LANES, state=str(tmp_path / "batches")
    )
    parcels = pack_parcels(batched, PACK, state=str(tmp_path / "parcels"))
    with pytest.raises(InvalidInput, match="checkpoint="):
        publish(parcels, url, fanout="stream")
    query: Any = publish(parcels, url, fanout="stream", checkpoint=str(tmp_path / "checkpoint"), trigger=ONCE)
    query.awaitTermination()
    with open_store(url) as store:
        assert len(on_topic(store)) == sum(one.total for one in Tracker(store).list().fanouts) > 0


def test_what_is_no_parcels_is_refused_before_anything_runs(spark: SparkSession, parcels: DataFrame, url: str) -> None:
    with pytest.raises(InvalidTable, match="no column parcel_id"):
        publish(spark.range(1), url, fanout="import")
    with pytest.raises(InvalidInput, match="belong to a stream"):
        publish(parcels, url, fanout="import", period=timedelta(minutes=1))
    with pytest.raises(InvalidInput, match="a second or longer"):
        Publishing(url, "parcels", "stream", "/tmp/never", period=timedelta(0))  # noqa: S108 - nothing is written
