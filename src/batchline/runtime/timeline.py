"""Stage 4: each message at its moment, under one lease, its owner in control until then."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

from batchline.core.attendance import BrokerHealth, Subscription
from batchline.core.bundle import LARGEST_BUNDLE
from batchline.core.due_time import Due, check_either
from batchline.core.future_load import Counts, Load
from batchline.core.message import (
    LATEST_MS,
    AnyLease,
    Lease,
    LeasedMessage,
    LeasesPage,
    Message,
    MessagePage,
    NewMessage,
    Outcome,
    Upcoming,
    as_lease,
    check_at,
    check_id,
    check_leases,
    check_messages,
    leases_cursor,
    made_id,
    read_leases_cursor,
)
from batchline.core.moment import check_span
from batchline.core.name import check_name, reason_text
from batchline.core.session import SessionRow, Standing, resumed_from, standing_of
from batchline.core.timeline_checks import (
    LEASED_BYTES,
    LONGEST_PAGE,
    MOST_BINS,
    MOST_BYTES,
    MOST_LEASED,
    MOST_VERSIONS,
    check_after,
    check_buckets,
    check_call_number,
    check_many,
    check_moves,
    check_number,
    check_range,
    check_session,
    check_speed,
)
from batchline.core.topic import Topic, span_ms
from batchline.errors import CallTaken, InvalidInput, StoreUnavailable
from batchline.runtime.broker_clock import LIVE_FOR, MAX_DRIFT, clock_on
from batchline.runtime.clock import now_us
from batchline.stores.attending import (
    attend_consumer,
    attend_sessions,
    end_session,
    resume_session,
    topic_of_session,
)
from batchline.stores.counting import count_messages, future_load
from batchline.stores.creating import Creation, NumbersTaken, create_messages
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.leasing import (
    Leasing,
    done_leases,
    extend_leases,
    lease_messages,
    lease_one_message,
    release_leases,
    resume_leases,
    take_over_leases,
    topics_of,
)
from batchline.stores.looking import HeldQuery, held_messages, next_due_ms, upcoming_messages
from batchline.stores.owning import (
    cancel_messages,
    known_message,
    move_messages,
    owned_messages,
    read_message,
)
from batchline.stores.rows import Rows
from batchline.stores.store import Store
from batchline.stores.timeline_rows import ConsumerRow, stretch_of
from batchline.stores.topics import create_topic, delete_topic, known_topic, live_topic, update_topic

__all__ = ["LIVE_FOR", "MAX_DRIFT", "Timeline"]

T = TypeVar("T")
#: Messages that one transaction takes on: a larger call is several, each of them whole.
MESSAGES_AT_ONCE: Final = 5_000
BYTES_AT_ONCE: Final = 8 << 20
#: How many times numbers that somebody else has taken are replaced by others.
TRIES: Final = 100
#: How many messages a spot has, as long as nobody has looked.
SPOT_SIZE: Final = 8.0


class When(NamedTuple):
    """The moment of a call, the numbers it may use, and whether it may have been done before."""

    now_ms: int
    numbers: Iterator[int]
    again: bool


class Timeline:
    """Topics in a store. Any number of timelines, in any number of processes, work on one store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], int] = now_us,
        live_for: timedelta = LIVE_FOR,
        max_drift: timedelta = MAX_DRIFT,
    ):
        """A timeline on a store; the clock shows microseconds since the epoch.

        The machine's clock is compared with the database's, and its limits hold for all that works on the store in
        this process. A made-up one is compared from its first `beat` on.
        """
        check_span("live_for", live_for, 1_000)
        check_span("max_drift", max_drift, 1_000)
        self._store = store
        #: Its clock, which others that write to the store in this process share.
        self.clock = clock_on(store, clock)
        self._live_for_ms = span_ms(live_for)
        if live_for != LIVE_FOR:
            self.clock.live_for_ms = span_ms(live_for)
        if max_drift != MAX_DRIFT:
            self.clock.max_drift_ms = span_ms(max_drift)
        self._shares: dict[tuple[str, str], tuple[range, int]] = {}
        self._owners: dict[str, int] = {}
        #: How many messages the spots of a topic had when they were last looked at, and bytes their bundles.
        self._spot_sizes: dict[str, tuple[float, float]] = {}

    def now_ms(self) -> int:
        """What its clock shows: the last whole millisecond, so that nothing is early."""
        return self.clock() // 1_000

    def hurry(self) -> None:
        """Have the store repeat no call for longer than 5 s from now on: the process is about to end."""
        self._store.hurry()

    # --- topics ---

    def create_topic(self, name: str, **rules: Any) -> Topic:
        """Create a topic, with the rules of `Topic`. Creating it again in the same way changes nothing."""
        new = Topic(name, **rules)
        return self._write(lambda rows: create_topic(rows, new))

    def update_topic(self, name: str, **rules: Any) -> Topic:
        """Change rules of a topic, all but its buckets."""
        changed = replace(self.topic(name), **rules)
        return self._write(lambda rows: update_topic(rows, changed))

    def delete_topic(self, name: str) -> None:
        """Let a topic take no more messages. Its name is free again when all of them are removed."""
        check_name("the name of a topic", name)
        now_ms = self.now_ms()
        self._write(lambda rows: delete_topic(rows, name, now_ms))

    def topic(self, name: str) -> Topic:
        """A topic and its rules."""
        check_name("the name of a topic", name)
        return self._store.read(lambda rows: known_topic(rows, name))

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return self._store.read(lambda rows: rows.topics())

    # --- producers ---

    def create(
        self,
        topic: str,
        messages: Iterable[NewMessage | bytes],
        *,
        producer_group: str,
        call_number: int | None = None,
    ) -> list[Outcome]:
        """Put messages on the line; when it returns they are stored. The outcomes are in the messages' order.

        A message that is there already, with the same owner and body, `exists`: so a call can be repeated, if its
        messages have ids of your own, or those that an earlier call answered. Or it has a `call_number` that nobody
        else uses, as `fresh_number` makes them: repeated with the same one it creates nothing twice.
        """
        check_name("the name of a topic", topic)
        check_name("the producer group", producer_group)
        moment_us = self.clock.checked_us()
        checked = check_messages(messages, moment_us)
        cuts = list(_cuts([len(body) for body in checked.bodies]))
        if call_number is not None:
            check_call_number(call_number, len(cuts))
        outcomes: list[Outcome] = []
        for begin, end in cuts:
            part = Creation(topic, producer_group, checked.part(begin, end), moment_us)
            outcomes += self._create_new(part) if call_number is None else self._create_numbered(part, call_number)
        return outcomes

    def _create_new(self, creation: Creation) -> list[Outcome]:
        for _ in range(TRIES):
            first = fresh_number(creation.now_ms, 2 * len(creation.messages.ids))
            with suppress(NumbersTaken):
                return self._create(creation, first, count())
        raise StoreUnavailable(f"no free numbers were found in {TRIES} tries")

    def _create_numbered(self, creation: Creation, call_number: int) -> list[Outcome]:
        try:
            return self._create(creation, call_number, count(1))
        except NumbersTaken as error:
            raise CallTaken(f"the call number {call_number} is taken by another call: take another") from error

    def _create(self, creation: Creation, first: int, attempts: Iterator[int]) -> list[Outcome]:
        """Create messages; after attempt 0 they may have been created before."""

        def create(rows: Rows) -> tuple[list[Outcome], int]:
            topic, owner = live_topic(rows, creation.topic), self._owner(rows, creation.producer_group)
            repeats = first if next(attempts) > 0 else None
            return create_messages(rows, topic, owner, creation, count(first), repeats=repeats), owner

        outcomes, self._owners[creation.producer_group] = self._store.transact(create)
        return outcomes

    def move(
        self,
        topic: str,
        moments: Mapping[str, Due] | Iterable[str],
        *,
        producer_group: str,
        after: timedelta | None = None,
    ) -> list[Outcome]:
        """Reschedule messages of a producer group; a message with an active lease stays as it is.

        `moments` maps each id to its new due time: a moment, or a span from now. Or it lists ids, and all of them are
        due `after` this span from now. This timeline's clock says what now is.
        """
        owner = self._check_owner(topic, producer_group)
        checked = check_moves(moments, after, self.clock())

        def move(rows: Rows, when: When, part: Sequence[tuple[str, int]]) -> list[Outcome]:
            return move_messages(rows, live_topic(rows, topic), owner, dict(part), when.now_ms, when.numbers)

        return self._change_parts(list(checked.items()), move)

    def cancel(self, topic: str, ids: Iterable[str], *, producer_group: str) -> list[Outcome]:
        """Cancel messages of yours, unless a lease on them is active. Their ids are free at once.

        Repeating it is a success, until the record of the message is pruned.
        """
        owner = self._check_owner(topic, producer_group)
        checked = [check_id(id) for id in check_many(ids, "ids")]

        def cancel(rows: Rows, when: When, part: Sequence[str]) -> list[Outcome]:
            return cancel_messages(rows, known_topic(rows, topic), owner, part, when.now_ms, when.numbers)

        return self._change_parts(checked, cancel)

    def read(self, topic: str, id: str, *, producer_group: str | None = None, lease: Lease | None = None) -> Message:
        """A message, its state and its history; for its owner, or for who holds its lease."""
        check_name("the name of a topic", topic)
        check_id(id)
        if (producer_group is None) == (lease is None):
            raise InvalidInput("read takes the producer group that owns the message, or the lease of who holds it")
        if producer_group is not None:
            check_name("the producer group", producer_group)
        if lease is not None:
            check_leases([lease])
        now_ms = self.now_ms()
        return self._store.read(
            lambda rows: read_message(rows, known_topic(rows, topic), id, producer_group, lease, now_ms)
        )

    def read_any(self, topic: str, id: str) -> Message:
        """A message, whoever owns it: for who looks after all of them."""
        check_name("the name of a topic", topic)
        check_id(id)
        now_ms = self.now_ms()
        return self._store.read(lambda rows: known_message(rows, known_topic(rows, topic), id, now_ms)[0])

    def my_messages(self, producer_group: str, *, after: str | None = None, limit: int = 100) -> MessagePage:
        """List the messages of a producer group, oldest first, in pages: `after` is the `next` of the page before.

        A page has at most `limit` messages, and 8 MiB of bodies.
        """
        check_name("the producer group", producer_group)
        check_number("limit", limit, LONGEST_PAGE)
        place, now_ms = check_after(after), self.now_ms()
        found, more = self._store.read(lambda rows: owned_messages(rows, producer_group, place, limit, now_ms))
        return MessagePage(tuple(message for _, message in found), made_id(*found[-1][0]) if more else None)

    # --- consumers ---

    def lease(
        self,
        topic: str,
        consumer: str,
        *,
        limit: int = 1,
        duration: timedelta | None = None,
        buckets: range | None = None,
        session: int | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> list[LeasedMessage]:
        """Lease messages that are due, the oldest first, for a time; unless it is extended, the lease ends by itself.

        They are at most `limit`, with at most `max_bytes` of bodies, but at least one if any is due: fewer than
        `limit` does not mean that no more are due. A consumer that has subscribed gets messages in its own buckets;
        `buckets` says which others to look in. `session` is the session of the consumer to which the leases belong.
        Raises ConsumerReplaced, and leases nothing, once a newer session of the consumer is alive.
        """
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        check_number("limit", limit, MOST_LEASED)
        check_number("max_bytes", max_bytes, MOST_BYTES)
        check_session(session)

        def lease(rows: Rows, when: When) -> list[LeasedMessage]:
            found, now_ms = self._topic_to_lease(rows, topic, consumer, session, when.now_ms), when.now_ms
            share = self._share(found, consumer, now_ms) if buckets is None else check_buckets(buckets, found.buckets)
            until_ms = now_ms + found.lease_ms(duration)
            if not share:
                return []
            sizes = self._spot_sizes.get(topic, (SPOT_SIZE, LARGEST_BUNDLE))
            leasing = Leasing(
                found, consumer, share, limit, until_ms, now_ms, *sizes, session=session, max_bytes=max_bytes
            )
            messages = lease_messages(rows, leasing, when.numbers)
            self._spot_sizes[topic] = (leasing.spot_size, leasing.spot_bytes)
            return messages

        return self._change(4 * limit + 1024, lease)

    def _topic_to_lease(self, rows: Rows, topic: str, consumer: str, session: int | None, now_ms: int) -> Topic:
        if session is None:
            return live_topic(rows, topic)
        return topic_of_session(rows, topic, SessionRow(consumer, session, now_ms), self._live_for_ms)

    def lease_one(
        self, topic: str, id: str, version: int, consumer: str, *, duration: timedelta | None = None
    ) -> LeasedMessage | None:
        """Lease one message that `upcoming` told of, if it is due and was not changed since; None if it is stale."""
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        check_id(id)
        check_number("version", version, MOST_VERSIONS)

        def lease(rows: Rows, when: When) -> LeasedMessage | None:
            found, now_ms = live_topic(rows, topic), when.now_ms
            until_ms = now_ms + found.lease_ms(duration)
            leasing = Leasing(found, consumer, range(found.buckets), 1, until_ms, now_ms)
            return lease_one_message(rows, leasing, id, version, when.numbers)

        return self._change(4, lease)

    def extend(self, leases: AnyLease | Iterable[AnyLease], duration: timedelta | None = None) -> list[Outcome]:
        """Hold messages for so long from now on; each outcome has the lease that is valid from then on."""
        wanted = [as_lease(lease) for lease in check_leases(leases)]

        def extend(rows: Rows, when: When, part: Sequence[Lease]) -> list[Outcome]:
            topics = topics_of(rows, part)
            until = {name: when.now_ms + topic.lease_ms(duration) for name, topic in topics.items()}
            return extend_leases(rows, part, topics, until, when.now_ms, when.numbers, again=when.again)

        return self._change_parts(wanted, extend)

    def release(
        self,
        leases: AnyLease | Iterable[AnyLease],
        at: datetime | int | None = None,
        *,
        after: timedelta | None = None,
        reason: object = "",
    ) -> list[Outcome]:
        """Give messages back, due again `at` a moment, `after` a span from now, or at once.

        This timeline's clock says what now is. The reason is kept in their history.
        """
        wanted = [as_lease(lease) for lease in check_leases(leases)]
        why = reason_text(reason)
        at_ms = check_either("the moment of a release", at, after, self.clock()) or 0

        def release(rows: Rows, when: When, part: Sequence[Lease]) -> list[Outcome]:
            return release_leases(rows, part, at_ms, why, when.now_ms, when.numbers)

        return self._change_parts(wanted, release)

    def done(self, leases: AnyLease | Iterable[AnyLease]) -> list[Outcome]:
        """Finish messages, by their leases or themselves: they are gone. Repeating it is a success.

        A lease that ended before is `lost`, unless the message is gone anyway.
        """
        wanted = check_leases(leases)

        def finish(rows: Rows, when: When, part: Sequence[AnyLease]) -> list[Outcome]:
            return done_leases(rows, part, when.now_ms, when.numbers)

        return self._change_parts(wanted, finish)

    def my_leases(self, consumer: str, *, topic: str | None = None, session: int | None = None) -> list[LeasedMessage]:
        """List the messages that a session of a consumer has leased and not finished: all of them.

        Without a session: all of the consumer's, but those of its live sessions, which only they can go on with. See
        `leases_page` for a part of them.
        """
        page = self.leases_page(consumer, topic=topic, session=session, max_bytes=MOST_BYTES)
        found = [*page.messages]
        while page.next is not None:
            page = self.leases_page(consumer, topic=topic, session=session, after=page.next, max_bytes=MOST_BYTES)
            found += page.messages
        return found

    def leases_page(
        self,
        consumer: str,
        *,
        topic: str | None = None,
        session: int | None = None,
        after: str | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> LeasesPage:
        """List messages that a session of a consumer has leased and not finished, in pages; see `my_leases`.

        A page has at most `max_bytes` of bodies, or a single message; `after` is the `next` of the page before.
        """
        check_name("the consumer", consumer)
        if topic is not None:
            check_name("the name of a topic", topic)
        check_session(session)
        check_number("max_bytes", max_bytes, MOST_BYTES)
        begin = read_leases_cursor(after)
        query = HeldQuery(consumer, session, self.now_ms(), self._live_for_ms, begin, max_bytes)

        def held(rows: Rows) -> tuple[list[LeasedMessage], tuple[str, int] | None]:
            return held_messages(rows, rows.topics() if topic is None else [known_topic(rows, topic)], query)

        found, place = self._store.read(held)
        return LeasesPage(tuple(found), None if place is None else leases_cursor(place))

    def upcoming(
        self, topic: str, consumer: str, *, within: timedelta = timedelta(seconds=1), limit: int = 100
    ) -> list[Upcoming]:
        """Messages in a consumer's buckets that are due by then, with their versions, to be leased one by one."""
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        check_span("within", within, 0)
        check_number("limit", limit, LONGEST_PAGE)
        now_ms = self.now_ms()

        def look(rows: Rows) -> list[Upcoming]:
            found = live_topic(rows, topic)
            share = self._share(found, consumer, now_ms)
            stretch = stretch_of(found, share, now_ms + span_ms(within))
            return upcoming_messages(rows, stretch, found, limit) if share else []

        return self._store.read(look)

    def next_due(self, topic: str, consumer: str | None = None) -> int | None:
        """When the next message in a consumer's buckets, or in all, is or was due, in milliseconds; None for none."""
        check_name("the name of a topic", topic)
        if consumer is not None:
            check_name("the consumer", consumer)
        now_ms = self.now_ms()

        def look(rows: Rows) -> int | None:
            found = live_topic(rows, topic)
            share = range(found.buckets) if consumer is None else self._share(found, consumer, now_ms)
            return next_due_ms(rows, stretch_of(found, share, LATEST_MS), found) if share else None

        return self._store.read(look)

    # --- counts ---

    def count(self, topic: str, from_: datetime | int = 0, to: datetime | int = LATEST_MS) -> Counts:
        """Count messages by state whose moments are in a range, from a moment on and up to before another.

        All are counted at one moment: a message that is leased or released meanwhile counts once.
        """
        span, now_ms = check_range(from_, to), self.now_ms()
        check_name("the name of a topic", topic)
        return self._store.snapshot(lambda rows: count_messages(rows, known_topic(rows, topic), span, now_ms))

    def load(self, topic: str, *, from_: datetime | int | None = None, to: datetime | int, bins: int = 60) -> Load:
        """How many messages wait over a range of the future, and where they are more than the consumers can take."""
        check_name("the name of a topic", topic)
        check_number("bins", bins, MOST_BINS)
        now_ms = self.now_ms()
        span = check_range(now_ms if from_ is None else from_, to)
        if span.is_empty():
            raise InvalidInput(f"load takes a range of the future, got one from {span.begin_ms} to {span.end_ms} ms")
        since_ms = now_ms - self._live_for_ms
        return self._store.read(lambda rows: future_load(rows, known_topic(rows, topic), span, bins, since_ms))

    # --- who is there ---

    def subscribe(self, topic: str, consumer: str) -> Subscription:
        """Take part in a topic: a share of its buckets, for as long as `heartbeat` is called."""
        return self.heartbeat(topic, consumer)

    def heartbeat(
        self, topic: str, consumer: str, *, clock_ms: int | None = None, messages_per_second: float = 0.0
    ) -> Subscription:
        """Say that a consumer is there, what its clock shows, and how fast it has been; answers its share."""
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        check_speed(messages_per_second)
        self.check_clock()
        now_ms = self.now_ms()
        drift_ms = 0 if clock_ms is None else check_at("the clock of a consumer", clock_ms) - now_ms
        row = ConsumerRow(consumer, now_ms, drift_ms, float(messages_per_second))

        def attend(rows: Rows) -> tuple[range, int]:
            return attend_consumer(rows, live_topic(rows, topic), row, self._live_for_ms)

        buckets, consumers = self._store.transact(attend)
        self._shares[topic, consumer] = (buckets, now_ms)
        return Subscription(topic, consumer, buckets, consumers, timedelta(milliseconds=drift_ms))

    def attend(self, topic: str, consumers: Iterable[ConsumerRow]) -> None:
        """Say of several consumers that they are there, for who leases for them: they are offered all buckets."""
        check_name("the name of a topic", topic)
        seen = list(consumers)
        for row in seen:
            check_name("the consumer", row.consumer)
            check_speed(row.messages_per_second)
        self.check_clock()

        def note(rows: Rows) -> None:
            number = live_topic(rows, topic).number
            for row in seen:
                rows.write_consumer(number, row)

        self._store.transact(note)

    def attend_sessions(self, topic: str, seen: Sequence[SessionRow]) -> list[Standing]:
        """Say that sessions of consumers are alive. Return what each is among those of its name."""
        check_name("the name of a topic", topic)
        now_ms = self.now_ms()
        return self._write(lambda rows: attend_sessions(rows, live_topic(rows, topic), seen, now_ms, self._live_for_ms))

    def resume_session(self, topic: str, named: SessionRow) -> int:
        """Go on with a session that a client names, and with its leases, under another number. Return it.

        Tokens of the session's earlier connection are void. It is no newer than sessions that have replaced it.
        """
        check_name("the name of a topic", topic)

        def resume(rows: Rows, when: When) -> int:
            found, sessions = live_topic(rows, topic), resumed_from(named.session)
            number = resume_session(rows, found, named)
            resume_leases(rows, found, named.consumer, sessions, number, when.now_ms, when.numbers)
            return number

        return self._change(4, resume)

    def take_over(
        self,
        topic: str,
        consumer: str,
        session: int,
        *,
        duration: timedelta | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> list[LeasedMessage]:
        """Lease anew what the consumer's sessions have leased that are not alive; their own leases are void.

        One call takes over at most `max_bytes` of bodies, or a single message: the next one goes on.
        """
        check_number("max_bytes", max_bytes, MOST_BYTES)

        def lease(rows: Rows, when: When) -> list[LeasedMessage]:
            mine = SessionRow(consumer, session, when.now_ms)
            found, now_ms = topic_of_session(rows, topic, mine, self._live_for_ms), when.now_ms
            until_ms = now_ms + found.lease_ms(duration)
            buckets = range(found.buckets)
            leasing = Leasing(found, consumer, buckets, 0, until_ms, now_ms, session=session, max_bytes=max_bytes)

            def live() -> set[int]:
                seen = rows.sessions(found.number, now_ms - self._live_for_ms)
                standing = standing_of(mine, seen, now_ms, self._live_for_ms)
                return {session, *(other.session for other in standing.others)}

            return take_over_leases(rows, leasing, live, when.numbers)

        return self._change(MESSAGES_AT_ONCE, lease)

    def end_session(self, topic: str, consumer: str, session: int, *, is_resumed: bool = False) -> None:
        """Forget a session; with the consumer's last live one, the consumer leaves the topic.

        The number of one that `is_resumed` stays taken for a day.
        """
        mine, live_for_ms = SessionRow(consumer, session, self.now_ms()), self._live_for_ms

        def end(rows: Rows) -> bool:
            return end_session(rows, known_topic(rows, topic), mine, live_for_ms, is_resumed=is_resumed)

        if self._write(end):
            self._shares.pop((topic, consumer), None)

    def unsubscribe(self, topic: str, consumer: str) -> None:
        """Leave a topic: the others share its buckets from their next heartbeat on."""
        check_name("the name of a topic", topic)
        check_name("the consumer", consumer)
        self._shares.pop((topic, consumer), None)
        self._write(lambda rows: rows.delete_consumer(known_topic(rows, topic).number, consumer))

    def consumers(self, topic: str) -> list[ConsumerRow]:
        """The consumers that take part in a topic."""
        check_name("the name of a topic", topic)
        since_ms = self.now_ms() - self._live_for_ms
        return self._store.read(lambda rows: rows.consumers(known_topic(rows, topic).number, since_ms))

    def beat(self, broker: str, *, host: str | None = None) -> BrokerHealth:
        """Say that this process is there as a broker, and compare its clock. A host has one vote: this machine's.

        While the clock is off by more than `max_drift`, all that would change something is refused with Degraded.
        """
        check_name("the name of a broker", broker)
        return self.clock.beat(broker, None if host is None else check_name("the name of a host", host))

    def health(self) -> BrokerHealth | None:
        """Return what the last comparison of this broker's clock found; None before its first `beat`."""
        return self.clock.health()

    # --- inside ---

    def check_clock(self) -> None:
        """Raise Degraded if this process's clock is off."""
        self.clock.checked_us()

    def _owner(self, rows: Rows, producer_group: str) -> int:
        """The number of a producer group, which never changes once it is stored."""
        known = self._owners.get(producer_group)
        return rows.producer_group(producer_group) if known is None else known

    def _check_owner(self, topic: str, producer_group: str) -> str:
        check_name("the name of a topic", topic)
        return check_name("the producer group", producer_group)

    def _write(self, work: Callable[[Rows], T]) -> T:
        self.check_clock()
        return self._store.transact(work)

    def _change(self, numbers: int, work: Callable[[Rows, When], T]) -> T:
        """Do work at one moment, with fresh numbers; the same again should it be repeated."""
        now_ms, attempts = self.clock.checked_ms(), count()
        first = fresh_number(now_ms, numbers)
        return self._store.transact(lambda rows: work(rows, When(now_ms, count(first), next(attempts) > 0)))

    def _change_parts(
        self, items: Sequence[T], work: Callable[[Rows, When, Sequence[T]], list[Outcome]]
    ) -> list[Outcome]:
        """Do work on items, so many in one transaction; the outcomes are in their order."""
        outcomes: list[Outcome] = []
        for begin in range(0, len(items), MESSAGES_AT_ONCE):
            part = items[begin : begin + MESSAGES_AT_ONCE]

            def work_on(rows: Rows, when: When, part: Sequence[T] = part) -> list[Outcome]:
                return work(rows, when, part)

            outcomes += self._change(3 * len(part), work_on)
        return outcomes

    def _share(self, topic: Topic, consumer: str, now_ms: int) -> range:
        """The buckets of a consumer that has subscribed, or all of them."""
        buckets, seen_ms = self._shares.get((topic.name, consumer), (range(topic.buckets), now_ms))
        # A topic of the same name that was made anew may have fewer.
        fits = now_ms - seen_ms <= self._live_for_ms and buckets.stop <= topic.buckets
        return buckets if fits else range(topic.buckets)


def _cuts(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where to cut what one transaction alone cannot take on: from where on, up to before where."""
    begin, size = 0, 0
    for place, length in enumerate(sizes):
        if place > begin and (place - begin == MESSAGES_AT_ONCE or size + length > BYTES_AT_ONCE):
            yield begin, place
            begin, size = place, 0
        size += length
    if begin < len(sizes):
        yield begin, len(sizes)
