"""Pipelines from end to end, on the session of the tests: what is accepted arrives once, and completion is told."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from batchline import Timeline, Tracker, open_store
from batchline.core.pipeline_tables import pipeline_of
from batchline.errors import RefusedParcel
from batchline.flow import Running, run_once, stream_of, worker_of
from batchline.local import batch_reading, read_files
from batchline.runtime.working import Working
from batchline.sinks.files import write_table
from batchline.sources.sample import Fleet, sample_fleet
from batchline.spark.following import Stopped
from tests.runtime.reports import documented, keys_of, reports_in
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from batchline.core.consignment import Consignment
    from batchline.core.pipeline import Pipeline
    from batchline.flow import Summary

REFUSED = "tests.spark.test_pipeline:Picky"


class Picky:
    """Refuses the third parcel of each lane."""

    def send(self, parcels: Sequence[Consignment]) -> dict[str, Any]:
        return {one.id: RefusedParcel("no thirds") for one in parcels if one.number == 3}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A small fleet, in two files, one of them with a line that is no measurement."""
    fleet = sample_fleet(Fleet(devices=6, minutes=1, seed=3)).drop_columns(["cause"])
    half = fleet.num_rows // 2
    write_table(fleet.slice(0, half), tmp_path / "in" / "a.jsonl")
    write_table(fleet.slice(half), tmp_path / "in" / "b.jsonl")
    with (tmp_path / "in" / "a.jsonl").open("a") as file:
        file.write("no measurement\n")
    return pipeline_of(
        {
            "name": "fleet",
            "out": str(tmp_path / "out"),
            "source": {"address": str(tmp_path / "in"), "order": ["sequence"]},
            "pack": {"max_items": 50},
            "publish": {"store": f"sqlite:///{tmp_path}/store.db", "lanes": 3, "tell": "completed"},
            "sink": {"address": f"files:{tmp_path}/arrived"},
        }
    )


def accepted(pipeline: Pipeline) -> Counter[int]:
    """The sequences that the library accepts, of the same files."""
    from pathlib import Path

    batched = batch_reading(read_files(Path(pipeline.source.address), {}), pipeline.batch, ("sequence",))
    return Counter(batched.accepted.column("sequence").to_pylist())


def arrived(directory: Path) -> Counter[int]:
    found = (json.loads(file.read_text()) for file in sorted(directory.iterdir()) if not file.name.startswith("."))
    return Counter(one["sequence"] for parcel in found for one in parcel["measurements"])


def told(pipeline: Pipeline) -> int:
    with open_store(pipeline.publish.store) as store:
        return Timeline(store).count("completed").available


def test_files_arrive_once_and_completion_is_told_once(spark: SparkSession, pipeline: Pipeline, tmp_path: Path) -> None:
    steps: list[str] = []
    summary = run_once(pipeline, spark, watch=lambda step, *_: steps.append(step))
    assert arrived(tmp_path / "arrived") == accepted(pipeline)
    assert summary.complete
    assert (summary.acked, summary.failed) == (summary.parcels, 0)
    assert summary.published == summary.arrived == summary.batched
    assert summary.read == summary.batched + sum(summary.rejected.values())
    assert summary.rejected["malformed"] == 1
    assert list(dict.fromkeys(steps)) == ["reading", "batching", "writing", "packing", "publishing", "delivering"]
    check_reports(pipeline, summary)
    again = run_once(pipeline, spark)
    assert (again.complete, again.delivered, again.parcels) == (True, 0, summary.parcels)
    assert told(pipeline) == 1


def test_what_is_refused_is_said_and_kept(spark: SparkSession, pipeline: Pipeline) -> None:
    picky = replace(pipeline, sink=replace(pipeline.sink, address=f"python:{REFUSED}"))
    summary = run_once(picky, spark)
    assert not summary.complete
    assert summary.failed > 0
    assert "no thirds" in summary.why_not[0]
    assert summary.acked + summary.failed == summary.parcels
    with open_store(pipeline.publish.store) as store:
        assert Timeline(store).count("parcels-dead").available == summary.failed
        assert Tracker(store).list(state="failed").fanouts
    assert told(pipeline) == 0


