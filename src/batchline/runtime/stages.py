"""The stages of the path: how fast each is, and how much is before it. Rules on facts, without a store."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from batchline.core.counter import even_edges, rates
from batchline.core.message import ms_of
from batchline.core.topic import span_ms
from batchline.runtime.facts import Facts
from batchline.runtime.recent_reports import SILENT_AFTER, Report, counts_of, latest

__all__ = ["STRETCH_MS", "Rejection", "Stage", "rejections", "stages"]

#: The last ten minutes, in stretches of 20 seconds: a rate is that of the last.
STRETCH_MS: Final = 20_000
STRETCHES: Final = 30
#: Sources of which `run` itself counts what comes; of the others `ingest` does.
READ_BY_RUN: Final = ("files", "kafka")


@dataclass(frozen=True, slots=True)
class Stage:
    """How a stage stands."""

    name: str
    #: What its rate counts, and its backlog.
    unit: str
    backlog_unit: str
    #: How much it did a second, stretch by stretch, the last one now; None if nobody tells.
    rates: tuple[float, ...] | None = None
    backlog: int | None = None
    #: Since when the oldest of the backlog has been there.
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Measurements that were rejected for a reason."""

    reason: str
    count: int
    per_second: float


class _Desk:
    """Facts, and what is asked of them again and again."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.edges = even_edges(_told_until_ms(facts), STRETCH_MS, STRETCHES)
        self.last = latest(facts.reports)
        self.live = [one for one in self.last if one.is_live(facts.now_ms)]
        self.kinds = {one.kind for one in self.last}
        dead_letters = facts.dead_letters
        self.topics = [one for one in facts.topics if one.topic.name not in dead_letters]
        self.fanouts = [one for one in facts.fanouts if one.state in ("open", "sealed")]

    def rates(self, *counters: tuple[str, str], of: Callable[[Report], bool] = bool) -> tuple[float, ...] | None:
        """Rates of counters (kind, path) together; None if no process of these kinds was there."""
        if not self.kinds & {kind for kind, _ in counters}:
            return None
        reports = [one for one in self.facts.reports if of(one)]
        each = [rates(counts_of(reports, kind, path), self.edges) for kind, path in counters]
        return tuple(map(sum, zip(*each, strict=True)))

    def gauge(self, kind: str, *paths: str) -> int | None:
        """A gauge of all live processes of a kind together; None if there is none."""
        found = [one.number(path) for one in self.live if one.kind == kind for path in paths]
        return int(sum(found)) if found else None


def _told_until_ms(facts: Facts) -> int:
    """Up to when it is known what was counted: the last report, unless nobody reports any more."""
    newest_ms = max((one.at_ms for one in facts.reports), default=0)
    return newest_ms if 0 <= facts.now_ms - newest_ms <= span_ms(SILENT_AFTER) else facts.now_ms


def stages(facts: Facts) -> list[Stage]:
    """The stages in their order, from the sources to the acks."""
    desk = _Desk(facts)
    return [
        Stage(
            "sources", "measurements", "", desk.rates(("run", "read"), ("ingest", "received"), of=_counts_what_comes)
        ),
        _batcher(desk),
        _packer(desk),
        _tracker(desk),
        _timeline(desk),
        _dispatcher(desk),
        Stage(
            "sink",
            "measurements",
            "calls",
            desk.rates(("work", "measurements.delivered")),
            desk.gauge("work", "on_their_way"),
        ),
        _ack(desk),
    ]


def _counts_what_comes(report: Report) -> bool:
    return report.kind == "ingest" or report.numbers.get("source") in READ_BY_RUN


def _batcher(desk: _Desk) -> Stage:
    return Stage(
        "batcher", "measurements", "measurements", desk.rates(("run", "batched")), desk.gauge("run", "open_rows")
    )


def _packer(desk: _Desk) -> Stage:
    batched, published = desk.gauge("run", "batched"), desk.gauge("run", "published")
    backlog = None if batched is None or published is None else max(batched - published, 0)
    return Stage("packer", "measurements", "measurements", desk.rates(("run", "published")), backlog)


def _tracker(desk: _Desk) -> Stage:
    since_ms = min((ms_of(one.opened_at) for one in desk.fanouts), default=None)
    return Stage("tracker", "parcels", "fanouts", desk.rates(("run", "parcels")), len(desk.fanouts), since_ms)


def _timeline(desk: _Desk) -> Stage:
    per_second = sum(row.messages_per_second for one in desk.topics for row in one.live(desk.facts.now_ms))
    waiting = sum(one.counts.waiting for one in desk.topics)
    return Stage("timeline", "messages", "messages", (per_second,), waiting)


def _dispatcher(desk: _Desk) -> Stage:
    due = sum(one.counts.available for one in desk.topics) + (desk.gauge("work", "waiting") or 0)
    since_ms = min((one.oldest_due_ms for one in desk.topics if one.oldest_due_ms is not None), default=None)
    words = ("delivered", "repeated", "refused", "failed")
    return Stage(
        "dispatcher", "parcels", "due", desk.rates(*(("work", f"parcels.{word}") for word in words)), due, since_ms
    )


def _ack(desk: _Desk) -> Stage:
    return Stage(
        "ack", "parcels", "items", desk.rates(("work", "parcels.delivered")), sum(one.pending for one in desk.fanouts)
    )


def rejections(facts: Facts) -> list[Rejection]:
    """What was rejected, by reason, the most frequent first: of processes seen lately, since they began."""
    desk = _Desk(facts)
    found = [_rejection(desk, reason) for reason in sorted(set(_reasons(desk.last)))]
    return sorted((one for one in found if one.count), key=lambda one: -one.count)


def _reasons(reports: Iterable[Report]) -> Iterable[str]:
    for report in reports:
        if report.kind == "run":
            yield from report.numbers.get("rejected", ())
        elif report.kind == "ingest":
            yield "malformed"


def _rejection(desk: _Desk, reason: str) -> Rejection:
    counters = [("run", f"rejected.{reason}")] + ([("ingest", "malformed")] if reason == "malformed" else [])
    count = sum(one.number(path) for one in desk.last for kind, path in counters if one.kind == kind)
    rate = desk.rates(*counters)
    return Rejection(reason, int(count), rate[-1] if rate else 0.0)
