"""Stage 1: the event-time batcher, for many keys.

What was generated together is batched together, by event time, deterministically: the batches are a function of the
rules and of each key's messages in receive order, and of nothing else.
"""

import heapq
from datetime import datetime
from typing import Any, Self

from batchline.core import batcher_snapshot
from batchline.core.batch import Batch, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.measurement import Measurement
from batchline.core.moment import moment_of, us_of
from batchline.core.open_batches import NEVER_US, OpenBatches, RuleNumbers
from batchline.errors import InvalidInput, InvalidMeasurement, InvalidRules

__all__ = ["EventTimeBatcher"]


class EventTimeBatcher:
    """Sorts messages of many keys into batches; open batches are its only state."""

    def __init__(self, rules: BatchRules | None = None) -> None:
        if rules is not None and not isinstance(rules, BatchRules):
            raise InvalidRules(f"expected BatchRules, got {rules!r} ({type(rules).__name__})")
        self.rules = rules or BatchRules()
        self._numbers = RuleNumbers(self.rules)
        self._streams: dict[str, OpenBatches] = {}
        self._closed: list[Batch] = []
        #: What `advance` has promised: no message of any key is received before this.
        self._clock_us = -NEVER_US
        #: (when, key): each key with open batches has an entry at or before its first timeout.
        self._wakes: list[tuple[int, str]] = []

    def add(self, message: Measurement) -> Verdict:
        """Take one message, in receive order within its key: into a batch, or rejected with a reason."""
        self._check(message)
        key = message.key
        stream = self._streams.get(key)
        now_us = message.receive_us
        if now_us < self._clock_us:
            now_us = self._clock_us
        if stream is None:
            stream = self._streams[key] = OpenBatches(key, self._numbers, self._closed)
        elif now_us < stream.clock_us:
            now_us = stream.clock_us
        elif stream.timeout_us <= now_us:
            stream.close_due(now_us)
        stream.clock_us = now_us
        verdict = stream.add(message)
        if stream.timeout_us < stream.scheduled_us:
            self._schedule(stream)
        if not stream.batches:
            del self._streams[key]
        return verdict

    def closed(self) -> list[Batch]:
        """The batches closed since the last call; those that closed together in order of start."""
        closed = self._closed[:]
        self._closed.clear()
        return closed

    def advance(self, now: datetime) -> None:
        """Move the clock of all keys. A promise: no message of any key will follow that was received before `now`."""
        try:
            self._clock_us = max(self._clock_us, us_of(now))
        except (AttributeError, ValueError) as error:
            raise InvalidInput(f"advance expects a datetime with a time zone, got {now!r}") from error
        before = len(self._closed)
        while self._wakes and self._wakes[0][0] <= self._clock_us:
            self._wake(*heapq.heappop(self._wakes))
        self._sort_closed(before)

    def flush(self) -> None:
        """Close every open batch: the input has ended."""
        before = len(self._closed)
        for stream in self._streams.values():
            stream.flush()
        self._streams.clear()
        self._wakes.clear()
        self._sort_closed(before)

    def wake_at(self) -> datetime | None:
        """When the next batch times out, so that somebody calls `advance` then; None when no batch is open."""
        while self._wakes:
            when_us, key = self._wakes[0]
            stream = self._streams.get(key)
            if stream is not None and stream.timeout_us == when_us:
                return moment_of(when_us)
            self._wake(*heapq.heappop(self._wakes))
        return None

    def snapshot(self) -> dict[str, Any]:
        """All state as plain data: JSON can hold it as far as it can hold the payloads."""
        return batcher_snapshot.take(self.rules, self._clock_us, self._streams, self._closed)

    @classmethod
    def restore(cls, rules: BatchRules, data: dict[str, Any]) -> Self:
        """The batcher a snapshot was taken of, to go on as if nothing had happened."""
        batcher = cls(rules)
        batcher._clock_us, streams = batcher_snapshot.read(data, batcher.rules, batcher._numbers, batcher._closed)
        for stream in streams:
            batcher._streams[stream.key] = stream
            batcher._schedule(stream)
        return batcher

    def _check(self, message: Measurement) -> None:
        if not isinstance(message, Measurement):
            raise InvalidMeasurement(f"expected a Measurement, got {message!r}")
        if message.size is None and self._numbers.max_bytes is not None:
            raise InvalidMeasurement(f"max_bytes is set, so every measurement needs a size; {message!r} has none")

    def _schedule(self, stream: OpenBatches) -> None:
        if len(self._wakes) > 2 * len(self._streams) + 64:
            # Entries of keys gone quiet, where nobody calls advance: start anew with those that live.
            self._wakes = [(s.scheduled_us, s.key) for s in self._streams.values() if s is not stream]
            heapq.heapify(self._wakes)
        stream.scheduled_us = stream.timeout_us
        heapq.heappush(self._wakes, (stream.timeout_us, stream.key))

    def _wake(self, when_us: int, key: str) -> None:
        """Close what is due of a key whose entry was taken off, and enter its next timeout."""
        stream = self._streams.get(key)
        if stream is None or stream.scheduled_us != when_us:
            return
        stream.close_due(self._clock_us)
        if stream.batches:
            self._schedule(stream)
        else:
            del self._streams[key]

    def _sort_closed(self, since: int) -> None:
        self._closed[since:] = sorted(self._closed[since:], key=lambda batch: (batch.start_us, batch.key))