def test_a_stream_goes_on_where_it_was(spark: SparkSession, pipeline: Pipeline, tmp_path: Path) -> None:
    publication = replace(pipeline.publish, linger=timedelta(0), period=timedelta(seconds=1))
    stream = replace(pipeline, publish=publication)
    later = tmp_path / "in" / "b.jsonl"
    later.rename(tmp_path / "b.jsonl")
    first = run_until_all_has_arrived(stream, spark, 0)
    check_stream_reports(stream)
    (tmp_path / "b.jsonl").rename(later)
    run_until_all_has_arrived(stream, spark, first)
    rest = stream_of(stream, spark)
    rest.start({"availableNow": True})
    rest.following.wait()
    # Killed, so to speak, at its end: all is handed out, and the last of it is not published.
    rest.publishing = stopped  # type: ignore[assignment] # it raises before anything else is asked of it
    with pytest.raises(Stopped):
        rest.finish()
    rest = stream_of(stream, spark)
    assert (rest.has_ended, rest.is_finished) == (True, False)
    rest.start({"availableNow": True})
    rest.finish()
    assert rest.is_finished
    with open_store(publication.store) as store, Working(partial(worker_of, stream, store)):
        tracker = Tracker(store)
        wait_until(lambda: not any(one.pending for one in tracker.list(limit=10_000).fanouts), pause_s=0.1)
        assert {one.state for one in tracker.list(limit=10_000).fanouts} == {"complete"}
        assert told(stream) == len(tracker.list(limit=10_000).fanouts)
    assert arrived(tmp_path / "arrived") == accepted(stream)


def check_reports(pipeline: Pipeline, summary: Summary) -> None:
    """What a run of files has left: how far it came, as one epoch, and what its worker did."""
    with open_store(pipeline.publish.store) as store:
        row, last = reports_in(store, "run")[-1]
        worked = reports_in(store, "work")[-1][1]
    assert keys_of(last) == documented("run")
    assert (row.name, last["ended"], last["complete"], last["epoch"]) == ("fleet", True, True, 0)
    assert (last["read"], last["rejected"]) == (summary.read, summary.rejected)
    assert last["steps"]["delivering"] == {"done": summary.parcels, "total": summary.parcels}
    assert [(one["epoch"], one["rows"]) for one in last["epochs"]] == [(0, summary.read)]
    assert worked["parcels"]["delivered"] == summary.parcels


def check_stream_reports(pipeline: Pipeline) -> None:
    """What a stream has left: its epochs, and what is open."""
    with open_store(pipeline.publish.store) as store:
        last = reports_in(store, "run")[-1][1]
    assert keys_of(last) | {"steps.*.done", "steps.*.total"} == documented("run")
    assert last["epoch"] == last["epochs"][-1]["epoch"]
    malformed = last["rejected"]["malformed"]
    assert sum(one["rows"] for one in last["epochs"]) in (last["read"], last["read"] - malformed)
    assert last["read"] == last["batched"] + sum(last["rejected"].values()) + last["open_rows"]
    assert 0 < last["open_batches"] <= last["open_rows"] <= last["state_rows"]
    assert last["state_bytes"] > 0


def stopped(parcels: Any, epoch: int) -> None:
    raise Stopped


def run_until_all_has_arrived(stream: Pipeline, spark: SparkSession, before: int) -> int:
    """Run on until more was batched than before, and all parcels have arrived; how much was batched."""
    stop = threading.Event()

    def tell(now: Summary) -> None:
        if now.batched > before and now.parcels and now.acked == now.parcels:
            stop.set()

    return Running(stream, spark).run(stop, tell).batched
