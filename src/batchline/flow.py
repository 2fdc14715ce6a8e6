"""The path, on one page.

    source ──► batch ──► pack ──► publish ──► worker ──► sink
               └────── on Spark ──────┘        └── ack ──┘

`run_once` takes what is there from end to end; `Running` goes on until it is stopped. Both are a Spark job that
publishes and a worker that delivers, joined by nothing but the store: kill either, start again, and it goes on.
"""

import hashlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from batchline.core.consignment import Consignment
from batchline.core.moment import span_us
from batchline.core.on_complete import OnComplete
from batchline.core.pipeline import Pipeline
from batchline.core.watch import Watch, unwatched
from batchline.errors import InvalidCheckpoint, StoreUnavailable
from batchline.leases import LeaseManager, open_leases
from batchline.runtime.clock import now_us
from batchline.runtime.completion import Completion
from batchline.runtime.limiter import Limiter
from batchline.runtime.provisioned_resource import ProvisionedResource
from batchline.runtime.publisher import make_topic, make_topics
from batchline.runtime.reporting import reporting
from batchline.runtime.run_numbers import RunNumbers
from batchline.runtime.shared_resource import SharedResource
from batchline.runtime.summary import Summary, await_delivery, note_delivered
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.runtime.worker import Worker
from batchline.runtime.worker_numbers import WorkerNumbers
from batchline.runtime.working import Working
from batchline.sinks.opening import open_sink
from batchline.stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from batchline.spark.pipeline_stream import PipelineStream
    from batchline.spark.publishing import Due, Opening

__all__ = ["Running", "Summary", "run_once", "stream_of", "worker_of"]

BETWEEN_LOOKS_S: Final = 0.2
BETWEEN_TELLINGS_S: Final = 0.5
#: How long a stream rests before it starts again, when the store was away.
PAUSE_S: Final = 2.0
#: The run of fanouts that a stream has published.
STREAM: Final = "stream"
log = logging.getLogger("batchline")


# --- the path ---------------------------------------------------------------------------------------------------------


