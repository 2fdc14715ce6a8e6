"""Who is there, on any store: consumers of topics, and brokers with their clocks."""

from collections.abc import Sequence

from batchline.core.bucket_ranges import bucket_range
from batchline.core.drift import drift_ms
from batchline.core.session import SessionRow, Standing, standing_of
from batchline.core.topic import Topic
from batchline.stores.timeline_rows import BrokerRow, ConsumerRow, TimelineRows

__all__ = ["attend_broker", "attend_consumer", "attend_sessions", "end_session"]


def attend_consumer(rows: TimelineRows, topic: Topic, row: ConsumerRow, live_for_ms: int) -> tuple[range, int]:
    """Note that a consumer is there; tells its buckets, and how many consumers there are.

    One that was seen in the far future had a clock that was off: it would have its share until then, and take nothing.
    """
    rows.write_consumer(topic.number, row)
    seen = rows.consumers(topic.number, row.seen_ms - live_for_ms)
    live = [one.consumer for one in seen if one.seen_ms <= row.seen_ms + live_for_ms]
    return bucket_range(row.consumer, live, topic.buckets), len({row.consumer, *live})


def attend_sessions(
    rows: TimelineRows, topic: Topic, seen: Sequence[SessionRow], now_ms: int, live_for_ms: int
) -> list[Standing]:
    """Note that sessions are there. Return what each is among those of its name."""
    rows.write_sessions(topic.number, seen)
    live = rows.sessions(topic.number, now_ms - live_for_ms)
    return [standing_of(one, live, now_ms, live_for_ms) for one in seen]


def end_session(rows: TimelineRows, topic: Topic, mine: SessionRow, live_for_ms: int) -> bool:
    """Forget a session, and its consumer with the last live one. Return whether it was the last."""
    rows.delete_session(topic.number, mine.consumer, mine.session)
    seen = rows.sessions(topic.number, mine.seen_ms - live_for_ms)
    if standing_of(mine, seen, mine.seen_ms, live_for_ms).others:
        return False
    rows.delete_consumer(topic.number, mine.consumer)
    return True


def attend_broker(rows: TimelineRows, name: str, now_ms: int, live_for_ms: int) -> tuple[float, int]:
    """Note that a broker is there; tells how far its clock is off, and how many brokers there are."""
    database_ms = rows.database_ms(now_ms)
    rows.write_broker(BrokerRow(name, database_ms, now_ms - database_ms))
    live = {row.name: row.ahead_ms for row in rows.brokers(database_ms - live_for_ms)}
    live[name] = now_ms - database_ms
    return drift_ms(live[name], list(live.values())), len(live)
