"""A pipeline's stream on Spark: what an epoch hands out is kept, packed and published.

rows ──► follow ──► batched, batches, rejected in files ──► parcels ──► tracker and timeline
                                 └── read again from there: an epoch that is repeated reads what it wrote
"""

import json
import threading
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from batchline.columnar.names import Names
from batchline.core.batch_rules import BatchRules
from batchline.core.epoch import Epoch, StreamState
from batchline.core.pack_rules import PackRules
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.spark import checkpoint as checkpoints
from batchline.spark.epoch_files import Directory
from batchline.spark.epoch_results import BATCHED, EpochResults, lines_by_epoch
from batchline.spark.following import EVERY_SECOND, NO_VERDICTS, Following, Stopped, about_batches
from batchline.spark.landing import as_spark_reads
from batchline.spark.packing import packer_of
from batchline.spark.pipeline_source import PipelineSource
from batchline.spark.publishing import Publishing
from batchline.spark.stream_columns import note_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PipelineStream"]

#: Batched rows of so many epochs are kept: an epoch that is repeated reads its own.
KEPT: Final = 2
TICKS: Final = "ticks"
ENDED: Final = "ended.json"
#: So many epochs are remembered for who asks how they went.
REMEMBERED: Final = 20


class PipelineStream:
    """A stream that is followed, packed and published."""

    def __init__(
        self,
        source: PipelineSource,
        rules: BatchRules,
        pack: PackRules,
        publishing: Publishing,
        out: Path,
        checkpoint: str,
        *,
        lanes: int,
        linger: timedelta,
    ) -> None:
        """Nothing runs yet."""
        columns = source.columns
        self.following = Following(source.rows, rules, source.names, source.pace, self._each, checkpoint, lanes)
        note_columns(self.following.state, columns)
        self.results = EpochResults(out, columns, always=(BATCHED,))
        self.publishing, self.stop = publishing, threading.Event()
        self._source, self._rules, self._checkpoint = source, rules, checkpoint
        self._packer = packer_of(pack, Names(size="size" if "size" in columns.names else None), linger)
        self._state = Directory(f"{self.following.state.uri}/parcels")
        self._ending = False
        self._other: StreamingQuery | None = None
        self.epoch = -1
        #: The lines that were no measurements, by epoch: one that is replayed counts once.
        self.malformed = lines_by_epoch(out / "malformed")
        #: How the last epochs went.
        self.epochs: deque[Epoch] = deque(maxlen=REMEMBERED)
        self._read = self.figures()["read"]

    # --- its life ---

    def start(self, trigger: Mapping[str, Any] = EVERY_SECOND) -> None:
        """Start the query, or go on from its checkpoint; not if the input has ended before."""
        if self.has_ended:
            return
        self.following.start(trigger)
        if self._source.malformed is not None:
            # A query of its own: what one reads of the source, the other does not see.
            writer = self._source.malformed.drop("value").writeStream.foreachBatch(self._keep_malformed)
            writer = writer.option("checkpointLocation", f"{self._checkpoint}/malformed")
            self._other = writer.trigger(**trigger).start()

    @property
    def is_active(self) -> bool:
        """Whether its query runs."""
        query = self.following.query
        return query is not None and bool(query.isActive)

    def wait(self) -> None:
        """Wait until the query has ended; an error in it is raised here."""
        self.following.wait()

    def finish(self) -> None:
        """Wait until the query has ended, and hand out, pack and publish all that is open."""
        self.following.wait()
        if self._other is not None:
            self._other.awaitTermination()
        self._ending = True
        self.following.finish()
        self.publishing.finish(self.epoch)
        self._state.write_text(ENDED, json.dumps({"epoch": self.epoch}))

    def stop_between_epochs(self) -> None:
        """Stop when the epoch at hand is done; what is open stays, and the next start goes on from there."""
        self.stop.set()
        if self._other is not None:
            self._other.stop()
        self.following.stop_between_epochs()

    @property
    def has_ended(self) -> bool:
        """Whether its input has ended: it cannot be started any more, only finished."""
        return checkpoints.is_finished(self.following.state) is not None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, and all of it was published: noted last, for a kill may come in between."""
        return self._state.read_text(ENDED) is not None

    def figures(self) -> dict[str, Any]:
        """What has come since the stream began, and what became of it."""
        counts = self.following.summary()
        rejected = {name: count for name, count in counts.items() if count and name not in (*NO_VERDICTS, BATCHED)}
        malformed = sum(self.malformed.values())
        return {
            "read": counts.get("read", 0) + malformed,
            "batched": counts.get(BATCHED, 0),
            "rejected": rejected | ({"malformed": malformed} if malformed else {}),
            "batches": counts.get("batches", 0),
        }

    def held(self) -> StreamState:
        """What the stream holds now."""
        return self.following.held()

    # --- an epoch ---

    def _each(self, rows: "DataFrame", epoch: int) -> None:
        if self.stop.is_set():
            raise Stopped
        began_s = elapsed_seconds()
        self.results.write(rows, epoch)
        self.malformed |= lines_by_epoch(self.results.out / "malformed", epoch)
        parcels = self._packer(self._batched(epoch), self._state.uri, epoch, self._ending, self._tick_us(epoch))
        self.publishing(parcels, epoch)
        self.epoch = epoch
        self._note(epoch, began_s)
        self.results.forget(BATCHED, [epoch - KEPT])

    def _note(self, epoch: int, began_s: float) -> None:
        before, self._read = self._read, self.figures()["read"]
        took_ms = round((elapsed_seconds() - began_s) * 1_000)
        self.epochs.append(Epoch(epoch, now_us() // 1_000, max(self._read - before, 0), took_ms))

    def _keep_malformed(self, rows: "DataFrame", epoch: int) -> None:
        """Keep what is no measurement, as the lines of files are kept."""
        if not rows.isEmpty():
            rows.write.mode("overwrite").json(as_spark_reads(self.results.out / "malformed" / f"epoch={epoch}"))
            self.malformed |= lines_by_epoch(self.results.out / "malformed", epoch)

    def _batched(self, epoch: int) -> "DataFrame":
        """What an epoch has batched, from its files, with what stage 2 must know of it."""
        path = self.results.of(BATCHED, epoch).absolute()
        about = about_batches(self._rules, "key", self.following.lanes)
        return self._source.rows.sparkSession.read.parquet(as_spark_reads(path)).withMetadata("batch_id", about)

    def _tick_us(self, epoch: int) -> int | None:
        """What the clock showed when an epoch was first run: repeated, it lets parcels linger for as long."""
        if self._source.pace.clock == "data":
            return None
        name = f"{TICKS}/{epoch:06}.json"
        text = self._state.read_text(name)
        if text is None:
            text = json.dumps({"tick_us": now_us()})
            self._state.write_text(name, text)
            self._state.delete(f"{TICKS}/{epoch - KEPT - 1:06}.json")
        return int(json.loads(text)["tick_us"])
