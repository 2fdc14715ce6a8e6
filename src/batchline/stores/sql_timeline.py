"""The tables of stage 4 in a SQL database, through the named queries of its `timeline.sql`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from batchline.core.bundle import Bundle, unpack_bundle
from batchline.core.future_load import Range, sum_counts
from batchline.core.item_group import ALL_BITS
from batchline.core.moment import span_us
from batchline.core.session import SessionRow
from batchline.core.spot import SEGMENTS, Spot
from batchline.core.topic import Topic
from batchline.errors import StoreError
from batchline.stores.connections import Busy
from batchline.stores.sql_session import SqlSession
from batchline.stores.sql_tracker import signed
from batchline.stores.timeline_rows import (
    BEFORE_ALL,
    BrokerRow,
    ConsumerRow,
    Due,
    IdPlace,
    Key,
    Place,
    SpotChange,
    Stretch,
    TriedSpot,
    WholeSpot,
)

__all__ = ["SqlTimelineRows"]

BUNDLE_NAMES: Final = ("number", "topic", "producer_group", "created_ms", "ids", "content")
SPOT_NAMES: Final = (*Spot._fields, "size")
CHANGE_NAMES: Final = (*SPOT_NAMES, "version_before", "bits_before")
#: Bytes of a bundle's content before its bodies, of a bundle of one message.
LEAST_HEAD: Final = 5
ALL_SEGMENTS: Final = range(SEGMENTS)


class SqlTimelineRows:
    """`TimelineRows` on a session."""

    def __init__(self, session: SqlSession):
        self._session = session

    # --- topics and producer groups ---

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [_topic(record) for record in self._session.records("topics")]

    def topic(self, name: str) -> Topic | None:
        """The topic of a name."""
        return next(map(_topic, self._session.records("topic", name=name)), None)

    def topic_with_newest(self, name: str, consumer: str, from_ms: int, to_ms: int) -> tuple[Topic | None, int | None]:
        """The topic of a name, and the newest session of a consumer that was seen between two moments."""
        values: dict[str, Any] = {"name": name, "consumer": consumer, "from_ms": from_ms, "to_ms": to_ms}
        found = self._session.records("topic_with_newest", **values)
        return (_topic(found[0]), found[0]["newest"]) if found else (None, None)

    def insert_topic(self, topic: Topic) -> bool:
        """A new topic; false if the name is taken."""
        return self._session.run("insert_topic", name=topic.name, buckets=topic.buckets, **_rules(topic)) == 1

    def write_topic(self, topic: Topic) -> None:
        """New rules for a topic."""
        self._session.run("write_topic", number=topic.number, **_rules(topic))

    def delete_topic(self, topic: int, now_ms: int) -> None:
        """Mark a topic as one that is being deleted."""
        self._session.run("delete_topic", topic=topic, now_ms=now_ms)

    def remove_topic(self, topic: int) -> None:
        """Forget a topic of which nothing is left but counts and consumers."""
        for query in (
            "remove_tallies",
            "remove_slices",
            "remove_consumers",
            "remove_sessions",
            "remove_rates",
            "remove_topic",
        ):
            self._session.run(query, topic=topic)

    def producer_group(self, name: str) -> int:
        """The number of a producer group, which is made if there is none."""
        number = self.known_group(name)
        if number is None:
            self._session.run("insert_producer_group", name=name)
            number = self.known_group(name)
        if number is None:
            raise StoreError(f"the producer group {name!r} was made and is not there")
        return number

    def known_group(self, name: str) -> int | None:
        """The number of a producer group."""
        found = self._session.rows("producer_group", name=name)
        return found[0][0] if found else None

    def use_rate(self, topic: int, producer_group: int) -> int | None:
        """Up to when a producer group has used up what it may, held."""
        found = self._session.rows("use_rate", topic=topic, producer_group=producer_group)
        return found[0][0] if found else None

    def write_rate(self, topic: int, producer_group: int, used_up_to_us: int) -> None:
        """Note that."""
        self._session.tell("write_rate", topic=topic, producer_group=producer_group, used_up_to_us=used_up_to_us)

    # --- bundles and ids ---

    def insert_bundles(self, bundles: Sequence[Bundle]) -> int:
        """New bundles; tells how many there were none of yet."""
        rows = [(one.number, one.topic, one.producer_group, one.created_ms, *one.packed()) for one in bundles]
        return self._session.insert_many("insert_bundles", BUNDLE_NAMES, rows)

    def bundles_by_number(self, numbers: Iterable[int]) -> dict[int, Bundle]:
        """Bundles, with ids and bodies."""
        found = self._session.raw_rows("bundles_by_number", numbers=list(numbers))
        return {row[0]: _bundle(*row) for row in found}

    def content_sizes(self, numbers: Iterable[int]) -> dict[int, int]:
        """How many bytes bundles have, by their numbers."""
        found = self._session.rows("content_sizes", numbers=sorted(numbers))
        return {number: size - LEAST_HEAD for number, size in found}

    def owners_of(self, bundles: Iterable[int]) -> dict[int, int]:
        """The producer groups of bundles."""
        return dict(self._session.rows("owners_of", numbers=sorted(bundles)))

    def bundles_of_group(self, producer_group: int, from_number: int, limit: int) -> list[int]:
        """The numbers of a producer group's bundles, in order, from a number on."""
        values = {"producer_group": producer_group, "from_number": from_number, "limit": limit}
        return [number for (number,) in self._session.rows("bundles_of_group", **values)]

    def insert_message_ids(self, topic: int, places: Sequence[IdPlace]) -> int:
        """Insert chosen ids; return how many were new."""
        return self._session.insert_many("insert_message_ids", IdPlace._fields, places, topic=topic) if places else 0

    def message_ids(self, topic: int, ids: Sequence[str]) -> dict[str, Place]:
        """Bundle and place of chosen ids."""
        found = self._session.rows("message_ids", topic=topic, ids=list(ids)) if ids else []
        return {id: (bundle, place) for id, bundle, place in found}

    def delete_message_ids(self, topic: int, places: Sequence[IdPlace]) -> None:
        """Free chosen ids, each only if its message is the one at this place."""
        if places:
            self._session.change_many("delete_message_ids", IdPlace._fields, places, topic=topic)

    def hold_bundles(self, numbers: Iterable[int]) -> set[int]:
        """Those of these bundles that nobody else is about to remove, locked."""
        return {number for (number,) in self._session.rows("hold_bundles", numbers=sorted(numbers))}

    def delete_bundles(self, numbers: Sequence[int]) -> None:
        """Forget bundles and their attempts."""
        if numbers:
            self._session.tell("delete_attempts", numbers=list(numbers))
            self._session.tell("delete_bundles", numbers=list(numbers))

    # --- spots ---

    def insert_spots(self, spots: Sequence[Spot]) -> None:
        """New spots."""
        if spots:
            self._session.tell_many("insert_spots", SPOT_NAMES, [_row(spot) for spot in spots])

    def write_spots(self, changes: Sequence[SpotChange]) -> None:
        """Write spots, each only if its version and bits are those before."""
        if not changes:
            return
        rows = [(*_row(after), before.version, signed(before.bits)) for before, after in changes]
        written = self._session.change_many("write_spots", CHANGE_NAMES, rows)
        if written != len(changes):
            raise Busy(f"{len(changes) - written} of {len(changes)} spots were changed meanwhile")

    def end_spots(self, whole: Sequence[WholeSpot], now_ms: int) -> int:
        """Take spots off the line whose messages are all leased in this way, actively; tells how many they were."""
        rows = [one._replace(bits=signed(one.bits)) for one in whole]
        return self._session.change_many("end_spots", WholeSpot._fields, rows, now_ms=now_ms)

    def delete_spots(self, keys: Sequence[Key]) -> None:
        """Forget spots."""
        if keys:
            self._session.change_many("delete_spots", ("bundle", "number"), list(keys))

    def due(self, stretch: Stretch, after: Due, limit: int) -> list[Due]:
        """Spots on a stretch of the line, oldest first, from after one of them on."""
        values: dict[str, Any] = {
            "topic": stretch.topic,
            "from_ms": max(stretch.from_ms, after.at_ms),
            "to_ms": stretch.to_ms,
            "low_bucket": stretch.buckets.start,
            "high_bucket": stretch.buckets.stop - 1,
            "limit": limit,
        }
        query = "due_in_segment due_order"
        if after is not BEFORE_ALL:
            query = "due_in_segment due_after due_order"
            values |= {"after_ms": after.at_ms, "after_turn": after.turn}
            values |= {"after_bundle": after.bundle, "after_number": after.number}
        found = self._session.rows_of_each(query, stretch.segments, "due_order", **values)
        return [Due(*row) for row in found]

    def hold_due(self, keys: Sequence[Key], now_ms: int) -> list[Spot]:
        """Those of these spots that are available, locked."""
        return [_spot(row) for row in self._session.keyed_rows("hold_due", sorted(keys), now_ms=now_ms)]

    def hold_spots(self, keys: Sequence[Key]) -> dict[Key, Spot]:
        """These spots, locked one after the other."""
        found = map(_spot, self._session.keyed_rows("hold_spots", sorted(keys)))
        return {spot.key: spot for spot in found}

    def spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles."""
        return [_spot(row) for row in self._session.rows("spots_of", bundles=sorted(bundles))]

    def hold_spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles, locked one after the other."""
        return [_spot(row) for row in self._session.rows("hold_spots_of", bundles=sorted(bundles))]

    def leased_spots(self, topic: int, consumer: str, after_ms: int) -> list[Spot]:
        """The spots that a consumer holds, at moments after this one."""
        found = self._session.rows("leased_spots", topic=topic, consumer=consumer, after_ms=after_ms)
        return [_spot(row) for row in found]

    def hold_exhausted(self, topic: int, max_attempts: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots whose lease ran out after so many attempts, locked."""
        values = {"topic": topic, "max_attempts": max_attempts, "now_ms": now_ms, "limit": limit}
        return [_spot(row) for row in self._session.rows("hold_exhausted", **values)]

    def insert_attempts(self, attempts: Sequence[TriedSpot]) -> None:
        """Note leases that came to nothing."""
        if attempts:
            rows = [one._replace(bits=signed(one.bits)) for one in attempts]
            self._session.tell_many("insert_attempts", TriedSpot._fields, rows)

    def attempts_of(self, bundles: Iterable[int]) -> list[TriedSpot]:
        """Leases of messages of these bundles that came to nothing, the oldest first."""
        found = (TriedSpot(*row) for row in self._session.rows("attempts_of", bundles=sorted(bundles)))
        return [one._replace(bits=one.bits & ALL_BITS) for one in found]

    # --- counts ---

    def insert_tally(self, topic: int, counts: Mapping[int, int]) -> None:
        """Note how a call changed the number of messages that nobody holds, by slice."""
        self._session.tell("insert_tally", topic=topic, counts=json.dumps(list(counts.items())))

    def tallies(self, topic: int, span: Range, origin: int, width: int) -> dict[int, int]:
        """Messages that nobody holds, in slices of this range, by how many times `width` they are behind an origin."""
        values = {"topic": topic, "first": span.begin_ms, "last": span.end_ms, "origin": origin, "width": width}
        found = self._session.rows("tallies", **values)
        noted = sum_counts(dict(json.loads(counts)) for _, _, counts in found if counts)
        inside = ((place, count) for place, count in noted.items() if span.begin_ms <= place < span.end_ms)
        parts = [{int(part): int(count)} for part, count, _ in found]
        return sum_counts([*parts, *({(place - origin) // width: count} for place, count in inside)])

    def fold_tallies(self, topic: int, limit: int) -> int:
        """Sum up to so many notes; tells how many there were."""
        held = self._session.rows("hold_tallies", topic=topic, limit=limit)
        if held:
            total = sum_counts(dict(json.loads(counts)) for _, counts in held)
            self._session.tell("delete_tallies", topic=topic, numbers=[number for number, _ in held])
            self._session.tell_many("add_slices", ("slice", "count"), sorted(total.items()), topic=topic)
        return len(held)

    def count_spots(self, topic: int, span: Range) -> int:
        """Messages that nobody holds, in a range of moments."""
        values: dict[str, Any] = {"topic": topic, "from_ms": span.begin_ms, "to_ms": span.end_ms}
        return sum(int(count or 0) for (count,) in self._session.rows_of_each("count_spots", ALL_SEGMENTS, **values))

    def spot_counts(self, topic: int, span: Range, width_ms: int) -> dict[int, int]:
        """As `count_spots`, by how many times `width_ms` they are behind the beginning."""
        values: dict[str, Any] = {"topic": topic, "from_ms": span.begin_ms, "to_ms": span.end_ms, "width_ms": width_ms}
        found = self._session.rows_of_each("spot_counts", ALL_SEGMENTS, **values)
        return sum_counts({int(place): int(count)} for place, count in found)

    def leased_counts(self, topic: int, span: Range) -> int:
        """Messages whose last lease ends, or ended, in a range of moments."""
        ((count,),) = self._session.rows("leased_counts", topic=topic, from_ms=span.begin_ms, to_ms=span.end_ms)
        return int(count or 0)

    # --- what is to be removed ---

    def hold_ended(self, topic: int, segment: int, before_ms: int, limit: int) -> list[Spot]:
        """Lock spots in a segment off the line that ended before a moment."""
        values = {"topic": topic, "segment": segment, "before_ms": before_ms, "limit": limit}
        return [_spot(row) for row in self._session.rows("hold_ended", **values)]

    def hold_free(self, topic: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots on the line without an active lease, locked."""
        return [_spot(row) for row in self._session.rows("hold_free", topic=topic, now_ms=now_ms, limit=limit)]

    def has_spots(self, topic: int) -> bool:
        """Whether anything of a topic is left."""
        return bool(self._session.rows("has_spots", topic=topic))

    # --- who is there ---

    def write_consumer(self, topic: int, row: ConsumerRow) -> None:
        """Note that a consumer was seen."""
        self._session.run("write_consumer", topic=topic, **row._asdict())

    def consumers(self, topic: int, since_ms: int) -> list[ConsumerRow]:
        """The consumers of a topic that were seen since a moment, by their ids."""
        return [ConsumerRow(*row) for row in self._session.rows("consumers", topic=topic, since_ms=since_ms)]

    def delete_consumer(self, topic: int, consumer: str) -> None:
        """Forget a consumer."""
        self._session.run("delete_consumer", topic=topic, consumer=consumer)

    def forget_consumers(self, before_ms: int) -> int:
        """Forget consumers that nobody has seen since."""
        return self._session.run("forget_consumers", before_ms=before_ms)

    def write_sessions(self, topic: int, rows: Sequence[SessionRow]) -> None:
        """Note that sessions of consumers were seen."""
        if rows:
            self._session.tell_many("write_sessions", SessionRow._fields, sorted(rows), topic=topic)

    def sessions(self, topic: int, since_ms: int) -> list[SessionRow]:
        """The sessions of a topic's consumers that were seen since a moment."""
        return [SessionRow(*row) for row in self._session.rows("sessions", topic=topic, since_ms=since_ms)]

    def hold_session(self, topic: str, consumer: str, session: int) -> None:
        """Keep a session from being forgotten until the transaction ends. Wait for a call that forgets it."""
        self._session.tell("hold_session", name=topic, consumer=consumer, session=session)

    def session_numbers(self, topic: int, consumer: str, numbers: range) -> list[int]:
        """Which of these numbers sessions of a consumer have, seen or not."""
        values = {"topic": topic, "consumer": consumer, "first": numbers.start, "last": numbers.stop - 1}
        return [number for (number,) in self._session.rows("session_numbers", **values)]

    def delete_session(self, topic: int, consumer: str, session: int) -> None:
        """Forget a session."""
        self._session.run("delete_session", topic=topic, consumer=consumer, session=session)

    def forget_sessions(self, before_ms: int) -> None:
        """Forget sessions that were not seen since."""
        self._session.run("forget_sessions", before_ms=before_ms)

    def database_ms(self, now_ms: int) -> int:  # noqa: ARG002 - a database has a clock of its own
        """What the database's clock shows."""
        ((shown_ms,),) = self._session.rows("database_ms")
        return int(shown_ms)

    def write_broker(self, row: BrokerRow) -> None:
        """Note that a broker was seen."""
        self._session.run("write_broker", **row._asdict())

    def brokers(self, since_ms: int) -> list[BrokerRow]:
        """The brokers that were seen since a moment of the database's clock."""
        return [BrokerRow(*row) for row in self._session.rows("brokers", since_ms=since_ms)]

    def forget_brokers(self, before_ms: int) -> int:
        """Forget brokers that nobody has seen since."""
        return self._session.run("forget_brokers", before_ms=before_ms)


def _rules(topic: Topic) -> dict[str, Any]:
    return {
        "max_ahead_us": span_us(topic.max_ahead),
        "lease_us": span_us(topic.lease),
        "longest_lease_us": span_us(topic.longest_lease),
        "max_attempts": topic.max_attempts,
        "dead_letter": topic.dead_letter,
        "rate_limit": topic.rate_limit,
        "keep_us": span_us(topic.keep),
        "internal": int(topic.internal),
    }


def _topic(record: dict[str, Any]) -> Topic:
    return Topic(
        name=record["name"],
        buckets=record["buckets"],
        max_ahead=timedelta(microseconds=record["max_ahead_us"]),
        lease=timedelta(microseconds=record["lease_us"]),
        longest_lease=timedelta(microseconds=record["longest_lease_us"]),
        max_attempts=record["max_attempts"],
        dead_letter=record["dead_letter"],
        rate_limit=record["rate_limit"],
        keep=timedelta(microseconds=record["keep_us"]),
        deleted=record["deleted_ms"] is not None,
        internal=bool(record["internal"]),
        number=record["number"],
    )


def _bundle(number: int, topic: int, group: int, created_ms: int, ids: str, content: bytes, owner: str) -> Bundle:
    return Bundle(number, topic, group, created_ms, *unpack_bundle(ids, content), owner)


def _row(spot: Spot) -> tuple[Any, ...]:
    return (*spot._replace(bits=signed(spot.bits)), spot.size)


def _spot(row: tuple[Any, ...]) -> Spot:
    spot = Spot(*row)
    return spot if spot.bits >= 0 else spot._replace(bits=spot.bits & ALL_BITS)
