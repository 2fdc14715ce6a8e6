"""The open batches of one key: where a message goes, and what makes room for it.

     prev              covers t             next
├──────────────┤   ├───────┼────────┤   ├────────────┤      windows never overlap, so they are sorted by start and
start        end         t ▲                                by end alike: the look-up is a bisection, and whatever
                                                            times out stands in front
"""

from bisect import bisect_right
from typing import Final

from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.measurement import Measurement

__all__ = ["NEVER_US", "OpenBatch", "OpenBatches", "RuleNumbers"]

#: Later than every timeout.
NEVER_US: Final = 2**63 - 1


class RuleNumbers:
    """The rules as the numbers a message is compared with."""

    __slots__ = ("anchor", "leap_limit_us", "max_bytes", "max_delay_us", "midpoint", "window_us")

    def __init__(self, rules: BatchRules) -> None:
        self.window_us: Final = rules.window_us
        self.max_delay_us: Final = rules.max_delay_us
        self.leap_limit_us: Final = rules.leap_limit_us
        self.max_bytes: Final = rules.max_bytes
        self.anchor: Final = rules.anchor
        self.midpoint: Final = rules.split == "midpoint"


class OpenBatch:
    """A batch that still takes messages, one per type."""

    __slots__ = ("bytes", "end_us", "members", "ordinal", "start_us")

    def __init__(self, start_us: int, end_us: int, ordinal: int) -> None:
        self.start_us = start_us
        self.end_us = end_us
        self.ordinal = ordinal
        self.members: dict[str, Measurement] = {}
        self.bytes = 0

    def put(self, message: Measurement) -> None:
        """Take the message in; the caller has made sure that it fits."""
        self.members[message.type] = message
        self.bytes += message.size or 0

    def give(self, upper: "OpenBatch") -> None:
        """Hand every message from the start of `upper` on over to it."""
        for message in [m for m in self.members.values() if m.event_us >= upper.start_us]:
            del self.members[message.type]
            self.bytes -= message.size or 0
            upper.put(message)


