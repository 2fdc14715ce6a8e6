"""Who is there, on any store: consumers of topics, and brokers with their clocks."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from batchline.core.bucket_ranges import bucket_range
from batchline.core.drift import ahead_ms, reference_ms, votes_by_host
from batchline.core.session import SessionRow, Standing, replaced, resumed_from, standing_of
from batchline.core.topic import Topic
from batchline.stores.timeline_rows import BrokerRow, ConsumerRow, TimelineRows, broker_row_name
from batchline.stores.topics import check_live

__all__ = [
    "ComparedClock",
    "Comparison",
    "attend_broker",
    "attend_consumer",
    "attend_sessions",
    "compare_clock",
    "end_session",
    "live_brokers",
    "resume_session",
    "topic_of_session",
]

#: By what `live_for` is divided to know how long a silent consumer keeps its buckets: two heartbeats.
SHARE_OF_LIVE: Final = 3
#: A query that is quicker than this needs no other.
QUICK_MS: Final = 100
#: The quickest of these queries counts, as one may be slow by chance. It finds no clock wrong that is off by less.
TRIES: Final = 3


class ComparedClock(NamedTuple):
    """A clock that is compared with the database's, and by which limits."""

    now_ms: Callable[[], int]
    live_for_ms: int
    max_drift_ms: int


class Comparison(NamedTuple):
    """What comparing a clock has found."""

    #: How far it is off the reference: the database's clock, or that of a majority of hosts.
    drift_ms: float
    #: Hosts with a vote, and brokers that were seen lately.
    hosts: int
    brokers: int


def attend_consumer(rows: TimelineRows, topic: Topic, row: ConsumerRow, live_for_ms: int) -> tuple[range, int]:
    """Note that a consumer is there. Return its buckets, and how many consumers share the topic.

    A consumer that is silent keeps its share for a third of `live_for`: a frozen one would hold up its lanes.
    One that was seen in the far future had a clock that was off: it would have its share until then, and take nothing.
    """
    rows.write_consumer(topic.number, row)
    seen = rows.consumers(topic.number, row.seen_ms - live_for_ms // SHARE_OF_LIVE)
    live = [one.consumer for one in seen if one.seen_ms <= row.seen_ms + live_for_ms]
    return bucket_range(row.consumer, live, topic.buckets), len({row.consumer, *live})


def attend_sessions(
    rows: TimelineRows, topic: Topic, seen: Sequence[SessionRow], now_ms: int, live_for_ms: int
) -> list[Standing]:
    """Note that sessions are there. Return what each is among those of its name."""
    rows.write_sessions(topic.number, seen)
    live = rows.sessions(topic.number, now_ms - live_for_ms)
    return [standing_of(one, live, now_ms, live_for_ms) for one in seen]


def topic_of_session(rows: TimelineRows, name: str, mine: SessionRow, live_for_ms: int) -> Topic:
    """Return the topic on which a session may lease; raises ConsumerReplaced once a newer one is alive.

    It holds the session: a client that connects again waits for the lease, and then has the messages of it, too.
    """
    rows.hold_session(name, mine.consumer, mine.session)
    span = mine.seen_ms - live_for_ms, mine.seen_ms + live_for_ms
    topic, newest = rows.topic_with_newest(name, mine.consumer, *span)
    if newest is not None and newest > mine.session:
        raise replaced(mine.consumer)
    return check_live(name, topic)


def resume_session(rows: TimelineRows, topic: Topic, named: SessionRow) -> int:
    """Give a session that a client names the number after all that went on with it. Return it."""
    # Two clients that name the same one wait here for each other, and do not get the same number.
    rows.write_sessions(topic.number, [named])
    before = rows.session_numbers(topic.number, named.consumer, resumed_from(named.session))
    number = max(before) + 1
    rows.write_sessions(topic.number, [named._replace(session=number)])
    for one in before:
        rows.delete_session(topic.number, named.consumer, one)
    return number


def end_session(rows: TimelineRows, topic: Topic, mine: SessionRow, live_for_ms: int, *, is_resumed: bool) -> bool:
    """Forget a session, and its consumer with the last live one. Return whether it was the last.

    The number of one that `is_resumed` stays taken, as that of a session that was last seen long ago: an older
    connection may still be open under the number before it, which would be given out again.
    """
    if is_resumed:
        rows.write_sessions(topic.number, [mine._replace(seen_ms=mine.seen_ms - 2 * live_for_ms)])
    else:
        rows.delete_session(topic.number, mine.consumer, mine.session)
    seen = rows.sessions(topic.number, mine.seen_ms - live_for_ms)
    if standing_of(mine, seen, mine.seen_ms, live_for_ms).others:
        return False
    rows.delete_consumer(topic.number, mine.consumer)
    return True


def attend_broker(rows: TimelineRows, name: str, host: str, clock: ComparedClock) -> Comparison:
    """Note that a broker is there, and how far its clock is ahead. Return what comparing it has found."""
    shown_ms, ahead = _read(rows, clock)
    rows.write_broker(BrokerRow(broker_row_name(name, host), shown_ms, ahead))
    return _compare(rows, shown_ms, ahead, clock)


def compare_clock(rows: TimelineRows, clock: ComparedClock) -> Comparison:
    """Return what comparing a clock with the reference of the brokers has found, without a vote of its own."""
    return _compare(rows, *_read(rows, clock), clock)


def _read(rows: TimelineRows, clock: ComparedClock) -> tuple[int, int]:
    """Return what the database's clock shows, and how far the other is ahead of it: by the quickest of some queries."""
    found: list[tuple[int, int, int]] = []
    while len(found) < TRIES:
        before_ms = clock.now_ms()
        shown_ms = rows.database_ms(before_ms)
        after_ms = clock.now_ms()
        found.append((abs(after_ms - before_ms), shown_ms, ahead_ms(before_ms, shown_ms, after_ms)))
        if found[-1][0] <= QUICK_MS:
            break
    _, shown_ms, ahead = min(found)
    return shown_ms, ahead


def _compare(rows: TimelineRows, shown_ms: int, ahead: int, clock: ComparedClock) -> Comparison:
    live = live_brokers(rows, shown_ms, clock.live_for_ms)
    hosts = votes_by_host(one.vote for one in live)
    return Comparison(ahead - reference_ms(hosts.values(), clock.max_drift_ms), len(hosts), len(live))


def live_brokers(rows: TimelineRows, shown_ms: int, live_for_ms: int) -> list[BrokerRow]:
    """Return the brokers that were seen lately; not those of the future, from before the database's clock was set."""
    return [one for one in rows.brokers(shown_ms - live_for_ms) if one.seen_ms <= shown_ms + live_for_ms]
