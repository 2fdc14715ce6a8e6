"""What becomes of leased messages, from a DataFrame: done, or given back.

leases ──► shuffle by their row in the store ──► the store, from the executors ──► counts
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from batchline.core.due_time import check_either
from batchline.core.message import Lease, Outcome, read_lease
from batchline.core.name import reason_text
from batchline.errors import InvalidInput, MalformedLease
from batchline.runtime.timeline import Timeline
from batchline.spark.frames import check_column, quoted
from batchline.spark.lease_once import FINISHED_AT_ONCE
from batchline.spark.store_address import store_address
from batchline.stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LeaseTask", "done_frame", "release_frame"]

#: What a task tells of what it did.
TOLD: Final = pa.schema([("outcome", pa.string()), ("count", pa.int64())])


def done_frame(df: "DataFrame", store: Store | str, lease: str) -> Counter[str]:
    """Finish the messages of a column of leases; runs a job."""
    return _run(df, "done", store, lease, None)


def release_frame(
    df: "DataFrame",
    store: Store | str,
    lease: str,
    at: datetime | int | None,
    after: timedelta | None,
    reason: object,
) -> Counter[str]:
    """Give the messages of a column of leases back; runs a job."""
    check_either("the moment of a release", at, after, None)
    return _run(df, "release", store, lease, Release(at, after, reason_text(reason)))


class Release(NamedTuple):
    """When messages that are given back are due again, and why they were given back."""

    at: datetime | int | None
    #: In place of `at`: a span from now, by the clock of the executor that talks to the store.
    after: timedelta | None
    reason: str


def _run(df: "DataFrame", verb: str, store: Store | str, lease: str, release: Release | None) -> Counter[str]:
    from pyspark.sql.pandas.types import from_arrow_schema

    if df.isStreaming:
        raise InvalidInput(f"{verb} takes a batch DataFrame: a stream finishes what it has read by itself")
    check_column(df, "lease", lease)
    task = LeaseTask(store_address(store), release)
    told: Counter[str] = Counter()
    for row in _together(df, lease).mapInArrow(task.__call__, from_arrow_schema(TOLD)).collect():
        told[row["outcome"]] += row["count"]
    return told


def _together(df: "DataFrame", lease: str) -> "DataFrame":
    """A row per row of the store with its leases, each once: so it is changed once, and not split."""
    from pyspark.sql import functions as sf

    text = sf.coalesce(sf.col(quoted(lease)), sf.lit(""))
    rows = df.select(text.alias("lease")).groupBy(sf.substring_index("lease", "/", 2).alias("spot"))
    return rows.agg(sf.collect_set("lease").alias("leases")).select("leases")


class LeaseTask(NamedTuple):
    """What runs in a worker: leases in, counts of what became of them out."""

    store: str
    release: Release | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Finish, or give back; a task that is repeated finds done what is done."""
        with open_store(self.store, migrate=False) as store:
            timeline = Timeline(store)
            for batch in batches:
                told = Counter[str]()
                for leases in self._calls(batch.column(0).to_pylist(), told):
                    told.update(outcome.outcome for outcome in self._act(timeline, leases))
                yield pa.record_batch([list(told), list(told.values())], schema=TOLD)

    def _calls(self, spots: list[list[str]], told: Counter[str]) -> Iterator[list[Lease]]:
        """The leases of one call after the other; those of a row of the store are in the same."""
        leases: list[Lease] = []
        for texts in spots:
            for text in texts:
                try:
                    leases.append(read_lease(text))
                except MalformedLease:
                    told["malformed"] += 1
            if len(leases) >= FINISHED_AT_ONCE:
                yield leases
                leases = []
        yield leases

    def _act(self, timeline: Timeline, leases: list[Lease]) -> list[Outcome]:
        if self.release is None:
            return timeline.done(leases)
        return timeline.release(leases, self.release.at, after=self.release.after, reason=self.release.reason)
