"""The tables of stage 4 in the memory of this process: rows in dictionaries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchline.core.bundle import Bundle
from batchline.core.future_load import Range, sum_counts
from batchline.core.session import SessionRow
from batchline.core.spot import Spot
from batchline.core.topic import Topic
from batchline.errors import StoreError
from batchline.stores.memory_tables import MemoryTables
from batchline.stores.timeline_rows import (
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

__all__ = ["MemoryTimelineRows"]


class MemoryTimelineRows:
    """`TimelineRows` on dictionaries; who is in a transaction holds everything."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    # --- topics and producer groups ---

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return sorted(self._tables.topics.values(), key=lambda topic: topic.name)

    def topic(self, name: str) -> Topic | None:
        """The topic of a name."""
        return next((topic for topic in self._tables.topics.values() if topic.name == name), None)

    def topic_with_newest(self, name: str, consumer: str, from_ms: int, to_ms: int) -> tuple[Topic | None, int | None]:
        """The topic of a name, and the newest session of a consumer that was seen between two moments."""
        found = self.topic(name)
        seen = self.sessions(found.number, from_ms) if found else []
        theirs = (one.session for one in seen if one.consumer == consumer and one.seen_ms <= to_ms)
        return found, max(theirs, default=None)

    def insert_topic(self, topic: Topic) -> bool:
        """A new topic; false if the name is taken."""
        if self.topic(topic.name) is not None:
            return False
        number = self._tables.next_number("topic")
        self._tables.topics[number] = replace(topic, number=number)
        return True

    def write_topic(self, topic: Topic) -> None:
        """New rules for a topic."""
        self._tables.topics[topic.number] = topic

    def delete_topic(self, topic: int, now_ms: int) -> None:  # noqa: ARG002 - nobody asks since when
        """Mark a topic as one that is being deleted."""
        self._tables.topics[topic] = replace(self._tables.topics[topic], deleted=True)

    def remove_topic(self, topic: int) -> None:
        """Forget a topic of which nothing is left but counts and consumers."""
        del self._tables.topics[topic]
        tables = self._tables
        for table in (tables.slices, tables.consumers, tables.sessions, tables.rates):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def producer_group(self, name: str) -> int:
        """The number of a producer group, which is made if there is none."""
        groups = self._tables.producer_groups
        if name not in groups:
            groups[name] = self._tables.next_number("producer_group")
        number: int = groups[name]
        return number

    def known_group(self, name: str) -> int | None:
        """The number of a producer group."""
        number: int | None = self._tables.producer_groups.get(name)
        return number

    def use_rate(self, topic: int, producer_group: int) -> int | None:
        """Up to when a producer group has used up what it may."""
        used: int | None = self._tables.rates.get((topic, producer_group))
        return used

    def write_rate(self, topic: int, producer_group: int, used_up_to_us: int) -> None:
        """Note that."""
        self._tables.rates[topic, producer_group] = used_up_to_us

    # --- bundles and ids ---

    def insert_bundles(self, bundles: Sequence[Bundle]) -> int:
        """New bundles; tells how many there were none of yet."""
        new = [bundle for bundle in bundles if bundle.number not in self._tables.bundles]
        for bundle in new:
            self._tables.bundles[bundle.number] = bundle
            self._tables.spots[bundle.number] = {}
        return len(new)

    def bundles_by_number(self, numbers: Iterable[int]) -> dict[int, Bundle]:
        """Bundles, with ids and bodies."""
        owners = {number: name for name, number in self._tables.producer_groups.items()}
        found = (self._tables.bundles[number] for number in numbers if number in self._tables.bundles)
        return {bundle.number: replace(bundle, owner=owners[bundle.producer_group]) for bundle in found}

    def content_sizes(self, numbers: Iterable[int]) -> dict[int, int]:
        """How many bytes bundles have, by their numbers."""
        bundles = self._tables.bundles
        return {number: sum(map(len, bundles[number].bodies)) for number in numbers if number in bundles}

    def owners_of(self, bundles: Iterable[int]) -> dict[int, int]:
        """The producer groups of bundles."""
        return {number: bundle.producer_group for number, bundle in self.bundles_by_number(bundles).items()}

    def bundles_of_group(self, producer_group: int, from_number: int, limit: int) -> list[int]:
        """The numbers of a producer group's bundles, in order, from a number on."""
        bundles = self._tables.bundles.values()
        numbers = (one.number for one in bundles if one.producer_group == producer_group and one.number >= from_number)
        return sorted(numbers)[:limit]

    def insert_message_ids(self, topic: int, places: Sequence[IdPlace]) -> int:
        """Insert chosen ids; return how many were new."""
        new = [place for place in places if (topic, place[0]) not in self._tables.message_ids]
        for id, bundle, place in new:
            self._tables.message_ids[topic, id] = (bundle, place)
        return len(new)

    def message_ids(self, topic: int, ids: Sequence[str]) -> dict[str, Place]:
        """Bundle and place of chosen ids."""
        known = self._tables.message_ids
        return {id: known[topic, id] for id in ids if (topic, id) in known}

    def delete_message_ids(self, topic: int, places: Sequence[IdPlace]) -> None:
        """Free chosen ids, each only if its message is the one at this place."""
        for id, bundle, place in places:
            if self._tables.message_ids.get((topic, id)) == (bundle, place):
                del self._tables.message_ids[topic, id]

    def hold_bundles(self, numbers: Iterable[int]) -> set[int]:
        """These bundles."""
        return {number for number in numbers if number in self._tables.bundles}

    def delete_bundles(self, numbers: Sequence[int]) -> None:
        """Forget bundles and their attempts."""
        for number in numbers:
            del self._tables.bundles[number]
            del self._tables.spots[number]
            if number in self._tables.attempts:
                del self._tables.attempts[number]

    # --- spots ---

    def _put(self, spot: Spot) -> None:
        self._tables.spots[spot.bundle] = self._tables.spots[spot.bundle] | {spot.number: spot}

    def insert_spots(self, spots: Sequence[Spot]) -> None:
        """New spots."""
        for spot in spots:
            if spot.number in self._tables.spots[spot.bundle]:
                raise StoreError(f"bundle {spot.bundle} has a spot {spot.number}")
            self._put(spot)

    def write_spots(self, changes: Sequence[SpotChange]) -> None:
        """Write spots, each only if its version and bits are those before."""
        for before, after in changes:
            found = self._tables.spots[before.bundle][before.number]
            if (found.version, found.bits) != (before.version, before.bits):
                raise StoreError(f"spot {before.key} is not what it was")
            self._put(after)

    def end_spots(self, whole: Sequence[WholeSpot], now_ms: int) -> int:
        """Take spots off the line whose messages are all leased in this way, actively; tells how many they were."""
        ended = 0
        for one in whole:
            spot = self._tables.spots.get(one.bundle, {}).get(one.number)
            topic = self.topic(one.topic)
            if spot is None or topic is None or (spot.topic, spot.bits) != (topic.number, one.bits):
                continue
            if spot.is_held(one.version, one.consumer, now_ms):
                self._put(spot.done(now_ms))
                ended += 1
        return ended

    def delete_spots(self, keys: Sequence[Key]) -> None:
        """Forget spots."""
        for bundle, number in keys:
            left = dict(self._tables.spots[bundle])
            del left[number]
            self._tables.spots[bundle] = left

    def _spots(self) -> Iterable[Spot]:
        return (spot for spots in self._tables.spots.values() for spot in spots.values())

    def _on_line(self, topic: int, span: Range) -> Iterable[Spot]:
        return (
            spot
            for spot in self._spots()
            if spot.topic == topic and spot.is_on_line and span.begin_ms <= spot.at_ms < span.end_ms
        )

    def due(self, stretch: Stretch, after: Due, limit: int) -> list[Due]:
        """Spots on a stretch of the line, oldest first, from after one of them on."""
        low, high = stretch.buckets.start, stretch.buckets.stop - 1
        found = (
            Due(spot.at_ms, spot.turn, spot.bundle, spot.number, spot.size)
            for spot in self._on_line(stretch.topic, Range(stretch.from_ms, stretch.to_ms + 1))
            if spot.high_bucket >= low and spot.low_bucket <= high
        )
        return sorted(one for one in found if one[:4] > after[:4])[:limit]

    def hold_due(self, keys: Sequence[Key], now_ms: int) -> list[Spot]:
        """Those of these spots that are available."""
        return [spot for spot in self.hold_spots(keys).values() if spot.is_available(now_ms)]

    def hold_spots(self, keys: Sequence[Key]) -> dict[Key, Spot]:
        """These spots."""
        spots = self._tables.spots
        return {key: spots[key[0]][key[1]] for key in keys if key[0] in spots and key[1] in spots[key[0]]}

    def spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles."""
        return [spot for bundle in bundles for spot in self._tables.spots.get(bundle, {}).values()]

    def hold_spots_of(self, bundles: Iterable[int]) -> list[Spot]:
        """All spots of these bundles."""
        return self.spots_of(bundles)

    def leased_spots(self, topic: int, consumer: str, after_ms: int) -> list[Spot]:
        """The spots that a consumer holds, at moments after this one."""
        found = [spot for spot in self._spots() if (spot.topic, spot.consumer) == (topic, consumer)]
        later = (spot for spot in found if spot.at_ms > after_ms)
        return sorted(later, key=lambda spot: (spot.at_ms, spot.turn, spot.bundle, spot.number))

    def hold_exhausted(self, topic: int, max_attempts: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots whose lease ran out after so many attempts."""
        leased = (spot for spot in self._spots() if spot.topic == topic and spot.consumer is not None)
        return [spot for spot in leased if spot.at_ms <= now_ms and spot.attempts >= max_attempts][:limit]

    def insert_attempts(self, attempts: Sequence[TriedSpot]) -> None:
        """Note leases that came to nothing."""
        for one in attempts:
            self._tables.attempts[one.bundle] = (*self._tables.attempts.get(one.bundle, ()), one)

    def attempts_of(self, bundles: Iterable[int]) -> list[TriedSpot]:
        """Leases of messages of these bundles that came to nothing, the oldest first."""
        found = [one for bundle in bundles for one in self._tables.attempts.get(bundle, ())]
        return sorted(found, key=lambda one: one.number)

    # --- counts ---

    def insert_tally(self, topic: int, counts: Mapping[int, int]) -> None:
        """Note how a call changed the number of messages that nobody holds, by slice."""
        for place, count in counts.items():
            self._tables.slices[topic, place] = self._tables.slices.get((topic, place), 0) + count

    def tallies(self, topic: int, span: Range, origin: int, width: int) -> dict[int, int]:
        """Messages that nobody holds, in slices of this range, by how many times `width` they are behind an origin."""
        slices = ((place, count) for (one, place), count in self._tables.slices.items() if one == topic)
        inside = ((place, count) for place, count in slices if span.begin_ms <= place < span.end_ms)
        return sum_counts({(place - origin) // width: count} for place, count in inside)

    def fold_tallies(self, topic: int, limit: int) -> int:  # noqa: ARG002 - sums are kept at once
        """There is nothing to sum."""
        return 0

    def count_spots(self, topic: int, span: Range) -> int:
        """Messages that nobody holds, in a range of moments."""
        return sum(spot.size for spot in self._on_line(topic, span) if spot.consumer is None)

    def spot_counts(self, topic: int, span: Range, width_ms: int) -> dict[int, int]:
        """As `count_spots`, by how many times `width_ms` they are behind the beginning."""
        free = (spot for spot in self._on_line(topic, span) if spot.consumer is None)
        return sum_counts({(spot.at_ms - span.begin_ms) // width_ms: spot.size} for spot in free)

    def leased_counts(self, topic: int, span: Range) -> int:
        """Messages whose last lease ends, or ended, in a range of moments."""
        return sum(spot.size for spot in self._on_line(topic, span) if spot.consumer is not None)

    # --- what is to be removed ---

    def hold_ended(self, topic: int, segment: int, before_ms: int, limit: int) -> list[Spot]:
        """Spots in a segment off the line that ended before a moment."""
        ended = (spot for spot in self._spots() if (spot.topic, spot.segment) == (topic, segment))
        return sorted((spot for spot in ended if spot.at_ms < before_ms), key=lambda spot: spot.at_ms)[:limit]

    def hold_free(self, topic: int, now_ms: int, limit: int) -> list[Spot]:
        """Spots on the line without an active lease."""
        mine = (spot for spot in self._spots() if spot.topic == topic and spot.is_on_line)
        return [spot for spot in mine if not spot.is_leased(now_ms)][:limit]

    def has_spots(self, topic: int) -> bool:
        """Whether anything of a topic is left."""
        return any(spot.topic == topic for spot in self._spots())

    # --- who is there ---

    def write_consumer(self, topic: int, row: ConsumerRow) -> None:
        """Note that a consumer was seen; of its speed, the best is kept."""
        before: Any = self._tables.consumers.get((topic, row.consumer), row)
        best = max(before.messages_per_second, row.messages_per_second)
        self._tables.consumers[topic, row.consumer] = row._replace(messages_per_second=best)

    def consumers(self, topic: int, since_ms: int) -> list[ConsumerRow]:
        """The consumers of a topic that were seen since a moment, by their ids."""
        mine = (row for (one, _), row in self._tables.consumers.items() if one == topic)
        return sorted(row for row in mine if row.seen_ms >= since_ms)

    def delete_consumer(self, topic: int, consumer: str) -> None:
        """Forget a consumer."""
        if (topic, consumer) in self._tables.consumers:
            del self._tables.consumers[topic, consumer]

    def forget_consumers(self, before_ms: int) -> int:
        """Forget consumers that nobody has seen since."""
        old = [key for key, row in self._tables.consumers.items() if row.seen_ms < before_ms]
        for key in old:
            del self._tables.consumers[key]
        return len(old)

    def write_sessions(self, topic: int, rows: Sequence[SessionRow]) -> None:
        """Note that sessions of consumers were seen."""
        for row in rows:
            self._tables.sessions[topic, row.consumer, row.session] = row

    def sessions(self, topic: int, since_ms: int) -> list[SessionRow]:
        """The sessions of a topic's consumers that were seen since a moment."""
        return [row for key, row in self._tables.sessions.items() if key[0] == topic and row.seen_ms >= since_ms]

    def hold_session(self, topic: str, consumer: str, session: int) -> None:
        """There is one transaction at a time."""

    def session_numbers(self, topic: int, consumer: str, numbers: range) -> list[int]:
        """Which of these numbers sessions of a consumer have, seen or not."""
        return [key[2] for key in self._tables.sessions if key[:2] == (topic, consumer) and key[2] in numbers]

    def delete_session(self, topic: int, consumer: str, session: int) -> None:
        """Forget a session."""
        if (topic, consumer, session) in self._tables.sessions:
            del self._tables.sessions[topic, consumer, session]

    def forget_sessions(self, before_ms: int) -> None:
        """Forget sessions that were not seen since."""
        for key in [key for key, row in self._tables.sessions.items() if row.seen_ms < before_ms]:
            del self._tables.sessions[key]

    def database_ms(self, now_ms: int) -> int:
        """The caller's clock: there is no other."""
        return now_ms

    def write_broker(self, row: BrokerRow) -> None:
        """Note that a broker was seen."""
        self._tables.brokers[row.name] = row

    def brokers(self, since_ms: int) -> list[BrokerRow]:
        """The brokers that were seen since a moment."""
        return sorted(row for row in self._tables.brokers.values() if row.seen_ms >= since_ms)

    def forget_brokers(self, before_ms: int) -> int:
        """Forget brokers that nobody has seen since."""
        old = [name for name, row in self._tables.brokers.items() if row.seen_ms < before_ms]
        for name in old:
            del self._tables.brokers[name]
        return len(old)
