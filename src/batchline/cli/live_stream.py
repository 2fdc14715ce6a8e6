"""The stream of `batchline serve --demo`: an endless fleet through the batcher, onto the timeline and into tables.

What Spark does elsewhere is done here by the plain batcher, an epoch at a time, for a fleet that is small.
"""

import json
import threading
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from batchline.cli.live_tables import LiveTables
from batchline.core.batch import Batch, Verdict
from batchline.core.batcher import EventTimeBatcher
from batchline.core.consignment import Consignment
from batchline.core.epoch import Epoch, StreamState
from batchline.core.measurement import Measurement
from batchline.core.moment import moment_of
from batchline.core.pipeline import Pipeline
from batchline.errors import StoreError
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.completion import Completion
from batchline.runtime.publisher import Publisher
from batchline.runtime.run_numbers import RunNumbers
from batchline.runtime.summary import Summary
from batchline.runtime.tracker import Tracker
from batchline.sources.sample import Fleet, sample_fleet
from batchline.stores import Store
from batchline.wire.form import moment_text

__all__ = ["LiveStream"]

#: With this seed every way to be rejected is seen.
FLEET: Final = Fleet(devices=24, minutes=10, seed=2, skewed=0.09, outages=0.09, slow=0.03)
#: It began before somebody looks, so that there are windows to be seen.
BEFORE: Final = timedelta(minutes=2)
EVERY_S: Final = 1.0
PERIOD_US: Final = 60_000_000
REMEMBERED: Final = 20


class LiveStream:
    """Epochs of a fleet that never ends; as a stream of Spark, it tells of its epochs and what it holds."""

    def __init__(self, store: Store, pipeline: Pipeline, out: Path):
        self.numbers = RunNumbers(pipeline)
        self.numbers.stream = self
        self.epochs: deque[Epoch] = deque(maxlen=REMEMBERED)
        self._pipeline, self._store = pipeline, store
        self._tracker = Tracker(store)
        self._labels = {"pipeline": pipeline.name, "run": "stream"}
        self.numbers.completion = self._completion = Completion(self._tracker, self._labels)
        self._batcher = EventTimeBatcher(pipeline.batch)
        self._tables = LiveTables(out)
        self._fleet = replace(FLEET, start=moment_of(now_us()) - BEFORE)
        self._rows: deque[dict[str, Any]] = deque()
        self._rejected: Counter[str] = Counter()
        self._sent: Counter[int] = Counter()
        self._fanout = ""
        self._state = StreamState()

    def held(self) -> StreamState:
        """What it holds now."""
        return self._state

    def begin(self) -> None:
        """What was measured before somebody looked: batched, but not sent."""
        self._epoch(0, publish=False)
        self.epochs.clear()
        self._rejected.clear()
        self.numbers.summary = Summary()

    def run(self, stop: threading.Event) -> None:
        """An epoch a second, until it is told to stop."""
        number = 0
        while not stop.wait(EVERY_S):
            number += 1
            # A store that is busy is asked again with the next epoch.
            with suppress(StoreError):
                self._epoch(number, publish=True)

    # --- an epoch ---

    def _epoch(self, number: int, *, publish: bool) -> None:
        began_s, moment_us = elapsed_seconds(), now_us()
        rows = self._due(moment_us)
        rejected = [(row, verdict) for row in rows if (verdict := self._add(row)) is not Verdict.BATCHED]
        self._batcher.advance(moment_of(moment_us))
        closed = self._batcher.closed()
        self._tables.write(closed, rejected, moment_us)
        if publish:
            self._publish(closed, moment_us)
        self._note(len(rows), rejected, closed)
        took_ms = round((elapsed_seconds() - began_s) * 1_000)
        self.epochs.append(Epoch(number, now_us() // 1_000, len(rows), took_ms))

    def _due(self, moment_us: int) -> list[dict[str, Any]]:
        """What has been received by now; when a fleet has told all, the next one begins where it ended."""
        while not self._rows or self._rows[-1]["receive_time"] <= moment_us:
            self._rows.extend(_plain(sample_fleet(self._fleet)))
            self._fleet = replace(self._fleet, start=self._fleet.start + timedelta(minutes=FLEET.minutes))
        due = []
        while self._rows and self._rows[0]["receive_time"] <= moment_us:
            due.append(self._rows.popleft())
        return due

    def _add(self, row: dict[str, Any]) -> Verdict:
        return self._batcher.add(
            Measurement.from_us(row["key"], row["type"], row["event_time"], row["receive_time"], row["value"])
        )

    def _note(self, read: int, rejected: Sequence[tuple[object, Verdict]], closed: Sequence[Batch]) -> None:
        snapshot = self._batcher.snapshot()
        text = json.dumps(snapshot)
        batched = sum(len(batch.messages) for batch in closed)
        summary = self.numbers.summary
        open_rows = self._state.open_rows + read - len(rejected) - batched
        open_batches = sum(len(key["batches"]) for key in snapshot["keys"])
        self._state = StreamState(open_rows, open_batches, open_rows + len(snapshot["keys"]), len(text))
        self._rejected.update(verdict.value for _, verdict in rejected)
        summary.read += read
        summary.batched += batched
        summary.batches += len(closed)
        summary.rejected = dict(self._rejected)
        self._completion.look()

    # --- onto the timeline ---

    def _publish(self, closed: Iterable[Batch], moment_us: int) -> None:
        """A parcel for each lane, into the fanout of the minute."""
        lanes: dict[int, list[Measurement]] = defaultdict(list)
        for batch in closed:
            lanes[zlib.crc32(batch.key.encode()) % self._pipeline.publish.lanes] += batch.messages
        self._turn(f"{self._pipeline.name}-{moment_of(moment_us - moment_us % PERIOD_US):%H:%M}")
        publisher = Publisher(self._store, self._pipeline.publish.topic, self._fanout)
        for lane, messages in sorted(lanes.items()):
            publisher.post([_parcel(self._fanout, lane, self._sent[lane] + 1, messages)])
            self._sent[lane] += 1
            self.numbers.summary.parcels += 1
            self.numbers.summary.published += len(messages)

    def _turn(self, fanout: str) -> None:
        """Seal the fanout of the minute before, and open this one's."""
        if fanout == self._fanout:
            return
        if self._fanout:
            self._tracker.seal(self._fanout)
        self._tracker.open(fanout, labels=self._labels)
        self._fanout = fanout
        self._sent.clear()


def _plain(fleet: pa.Table) -> list[dict[str, Any]]:
    rows = fleet.select(["key", "type", "event_time", "receive_time", "value"])
    for place in (2, 3):
        name = rows.column_names[place]
        rows = rows.set_column(place, name, rows.column(place).cast(pa.int64()))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _parcel(fanout: str, lane: int, number: int, messages: Sequence[Measurement]) -> Consignment:
    measurements = [
        {"key": one.key, "type": one.type, "event_time": moment_text(one.event_time), "value": one.payload}
        for one in messages
    ]
    times = sorted(one["event_time"] for one in measurements)
    payload = json.dumps(measurements, separators=(",", ":")).encode()
    return Consignment(
        f"{fanout}/{lane}/{number}", fanout, lane, number, None, len(messages), times[0], times[-1], payload
    )
