"""How the whole path stands, read from a store in one look: topics, fanouts, who is there, what was reported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

from batchline.core.drift import reference_ms, votes_by_host
from batchline.core.fanout import FanoutStatus, State
from batchline.core.future_load import SLICE_MS, Counts, Load, Range
from batchline.core.message import LATEST_MS
from batchline.core.topic import Topic, dead_letter_topics, span_ms
from batchline.runtime.broker_clock import LIVE_FOR, MAX_DRIFT
from batchline.runtime.recent_reports import RecentReports, Report
from batchline.stores.attending import live_brokers
from batchline.stores.counting import count_messages, future_load
from batchline.stores.looking import next_due_ms
from batchline.stores.rows import Rows
from batchline.stores.store import Store
from batchline.stores.timeline_rows import ConsumerRow, stretch_of
from batchline.stores.tracker_rows import Listing

__all__ = ["Facts", "TopicFacts", "read_facts"]

#: How long a consumer that was there is missed.
MISSED_FOR: Final = timedelta(minutes=10)
#: How much of the future is looked at, in slices: they are summed up already.
AHEAD: Final = 12
#: Fanouts of a state that are looked at; of those that failed, the newest.
MOST_FANOUTS: Final = 500
MOST_FAILED: Final = 50


class TopicFacts(NamedTuple):
    """How a topic stands."""

    topic: Topic
    counts: Counts
    #: The moment of its oldest message that is due; None if there is none.
    oldest_due_ms: int | None
    #: Its consumers, those that were there until lately as well.
    consumers: tuple[ConsumerRow, ...]
    load: Load

    def live(self, now_ms: int) -> list[ConsumerRow]:
        """The consumers that are there."""
        return [one for one in self.consumers if now_ms - one.seen_ms <= span_ms(LIVE_FOR)]

    def gone(self, now_ms: int) -> list[ConsumerRow]:
        """The consumers that were there until lately, and did not say that they leave."""
        return [one for one in self.consumers if now_ms - one.seen_ms > span_ms(LIVE_FOR)]


@dataclass(frozen=True, slots=True)
class Facts:
    """How the whole path stands at a moment."""

    now_ms: int
    topics: tuple[TopicFacts, ...]
    #: Those that are open or sealed, oldest first, and the newest that failed.
    fanouts: tuple[FanoutStatus, ...]
    #: Whether there are more that are open or sealed.
    more_fanouts: bool
    #: How far the clocks of brokers are off, in milliseconds, by name.
    drifts: Mapping[str, float]
    reports: tuple[Report, ...]

    @property
    def dead_letters(self) -> set[str]:
        """The names of topics for dead letters."""
        return dead_letter_topics(one.topic for one in self.topics)

    def for_caller(self, may_see: Callable[[str], bool], owns: Callable[[dict[str, str]], bool]) -> "Facts":
        """What somebody may know who may see some topics, and owns fanouts with some labels."""
        return replace(
            self,
            topics=tuple(one for one in self.topics if may_see(one.topic.name)),
            fanouts=tuple(one for one in self.fanouts if owns(one.labels)),
            reports=tuple(one for one in self.reports if one.topic is None or may_see(one.topic)),
        )


def read_facts(store: Store, recent: RecentReports, now_ms: int) -> Facts:
    """How the whole path stands now."""

    def look(rows: Rows) -> Facts:
        live = [_fanouts(rows, state, MOST_FANOUTS + 1) for state in ("open", "sealed")]
        failed = _fanouts(rows, "failed", MOST_FAILED, newest=True)
        return Facts(
            now_ms,
            tuple(_topic(rows, topic, now_ms) for topic in rows.topics()),
            tuple(one for some in (*(some[:MOST_FANOUTS] for some in live), failed) for one in some),
            any(len(some) > MOST_FANOUTS for some in live),
            _drifts(rows, now_ms),
            (),
        )

    return replace(store.snapshot(look), reports=tuple(recent.read()))


def _fanouts(rows: Rows, state: State, limit: int, *, newest: bool = False) -> list[FanoutStatus]:
    return [status for _, status in rows.list_fanouts(Listing(0, limit, state, newest=newest))]


def _topic(rows: Rows, topic: Topic, now_ms: int) -> TopicFacts:
    counts = count_messages(rows, topic, Range(0, LATEST_MS), now_ms)
    first_ms = next_due_ms(rows, stretch_of(topic, range(topic.buckets), now_ms), topic) if counts.available else None
    return TopicFacts(
        topic,
        counts,
        first_ms,
        tuple(rows.consumers(topic.number, now_ms - span_ms(MISSED_FOR))),
        future_load(rows, topic, Range(now_ms, now_ms + AHEAD * SLICE_MS), AHEAD, now_ms - span_ms(LIVE_FOR)),
    )


def _drifts(rows: Rows, now_ms: int) -> dict[str, float]:
    live = live_brokers(rows, rows.database_ms(now_ms), span_ms(LIVE_FOR))
    reference = reference_ms(votes_by_host(one.vote for one in live).values(), span_ms(MAX_DRIFT))
    # A broker of several hosts is shown with its newest clock.
    return {one.broker: one.ahead_ms - reference for one in sorted(live, key=lambda one: one.seen_ms)}
