"""What somebody should look at. Rules on facts, without a store."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from batchline.core.fanout import FanoutStatus
from batchline.core.future_load import Bin
from batchline.core.message import ms_of
from batchline.core.moment import span_text
from batchline.core.topic import span_ms
from batchline.runtime.broker_clock import MAX_DRIFT
from batchline.runtime.facts import Facts, TopicFacts
from batchline.runtime.recent_reports import Report, latest

__all__ = ["STUCK_AFTER", "Attention", "attention", "is_stuck"]

#: A fanout with pending items, in which nothing has happened for so long, is stuck.
STUCK_AFTER: Final = timedelta(minutes=5)
#: How long a fanout that failed is news.
NEWS_FOR: Final = timedelta(hours=1)
#: A message that is due and that nobody takes for so long is late.
LATE_AFTER: Final = timedelta(minutes=1)

Kind = Literal[
    "stuck_fanout",
    "failed_fanout",
    "dead_letters",
    "no_consumers",
    "consumer_gone",
    "late",
    "spike",
    "clock",
    "silent",
    "degraded",
    "paused",
]


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that somebody should look at."""

    kind: Kind
    #: Whether work is lost or stands still; else it may become so.
    bad: bool
    text: str
    since_ms: int | None = None
    topic: str | None = None
    fanout: str | None = None
    process: str | None = None


def attention(facts: Facts) -> list[Attention]:
    """All there is, the bad before the rest, the longest first."""
    found = [*_fanouts(facts), *_topics(facts), *_clocks(facts), *_processes(facts)]
    return sorted(found, key=lambda one: (not one.bad, one.since_ms is None, one.since_ms or 0))


def is_stuck(fanout: FanoutStatus, now_ms: int) -> bool:
    """Whether items are pending, and nothing has happened for long."""
    quiet_ms = now_ms - ms_of(fanout.last_activity_at)
    return fanout.state in ("open", "sealed") and fanout.pending > 0 and quiet_ms > span_ms(STUCK_AFTER)


def _fanouts(facts: Facts) -> Iterator[Attention]:
    for one in facts.fanouts:
        active_ms = ms_of(one.last_activity_at)
        if is_stuck(one, facts.now_ms):
            text = f"{one.id} is stuck: {one.pending:,} of {one.total:,} items are pending"
            yield Attention("stuck_fanout", bad=False, text=text, since_ms=active_ms, fanout=one.id)
        if one.failed_at is not None and facts.now_ms - ms_of(one.failed_at) < span_ms(NEWS_FOR):
            text = f"{one.id} failed: {one.failed:,} of {one.total:,} items were given up"
            yield Attention("failed_fanout", bad=True, text=text, since_ms=ms_of(one.failed_at), fanout=one.id)


def _topics(facts: Facts) -> Iterator[Attention]:
    dead_letters = facts.dead_letters
    for one in facts.topics:
        name = one.topic.name
        if name not in dead_letters:
            yield from _topic(facts, one)
        elif one.counts.total:
            text = f"{_several(one.counts.total, 'dead letter')} on {name}"
            yield Attention("dead_letters", bad=True, text=text, since_ms=one.oldest_due_ms, topic=name)


def _topic(facts: Facts, one: TopicFacts) -> Iterator[Attention]:
    name, live, gone = one.topic.name, one.live(facts.now_ms), one.gone(facts.now_ms)
    due = _several(one.counts.available, "message")
    if one.counts.available and not live:
        text = (
            f"nobody consumes {name}, where {due} are due"
            if one.counts.available > 1
            else f"nobody consumes {name}, where a message is due"
        )
        yield Attention("no_consumers", bad=True, text=text, since_ms=one.oldest_due_ms, topic=name)
    elif one.oldest_due_ms is not None and facts.now_ms - one.oldest_due_ms > span_ms(LATE_AFTER):
        text = f"{name} is behind: {due} due"
        yield Attention("late", bad=False, text=text, since_ms=one.oldest_due_ms, topic=name)
    for row in gone:
        text = f"consumer {row.consumer} of {name} is gone"
        yield Attention("consumer_gone", bad=False, text=text, since_ms=row.seen_ms, topic=name, process=row.consumer)
    for row in live:
        if abs(row.drift_ms) > span_ms(MAX_DRIFT):
            text = f"the clock of consumer {row.consumer} is off by {row.drift_ms / 1_000:+.1f} s"
            yield Attention("clock", bad=False, text=text, topic=name, process=row.consumer)
    # The first stretch may be short: what it has is taken in the next.
    spikes = [spike for spike in one.load.spikes if spike.end - spike.begin >= LATE_AFTER]
    if spikes:
        yield _spike(one, max(spikes, key=lambda spike: spike.count))


def _spike(one: TopicFacts, most: Bin) -> Attention:
    length = timedelta(seconds=round((most.end - most.begin).total_seconds()))
    can = (one.load.messages_per_second or 0) * length.total_seconds()
    text = (
        f"{one.topic.name} gets {_several(most.count, 'message')} within {span_text(length)} "
        f"from {most.begin:%H:%M} UTC on; its consumers take about {can:,.0f}"
    )
    return Attention("spike", bad=False, text=text, topic=one.topic.name)


def _clocks(facts: Facts) -> Iterator[Attention]:
    for name, off_ms in facts.drifts.items():
        if abs(off_ms) > span_ms(MAX_DRIFT):
            text = f"the clock of {name} is off by {off_ms / 1_000:+.1f} s: it changes nothing until it is right"
            yield Attention("clock", bad=True, text=text, process=name)


def _processes(facts: Facts) -> Iterator[Attention]:
    for report in latest(facts.reports):
        who = f"{report.kind} {report.name}"
        if report.is_live(facts.now_ms):
            yield from _degraded(who, report)
            if report.numbers.get("paused"):
                text = f"{who} is paused: its sink has too much to do"
                yield Attention("paused", bad=False, text=text, process=report.name)
        elif not report.ended:
            text = f"{who} reports no more: it was killed, or does not reach the store"
            yield Attention("silent", bad=True, text=text, since_ms=report.at_ms, process=report.name)


def _degraded(who: str, report: Report) -> Iterator[Attention]:
    troubles = report.numbers.get("degraded") or ()
    if troubles:
        loops = ", ".join(dict.fromkeys(f"{one['loop']} ({one['error']})" for one in troubles))
        text = f"{who} is degraded: {loops} fails and is tried again; its log says why"
        since_ms = min(one["since_ms"] for one in troubles)
        yield Attention("degraded", bad=True, text=text, since_ms=since_ms, process=report.name)


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
