"""What is left of a run, from every place that knows something of it: the files, the store, the receiver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchline.cli.demo_checks import (
    Known,
    Statement,
    accounted,
    arrived_once,
    in_order,
    known_again,
    nothing_else,
    same_as_library,
    told_once,
    within_capacity,
)
from batchline.cli.demo_landing import Landed
from batchline.cli.demo_receiver import Arrival, Identity, Receiver
from batchline.core.batcher import EventTimeBatcher
from batchline.core.fanout import FanoutStatus
from batchline.core.measurement import Measurement
from batchline.core.pipeline import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa

    from batchline.stores import Store

__all__ = ["Evidence", "evidence_of", "statements_of"]

CHECKER = "demo"


@dataclass(frozen=True)
class Evidence:
    """All of it."""

    pipeline: Pipeline
    fleet: "pa.Table"
    landed: Landed
    #: What Spark has written, and its figures.
    batched: "pa.Table"
    rejected: "pa.Table"
    batches: "pa.Table"
    malformed: int
    #: What the store says: the fanouts, and the ids of the messages that told of their completion.
    fanouts: Sequence[FanoutStatus]
    told: Sequence[str]
    #: What the receiver says.
    arrivals: Sequence[Arrival]
    held: Mapping[str, Sequence[Identity]]

    @property
    def capacity(self) -> float:
        """Measurements a second."""
        return self.pipeline.capacity.per_second if self.pipeline.capacity else 0.0

    @cached_property
    def rejections(self) -> dict[str, list[int]]:
        """The sequences of the measurements that were rejected, by reason, the most frequent first."""
        found: dict[str, list[int]] = {}
        names = (self.rejected.column(name).to_pylist() for name in ("verdict", "sequence"))
        for verdict, sequence in zip(*names, strict=True):
            found.setdefault(verdict, []).append(sequence)
        return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))

    @cached_property
    def assigned(self) -> "pa.Table":
        """Every measurement with its verdict, in the order in which they were received."""
        import pyarrow as pa

        rows = pa.concat_tables([self.batched, self.rejected], promote_options="default")
        return rows.sort_by("sequence")


def evidence_of(
    pipeline: Pipeline, fleet: "pa.Table", landed: Landed, receiver: Receiver, results: Path, store: "Store"
) -> Evidence:
    """Gather what is there after a run, whose results are in a directory."""
    import pyarrow.parquet as pq

    from batchline.runtime.tracker import Tracker

    tables = {name: pq.read_table(results / f"{name}.parquet") for name in ("batched", "rejected", "batches")}
    malformed = len((results / "malformed.jsonl").read_text().splitlines())
    return Evidence(
        pipeline,
        fleet,
        landed,
        **tables,
        malformed=malformed,
        fanouts=Tracker(store).list(labels={"pipeline": pipeline.name}).fanouts,
        told=_told(store, str(pipeline.publish.tell)),
        arrivals=list(receiver.arrivals),
        held=dict(receiver.held),
    )


def _told(store: "Store", topic: str) -> list[str]:
    """The messages of a topic, leased and done as any consumer would."""
    from batchline.runtime.timeline import Timeline

    timeline, told = Timeline(store), []
    while found := timeline.lease(topic, CHECKER, limit=100):
        told += [message.id for message in found]
        timeline.done(found)
    return told


def statements_of(evidence: Evidence) -> list[Statement]:
    """What is to be said of a run, checked."""
    accepted = _known(evidence.batched)
    fates = {"batched": evidence.batched.column("sequence").to_pylist()} | evidence.rejections
    landed = evidence.fleet.column("sequence").to_pylist()
    work, pack = evidence.pipeline.work, evidence.pipeline.pack
    return [
        accounted(evidence.landed.lines, landed, fates, evidence.malformed),
        same_as_library(replayed(evidence), _fates(evidence.assigned), evidence.batches.num_rows),
        arrived_once(accepted, evidence.held),
        nothing_else(accepted, evidence.held),
        in_order(evidence.arrivals),
        known_again(evidence.arrivals),
        within_capacity(evidence.arrivals, evidence.capacity, pack.max_items, work.concurrency),
        told_once(evidence.told, evidence.fanouts, len(evidence.held)),
    ]


def _known(table: "pa.Table") -> list[Known]:
    from batchline.columnar.columns import times_of

    keys, types, sequences = (table.column(name).to_pylist() for name in ("key", "type", "sequence"))
    return list(zip(keys, types, times_of(table, "event_time").tolist(), sequences, strict=True))


def _fates(assigned: "pa.Table") -> dict[int, str | None]:
    """By sequence, the batch of a measurement, or why it is in none."""
    names = (assigned.column(name).to_pylist() for name in ("sequence", "batch_id", "verdict"))
    return {sequence: batch or verdict for sequence, batch, verdict in zip(*names, strict=True)}


def replayed(evidence: Evidence) -> dict[int, str | None]:
    """The same of every measurement that the fleet has made, by the plain batcher, one after the other."""
    from batchline.columnar.columns import receive_times_of

    table = evidence.fleet
    batcher = EventTimeBatcher(evidence.pipeline.batch)
    fates: dict[int, Any] = {}
    for row, received_us in zip(_known(table), receive_times_of(table).tolist(), strict=True):
        key, type_, event_us, sequence = row
        fates[sequence] = batcher.add(Measurement.from_us(key, type_, event_us, received_us, sequence)).value
    batcher.flush()
    return fates | {one.payload: batch.id for batch in batcher.closed() for one in batch.messages}