class OpenBatches:
    """The open batches of one key, sorted by start, and the key's clock. Exists only while a batch is open."""

    __slots__ = ("batches", "clock_us", "closed", "key", "rules", "scheduled_us", "starts", "timeout_us", "used")

    def __init__(self, key: str, rules: RuleNumbers, closed: list[Batch]) -> None:
        self.key = key
        self.rules = rules
        #: Where closed batches go.
        self.closed = closed
        self.clock_us = -NEVER_US
        self.batches: list[OpenBatch] = []
        self.starts: list[int] = []
        #: The timeout of the first batch: nothing closes before it.
        self.timeout_us = NEVER_US
        #: When the batcher will look at this key again.
        self.scheduled_us = NEVER_US
        #: How often a start was used: only a batch closed as full lets one come again.
        self.used: dict[int, int] = {}

    def add(self, message: Measurement) -> Verdict:
        """Put the message, received at the clock, into its batch, or say why it has none."""
        rules, now_us = self.rules, self.clock_us
        event_us = message.event_us
        if event_us < now_us - rules.max_delay_us:
            return Verdict.LATE
        if event_us > now_us + rules.leap_limit_us:
            return Verdict.FUTURE
        at = bisect_right(self.starts, event_us) - 1
        if rules.max_bytes is None and at >= 0:
            # The common case, kept short: its batch is open and has none of its type.
            batch = self.batches[at]
            if event_us < batch.end_us and message.type not in batch.members:
                batch.members[message.type] = message
                return Verdict.BATCHED
        return self._place(message, at)

    def _place(self, message: Measurement, at: int) -> Verdict:
        max_bytes = self.rules.max_bytes
        if max_bytes is not None and (message.size or 0) > max_bytes:
            return Verdict.OVERSIZE
        if at < 0 or message.event_us >= self.batches[at].end_us:
            self._open(message, at + 1)
            return Verdict.BATCHED
        batch = self.batches[at]
        other = batch.members.get(message.type)
        if other is not None:
            if other.event_us == message.event_us:
                return Verdict.DUPLICATE
            batch = self._part(batch, other.event_us, message.event_us)
        if max_bytes is not None and batch.bytes + (message.size or 0) > max_bytes:
            batch = self._make_room(batch, message, max_bytes)
        batch.put(message)
        return Verdict.BATCHED

    def _open(self, message: Measurement, at: int) -> None:
        """Open the batch that covers a message which no open batch covers, as number `at` of the sorted ones."""
        event_us, window_us = message.event_us, self.rules.window_us
        start_us = self._anchor(event_us)
        if at > 0:
            start_us = max(start_us, self.batches[at - 1].end_us)
        if not start_us <= event_us < start_us + window_us:
            # A leap limit or delay longer than the window: the batch must cover its own message.
            start_us = event_us
        self._insert(at, start_us, self._end_before_next(start_us, at)).put(message)

    def _anchor(self, event_us: int) -> int:
        match self.rules.anchor:
            case "arrival":
                return self.clock_us - self.rules.max_delay_us
            case "lookback":
                return event_us - self.rules.max_delay_us
            case "event":
                return event_us
            case _:
                return event_us - event_us % self.rules.window_us

    def _end_before_next(self, start_us: int, next_at: int) -> int:
        end_us = start_us + self.rules.window_us
        return min(end_us, self.starts[next_at]) if next_at < len(self.starts) else end_us

    def _insert(self, at: int, start_us: int, end_us: int) -> OpenBatch:
        batch = OpenBatch(start_us, end_us, self._ordinal(start_us))
        self.batches.insert(at, batch)
        self.starts.insert(at, start_us)
        if at == 0:
            self.timeout_us = end_us + self.rules.max_delay_us
        return batch

    def _ordinal(self, start_us: int) -> int:
        if self.rules.max_bytes is None:
            return 0
        ordinal = self.used.get(start_us, 0)
        self.used[start_us] = ordinal + 1
        return ordinal

    def _part(self, batch: OpenBatch, other_us: int, event_us: int) -> OpenBatch:
        """Split between two messages of one type; the half that covers `event_us`."""
        low_us, high_us = min(other_us, event_us), max(other_us, event_us)
        at_us = low_us + (high_us - low_us + 1) // 2 if self.rules.midpoint else high_us
        upper = self._split(batch, at_us)
        return upper if event_us >= at_us else batch

    def _split(self, batch: OpenBatch, at_us: int) -> OpenBatch:
        """Cut the batch at a point inside it; the new upper half. The lower one may have timed out and then closes."""
        place = bisect_right(self.starts, batch.start_us)
        end_us = batch.end_us if self.rules.midpoint else self._end_before_next(at_us, place)
        upper = self._insert(place, at_us, end_us)
        batch.give(upper)
        batch.end_us = at_us
        if place == 1:
            self.timeout_us = at_us + self.rules.max_delay_us
            if self.timeout_us <= self.clock_us:
                self._close_first(self.clock_us, CloseReason.TIMEOUT)
        return upper

    def _make_room(self, batch: OpenBatch, message: Measurement, max_bytes: int) -> OpenBatch:
        """Split or close the overflowing batch; the one that takes the message."""
        event_us, room = message.event_us, max_bytes - (message.size or 0)
        before = [m for m in batch.members.values() if m.event_us < event_us]
        after = [m for m in batch.members.values() if m.event_us > event_us]
        fits_with_after = bool(before) and batch.bytes - _bytes_of(before) <= room
        fits_with_before = bool(after) and batch.bytes - _bytes_of(after) <= room
        if before and (fits_with_after or not fits_with_before):
            batch = self._split(batch, event_us)
        if after and not fits_with_after:
            self._split(batch, min(m.event_us for m in after))
        return batch if batch.bytes <= room else self._replace_full(batch, event_us)

    def _replace_full(self, batch: OpenBatch, event_us: int) -> OpenBatch:
        """Close a batch that is full at one moment, and open another from that moment on."""
        at = bisect_right(self.starts, batch.start_us) - 1
        self._close(at, self.clock_us, CloseReason.FULL)
        return self._insert(at, event_us, batch.end_us)

    def close_due(self, now_us: int) -> None:
        """Close, in order of start, every batch whose timeout `now_us` has reached."""
        while self.timeout_us <= now_us:
            self._close_first(self.timeout_us, CloseReason.TIMEOUT)
        if not self.batches:
            self.used.clear()
        elif len(self.used) > 2 * len(self.batches) + 16:
            self._forget_starts(now_us)

    def flush(self) -> None:
        """Close every batch: the input has ended."""
        while self.batches:
            self._close_first(self.clock_us, CloseReason.FLUSH)

    def _close_first(self, closed_at_us: int, reason: CloseReason) -> None:
        self._close(0, closed_at_us, reason)
        self.timeout_us = self.batches[0].end_us + self.rules.max_delay_us if self.batches else NEVER_US

    def _close(self, at: int, closed_at_us: int, reason: CloseReason) -> None:
        batch = self.batches.pop(at)
        del self.starts[at]
        timeout_us = batch.end_us + self.rules.max_delay_us
        messages = tuple(sorted(batch.members.values(), key=_event_then_type))
        self.closed.append(
            Batch(self.key, batch.start_us, batch.end_us, timeout_us, closed_at_us, reason, batch.ordinal, messages)
        )

    def _forget_starts(self, now_us: int) -> None:
        """Forget the starts that cannot come again: a message so old that it could use one would be late."""
        oldest_us = now_us - self.rules.window_us - self.rules.max_delay_us
        self.used = {start: count for start, count in self.used.items() if start > oldest_us}


def _event_then_type(message: Measurement) -> tuple[int, str]:
    return message.event_us, message.type


def _bytes_of(messages: list[Measurement]) -> int:
    return sum(message.size or 0 for message in messages)
