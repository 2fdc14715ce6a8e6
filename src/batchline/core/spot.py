"""Stage 4: how messages are kept.

    bundle    up to 64 messages that one call created: their ids and bodies. Never changed.
    spot      messages of one bundle that stand at the same moment, in the same state: a row on the line, a bit each.

All that happens to a message happens to its spot; what happens to some of its messages only splits it. So a thousand
messages that are due together are leased, and done, as a handful of rows.

A message is on exactly one spot of its bundle, from its creation until `prune` removes the spot. A spot of messages
that are done or cancelled keeps their bits, as the record of what became of them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["CANCELLED", "DONE", "SEGMENTS", "Spot", "Together", "mask_of", "segment_of", "segments_of"]

#: Parts of the line that are read apart, each with an equal share of the buckets.
SEGMENTS: Final = 8
#: Segments off the line, whose spots `prune` removes: of messages that are done, and of those that were cancelled.
DONE: Final = -1
CANCELLED: Final = -2


#: Due time, turn and bundle.
Together = tuple[int, int, int]


def segment_of(bucket: int, buckets: int) -> int:
    """The segment of a bucket."""
    return bucket * SEGMENTS // buckets


def segments_of(first: int, last: int, buckets: int) -> range:
    """The segments that have buckets from the first to the last."""
    return range(segment_of(first, buckets), segment_of(last, buckets) + 1)


def mask_of(places: Iterable[int]) -> int:
    """Bits at these places."""
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask


class Spot(NamedTuple):
    """Messages of one bundle in the same state."""

    bundle: int
    number: int
    topic: int
    segment: int
    at_ms: int
    #: The negative of their priority: the smaller goes first.
    turn: int
    #: A bit for each of its messages, by their place in the bundle.
    bits: int
    #: All of their buckets are from here to there.
    low_bucket: int
    high_bucket: int
    version: int
    attempts: int
    consumer: str | None
    #: The session of the consumer that leased it; None if it had none.
    session: int | None = None

    @property
    def key(self) -> tuple[int, int]:
        """What names it."""
        return self.bundle, self.number

    @property
    def together(self) -> Together:
        """What it shares with the spots whose messages go out with its own, in order of creation: by place."""
        return self.at_ms, self.turn, self.bundle

    @property
    def size(self) -> int:
        """How many messages it holds."""
        return self.bits.bit_count()

    @property
    def is_on_line(self) -> bool:
        """Whether its messages are neither done nor cancelled."""
        return self.segment >= 0

    def is_available(self, now_ms: int) -> bool:
        """Whether its messages can be leased."""
        return self.is_on_line and self.at_ms <= now_ms

    def is_leased(self, now_ms: int) -> bool:
        """Whether a lease on its messages is active."""
        return self.is_on_line and self.consumer is not None and self.at_ms > now_ms

    def is_held(self, version: int, consumer: str, now_ms: int) -> bool:
        """Whether a lease of this version is active, and this consumer's."""
        return self.version == version and self.consumer == consumer and self.is_leased(now_ms)

    def done(self, now_ms: int) -> "Spot":
        """Take its messages off the line as done."""
        return self._replace(segment=DONE, at_ms=now_ms, consumer=None, session=None)

    def cancelled(self, now_ms: int) -> "Spot":
        """Take its messages off the line as cancelled: their ids are free."""
        return self._replace(segment=CANCELLED, at_ms=now_ms, consumer=None, session=None)

    def leased(self, consumer: str, session: int | None, until_ms: int) -> "Spot":
        """Lease its messages to a consumer."""
        leased = self._replace(version=self.version + 1, attempts=self.attempts + 1)
        return leased._replace(at_ms=until_ms, consumer=consumer, session=session)

    def resumed(self, session: int) -> "Spot":
        """Its messages in the hands of the same consumer, over another connection: the lease before is void."""
        return self._replace(session=session, version=self.version + 1)

    def extended(self, until_ms: int) -> "Spot":
        """Its messages for longer in the same hands."""
        return self._replace(at_ms=until_ms, version=self.version + 1)

    def moved(self, at_ms: int) -> "Spot":
        """Its messages at another moment, in nobody's hands."""
        return self._replace(at_ms=at_ms, consumer=None, session=None, version=self.version + 1)

    def buried(self, topic: int, segment: int, buckets: list[int], now_ms: int) -> "Spot":
        """Its messages on the dead-letter topic, due at once, their leases counted anew."""
        low, high = min(buckets), max(buckets)
        moved = self.moved(now_ms)
        return moved._replace(topic=topic, segment=segment, low_bucket=low, high_bucket=high, attempts=0)