def run_once(
    pipeline: Pipeline,
    spark: "SparkSession",
    *,
    watch: Watch = unwatched,
    work: bool = True,
    on_delivered: Callable[[Consignment], object] | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Take all that is there from the source to the sink. Started again, it goes on where it was.

    Without `work` the delivery is left to workers elsewhere, and only waited for.
    """
    stop, numbers = stop or threading.Event(), RunNumbers(pipeline, watch)
    with _opened(pipeline, work, numbers) as (store, working):
        if working is not None:
            working.worker.on_delivered = on_delivered
        if pipeline.source.kind == "kafka":
            summary, labels = _stream_once(pipeline, spark, numbers, stop), _labels(pipeline, STREAM)
        else:
            summary, labels = _batch_once(pipeline, spark, numbers)
            numbers.batched(summary)
        numbers.completion = completion = Completion(Tracker(store), labels)
        await_delivery(completion, working, numbers.watch, stop)
        note_delivered(summary, working, completion)
    return summary


def _batch_once(pipeline: Pipeline, spark: "SparkSession", numbers: RunNumbers) -> tuple[Summary, dict[str, str]]:
    """Files, as one batch: batched into files, packed, and published as one fanout."""
    from batchline.spark import pack_parcels
    from batchline.spark.progress import watched
    from batchline.spark.publishing import publish_frame
    from batchline.spark.running import run_batch

    path, rules, publication = Path(pipeline.source.directory), pipeline.batch, pipeline.publish
    run = _run_of(pipeline, path)
    out = Path(pipeline.out) / run
    if (out / "summary.json").exists():
        figures = json.loads((out / "summary.json").read_text())
    else:
        figures = run_batch(spark, path, pipeline.source.columns, rules, pipeline.source.order_by, out, numbers.watch)
    numbers.summary = _summary_of(figures, 0, 0, 0)
    batched = spark.read.parquet(_uri(out / "batched.parquet"))
    size = "size" if "size" in batched.columns else None
    parcels = pack_parcels(batched, pipeline.pack, size=size, lanes=publication.lanes)
    labels = _labels(pipeline, run)
    fanout = f"{pipeline.name}-{run}"
    with watched(spark, numbers.watch, ["packing", "publishing"]):
        fields = _fields(pipeline, batched.columns)
        published = publish_frame(
            parcels, publication.store, publication.topic, fanout, _due(pipeline), _opening(pipeline, labels), fields
        )
    return _summary_of(figures, published.parcels, published.measurements, published.oversize), labels


def _stream_once(pipeline: Pipeline, spark: "SparkSession", numbers: RunNumbers, stop: threading.Event) -> Summary:
    """A stream, as far as it goes now, and then its end; of one that has ended before, what became of it."""
    numbers.stream = stream = stream_of(pipeline, spark)
    stream.start({"availableNow": True})
    while stream.is_active and not stop.wait(BETWEEN_LOOKS_S):
        numbers.summary = _stream_summary(stream)
        numbers.watch("batching", numbers.summary.read, 0)
    if stop.is_set():
        stream.stop_between_epochs()
    elif not stream.is_finished:
        stream.finish()
    numbers.summary = _stream_summary(stream)
    return numbers.summary


class Running:
    """A pipeline that goes on until it is stopped."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession", *, work: bool = True):
        """Nothing runs yet. Without `work` the delivery is left to workers elsewhere."""
        self.pipeline, self._spark, self._work = pipeline, spark, work
        self._stream: PipelineStream | None = None
        self._working: Working | None = None
        self._completion: Completion | None = None
        self._numbers = RunNumbers(pipeline)

    def run(self, stop: threading.Event, tell: Callable[[Summary], None]) -> Summary:
        """Run, and tell how it goes, until `stop` is set; what is open then stays, and the next start goes on.

        While the store is away it waits for it; any other error ends it.
        """
        with _opened(self.pipeline, self._work, self._numbers) as (store, self._working):
            self._completion = Completion(Tracker(store), _labels(self.pipeline, STREAM))
            self._numbers.completion = self._completion
            while not stop.is_set():
                try:
                    self._follow(stop, tell)
                except StoreUnavailable as error:
                    log.warning("the stream starts again: %s", error)
                    stop.wait(PAUSE_S)
            return self.summary()

    def _follow(self, stop: threading.Event, tell: Callable[[Summary], None]) -> None:
        from batchline.spark.running import translated

        with translated():
            self._numbers.stream = self._stream = stream_of(self.pipeline, self._spark)
            if self._stream.has_ended:
                raise InvalidCheckpoint(f"the stream in {self.pipeline.out} has ended: start anew with another out")
            self._stream.start()
            while self._stream.is_active and not stop.wait(BETWEEN_TELLINGS_S):
                tell(self.summary())
            if not stop.is_set():
                self._stream.wait()
            self._stream.stop_between_epochs()

    def summary(self) -> Summary:
        """How it stands."""
        if self._stream is None or self._completion is None:
            return Summary()
        summary = _stream_summary(self._stream)
        note_delivered(summary, self._working, self._completion)
        self._numbers.summary = summary
        return summary


# --- its parts --------------------------------------------------------------------------------------------------------


def worker_of(pipeline: Pipeline, store: Store, *, worker: str | None = None) -> Worker:
    """A worker that delivers what the pipeline publishes, to its sink, within its capacity."""
    work, capacity = pipeline.work, pipeline.capacity
    leases = _leases_of(pipeline)
    return Worker(
        store,
        pipeline.publish.topic,
        open_sink(pipeline.sink.address, pipeline.sink.options, wall=now_us),
        limiter=_limiter_of(pipeline, leases),
        cost="parcel" if capacity is None else capacity.cost,
        worker=worker,
        in_hand=work.in_hand,
        concurrency=work.concurrency,
        lease=work.lease,
        retry=work.retry,
        give_up_after=work.give_up_after,
        close=None if leases is None else leases.close,
    )


def _leases_of(pipeline: Pipeline) -> LeaseManager | None:
    capacity = pipeline.capacity
    if capacity is None or capacity.shared is None:
        return None
    return open_leases(capacity.shared, capacity.resource)


def _limiter_of(pipeline: Pipeline, leases: LeaseManager | None) -> Limiter | None:
    capacity = pipeline.capacity
    if capacity is None:
        return None
    if leases is None:
        return ProvisionedResource(capacity.per_second)
    return SharedResource(leases, capacity.per_second, factor=capacity.piece)


