"""What stage 4 asks of a store: rows, read and written inside one transaction.

    topics      producer_groups
       ▲              ▲
       └── bundles ───┘      up to 64 messages that one call created: ids and bodies
             ▲
             ├── spots       where messages of a bundle stand together: the line, which is all that is scanned
             ├── message_ids where a message is whose id was chosen
             └── attempts    leases that came to nothing

    tallies, slices          how many messages stand in which slice of the line
    consumers, sessions      which consumers there are, and which processes run under their names
    brokers                  which processes hand out leases, and their clocks

`hold_…` reads rows and locks them until the transaction ends. A spot is written under its lock, and only if it still is
what was read: the condition is part of the statement.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from batchline.core.bundle import Bundle
from batchline.core.drift import Vote
from batchline.core.future_load import Range
from batchline.core.name import LONGEST_NAME
from batchline.core.session import SessionRow
from batchline.core.spot import Spot, Together, segments_of
from batchline.core.topic import Topic
from batchline.stores.clock_rows import ClockRows

__all__ = [
    "BEFORE_ALL",
    "BrokerRow",
    "ConsumerRow",
    "Due",
    "IdPlace",
    "Place",
    "SpotChange",
    "Stretch",
    "TimelineRows",
    "TriedSpot",
    "WholeSpot",
    "broker_row_name",
    "stretch_of",
]

Key = tuple[int, int]
#: Where a message is kept: its bundle, and its place in that.
Place = tuple[int, int]


class IdPlace(NamedTuple):
    """A chosen id, and where its message is kept."""

    id: str
    bundle: int
    place: int


class Due(NamedTuple):
    """A spot as the line is read; in their order, the oldest is first."""

    at_ms: int
    turn: int
    bundle: int
    number: int
    #: How many messages it holds.
    size: int

    @property
    def key(self) -> Key:
        """What names the spot."""
        return self.bundle, self.number

    @property
    def together(self) -> Together:
        """What it shares with the spots whose messages go out with its own, as of a `Spot`."""
        return self.at_ms, self.turn, self.bundle


#: Where reading the line begins.
BEFORE_ALL = Due(-1, 0, 0, 0, 0)


class Stretch(NamedTuple):
    """A part of a topic's line: some buckets, from a moment on, up to and including another."""

    topic: int
    segments: range
    buckets: range
    from_ms: int
    to_ms: int


def stretch_of(topic: Topic, buckets: range, to_ms: int) -> Stretch:
    """The line of these buckets, from its beginning on."""
    segments = segments_of(buckets.start, buckets.stop - 1, topic.buckets) if buckets else range(0)
    return Stretch(topic.number, segments, buckets, 0, to_ms)


class SpotChange(NamedTuple):
    """A spot as it is, and as it is to be."""

    before: Spot
    after: Spot


class WholeSpot(NamedTuple):
    """What a spot must be, to be taken off the line as a whole."""

    bundle: int
    number: int
    version: int
    bits: int
    consumer: str
    #: By its name.
    topic: str


class TriedSpot(NamedTuple):
    """A lease that came to nothing, of messages of one spot."""

    bundle: int
    number: int
    bits: int
    #: The version of the lease.
    version: int
    attempt: int
    ended_ms: int
    consumer: str
    ending: str
    reason: str


class ConsumerRow(NamedTuple):
    """A consumer of a topic, as it was seen last."""

    consumer: str
    seen_ms: int
    drift_ms: int
    messages_per_second: float


class BrokerRow(NamedTuple):
    """A broker, when it was seen by the database's clock, and how far its own is ahead of that."""

    #: Its name and its host, as `broker_row_name` puts them together.
    name: str
    seen_ms: int
    ahead_ms: int

    @property
    def broker(self) -> str:
        """The broker's name."""
        return self.name.partition("\t")[0]

    @property
    def vote(self) -> Vote:
        """The vote of its host."""
        return Vote(self.name.partition("\t")[2], self.seen_ms, self.ahead_ms)