@contextmanager
def _opened(pipeline: Pipeline, work: bool, numbers: RunNumbers) -> Iterator[tuple[Store, Working | None]]:
    """The store, and, if it is to, a worker that delivers from it meanwhile; both are reported on."""
    with open_store(pipeline.publish.store) as store:
        timeline = Timeline(store)
        make_topics(timeline, pipeline.publish.topic)
        if pipeline.publish.tell is not None:
            make_topic(timeline, pipeline.publish.tell)
        with reporting(store, "run", pipeline.name, numbers), _delivering(pipeline, store, work) as working:
            yield store, working


@contextmanager
def _delivering(pipeline: Pipeline, store: Store, work: bool) -> Iterator[Working | None]:
    if not work:
        yield None
        return
    # Under a name that stays: started again after a kill, it has its parcels at once.
    name = f"{pipeline.name}-run-{socket.gethostname()}"
    with (
        Working(partial(worker_of, pipeline, store, worker=name)) as working,
        reporting(store, "work", name, WorkerNumbers(working.worker, pipeline.capacity), working.worker.supervisor),
    ):
        yield working


def stream_of(pipeline: Pipeline, spark: "SparkSession") -> "PipelineStream":
    """The stream of a pipeline's source, through batches and parcels onto the timeline; not started."""
    from batchline.spark.pipeline_source import pipeline_source
    from batchline.spark.pipeline_stream import PipelineStream
    from batchline.spark.publishing import Publishing

    publication, out = pipeline.publish, Path(pipeline.out)
    checkpoint = str(out / ".checkpoint")
    source = pipeline_source(spark, pipeline, checkpoint)
    publishing = Publishing(
        publication.store,
        publication.topic,
        pipeline.name,
        f"{checkpoint}/batchline",
        period=publication.period,
        due=_due(pipeline),
        opening=_opening(pipeline, _labels(pipeline, STREAM)),
        fields=_fields(pipeline, [*source.columns.names, "batch_id"]),
    )
    return PipelineStream(
        source,
        pipeline.batch,
        pipeline.pack,
        publishing,
        out,
        checkpoint,
        lanes=publication.lanes,
        linger=publication.linger,
    )


def _due(pipeline: Pipeline) -> "Due":
    from batchline.spark.publishing import Due

    return Due(pipeline.publish.at, span_us(pipeline.publish.delay))


def _opening(pipeline: Pipeline, labels: dict[str, str]) -> "Opening":
    from batchline.spark.publishing import Opening

    publication = pipeline.publish
    tolerate = None if publication.tolerate < 0 else publication.tolerate
    return Opening(tolerate, labels, None if publication.tell is None else OnComplete(publication.tell))


def _labels(pipeline: Pipeline, run: str) -> dict[str, str]:
    return {"pipeline": pipeline.name, "run": run}


def _fields(pipeline: Pipeline, columns: Iterable[str]) -> dict[str, str]:
    """What is sent of a measurement."""
    return {name: name for name in columns if name not in pipeline.publish.without}


def _run_of(pipeline: Pipeline, path: Path) -> str:
    """The name of a run: by its files and rules, so that the same run is the same, and another is another."""
    from batchline.sources.files import files_of

    files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files_of(path)]
    source = (str(path.absolute()), sorted(pipeline.source.columns.items()), pipeline.source.order_by)
    rules = (pipeline.batch.as_data(), pipeline.pack.as_data(), pipeline.publish.lanes)
    return hashlib.blake2b(repr((files, source, rules)).encode(), digest_size=5).hexdigest()


def _uri(path: Path) -> str:
    from batchline.spark.landing import as_spark_reads

    return as_spark_reads(path)


# --- what became of it ------------------------------------------------------------------------------------------------


def _summary_of(figures: dict[str, Any], parcels: int, measurements: int, oversize: int) -> Summary:
    rejected = dict(figures["rejected"]) | ({"too large for a parcel": oversize} if oversize else {})
    return Summary(figures["read"], figures["batched"], rejected, figures["batches"], parcels, measurements)


def _stream_summary(stream: "PipelineStream") -> Summary:
    published = stream.publishing.published
    return _summary_of(stream.figures(), published.parcels, published.measurements, published.oversize)