def broker_row_name(name: str, host: str) -> str:
    """Return what a broker's row is kept under. A tab, which no chosen name can have, is before its host."""
    mark = hashlib.blake2b(host.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return f"{name[: LONGEST_NAME - len(mark) - 1]}\t{mark}"


class TimelineRows(ClockRows, Protocol):
    """The tables of stage 4 within a transaction. What is not there is None, or left out of the answer."""

    def topics(self) -> list[Topic]:
        """All topics, by name."""

    def topic(self, name: str) -> Topic | None:
        """The topic of a name."""

    def topic_with_newest(self, name: str, consumer: str, from_ms: int, to_ms: int) -> tuple[Topic | None, int | None]:
        """The topic of a name, and the newest session of a consumer that was seen between two moments; in one query."""

    def insert_topic(self, topic: Topic) -> bool:
        """A new topic; false if the name is taken."""

    def write_topic(self, topic: Topic) -> None:
        """New rules for a topic, by its number."""

    def delete_topic(self, topic: int, now_ms: int) -> None:
        """Mark a topic as one that is being deleted."""

    def remove_topic(self, topic: int) -> None:
        """Forget a topic of which nothing is left but counts and consumers."""

    def producer_group(self, name: str) -> int:
        """The number of a producer group, which is made if there is none."""

    def known_group(self, name: str) -> int | None:
        """The number of a producer group."""

    def use_rate(self, topic: int, producer_group: int) -> int | None:
        """Up to when a producer group has used up what it may, held; in microseconds."""

    def write_rate(self, topic: int, producer_group: int, used_up_to_us: int) -> None:
        """Note that."""

    # --- messages ---

    def insert_bundles(self, bundles: Sequence[Bundle]) -> int:
        """New bundles; tells how many there were none of yet."""

    def bundles_by_number(self, numbers: Iterable[int]) -> dict[int, Bundle]:
        """Bundles, with ids, bodies and the names of their owners."""

    def content_sizes(self, numbers: Iterable[int]) -> dict[int, int]:
        """How many bytes bundles have, by their numbers, without reading them."""

    def owners_of(self, bundles: Iterable[int]) -> dict[int, int]:
        """The producer groups of bundles."""

    def bundles_of_group(self, producer_group: int, from_number: int, limit: int) -> list[int]:
        """The numbers of a producer group's bundles, in order, from a number on."""

    def insert_message_ids(self, topic: int, places: Sequence[IdPlace]) -> int:
        """Insert chosen ids; return how many were new. One that is taken stays as it is."""

    def message_ids(self, topic: int, ids: Sequence[str]) -> dict[str, Place]:
        """Bundle and place of chosen ids."""

    def delete_message_ids(self, topic: int, places: Sequence[IdPlace]) -> None:
        """Free chosen ids, each only if its message is the one at this place."""

    def insert_spots(self, spots: Sequence[Spot]) -> None:
        """New spots."""

    def write_spots(self, changes: Sequence[SpotChange]) -> None:
        """Write spots, each only if its version and bits are those before; all of them, or it is all repeated."""

    def end_spots(self, whole: Sequence[WholeSpot], now_ms: int) -> int:
        """Take spots off the line whose messages are all leased in this way, actively; tells how many they were."""

    def delete_spots(self, keys: Sequence[Key]) -> None:
        """Forget spots; they must be held."""

    def due(self, stretch: Stretch, after: Due, limit: int) -> list[Due]:
        """Spots on a stretch of the line, oldest first, from after one of them on; nothing is locked."""

    def hold_due(self, keys: Sequence[Key], now_ms: int) -> list[Spot]:
        """Those of these spots that are available, locked; one that somebody else has locked is left out."""

    def hold_spots(self, keys: Sequence[Key]) -> dict[Key, Spot]:
        """These spots, locked one after the other."""

    def spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles."""

    def hold_spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles, locked one after the other."""

    def leased_spots(self, topic: int, consumer: str, after_ms: int) -> list[Spot]:
        """The spots that a consumer holds, at moments after this one."""

    def hold_exhausted(self, topic: int, max_attempts: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots whose lease ran out after so many attempts, locked; one that somebody else has locked is left out."""

    def insert_attempts(self, attempts: Sequence[TriedSpot]) -> None:
        """Note leases that came to nothing."""

    def attempts_of(self, bundles: Iterable[int]) -> list[TriedSpot]:
        """Leases of messages of these bundles that came to nothing, the oldest first."""

    # --- counts ---

    def insert_tally(self, topic: int, counts: Mapping[int, int]) -> None:
        """Note how a call changed the number of messages that nobody holds, by slice."""

    def tallies(self, topic: int, span: Range, origin: int, width: int) -> dict[int, int]:
        """Messages that nobody holds, in slices of this range, by how many times `width` they are behind an origin."""

    def fold_tallies(self, topic: int, limit: int) -> int:
        """Sum up to so many notes; tells how many there were."""

    def count_spots(self, topic: int, span: Range) -> int:
        """Messages that nobody holds, in a range of moments; takes the longer, the more there are."""

    def spot_counts(self, topic: int, span: Range, width_ms: int) -> dict[int, int]:
        """As `count_spots`, by how many times `width_ms` they are behind the beginning."""

    def leased_counts(self, topic: int, span: Range) -> int:
        """Messages whose last lease ends, or ended, in a range of moments."""

    # --- what is to be removed ---

    def hold_ended(self, topic: int, segment: int, before_ms: int, limit: int) -> list[Spot]:
        """Lock spots in a segment off the line that ended before a moment; skip those that are locked already."""

    def hold_free(self, topic: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots on the line without an active lease, locked; one that somebody else has locked is left out."""

    def has_spots(self, topic: int) -> bool:
        """Whether anything of a topic is left."""

    def hold_bundles(self, numbers: Iterable[int]) -> set[int]:
        """Those of these bundles that nobody else is about to remove, locked, without waiting for anybody."""

    def delete_bundles(self, numbers: Sequence[int]) -> None:
        """Forget bundles and their attempts."""

    # --- who is there ---

    def write_consumer(self, topic: int, row: ConsumerRow) -> None:
        """Note that a consumer was seen."""

    def consumers(self, topic: int, since_ms: int) -> list[ConsumerRow]:
        """The consumers of a topic that were seen since a moment, by their ids."""

    def delete_consumer(self, topic: int, consumer: str) -> None:
        """Forget a consumer."""

    def forget_consumers(self, before_ms: int) -> int:
        """Forget consumers that nobody has seen since."""

    def write_sessions(self, topic: int, rows: Sequence[SessionRow]) -> None:
        """Note that sessions of consumers were seen."""

    def sessions(self, topic: int, since_ms: int) -> list[SessionRow]:
        """The sessions of a topic's consumers that were seen since a moment."""

    def hold_session(self, topic: str, consumer: str, session: int) -> None:
        """Keep a session from being forgotten until the transaction ends. Wait for a call that forgets it."""

    def session_numbers(self, topic: int, consumer: str, numbers: range) -> list[int]:
        """Which of these numbers sessions of a consumer have, seen or not."""

    def delete_session(self, topic: int, consumer: str, session: int) -> None:
        """Forget a session."""

    def forget_sessions(self, before_ms: int) -> None:
        """Forget sessions that were not seen since."""

    def write_broker(self, row: BrokerRow) -> None:
        """Note that a broker was seen."""

    def brokers(self, since_ms: int) -> list[BrokerRow]:
        """The brokers that were seen since a moment of the database's clock."""

    def forget_brokers(self, before_ms: int) -> int:
        """Forget brokers that nobody has seen since."""
