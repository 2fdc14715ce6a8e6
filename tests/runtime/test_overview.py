"""What the facts of a store say: stages, rejections, and what needs attention."""

from datetime import timedelta
from typing import Any

from batchline.core.fanout import FanoutStatus
from batchline.core.future_load import Bin, Counts, Load
from batchline.core.message import moment_ms
from batchline.core.topic import Topic
from batchline.runtime.attention import attention
from batchline.runtime.facts import Facts, TopicFacts
from batchline.runtime.recent_reports import Report
from batchline.runtime.stages import rejections, stages
from batchline.stores.timeline_rows import ConsumerRow

NOW = 1_800_000_000_000
MINUTE = 60_000


def facts(**given: Any) -> Facts:
    empty: dict[str, Any] = {"topics": (), "fanouts": (), "more_fanouts": False, "drifts": {}, "reports": ()}
    return Facts(NOW, **empty | given)


def topic(name: str = "orders", dead_letter: str | None = None, **given: Any) -> TopicFacts:
    empty: dict[str, Any] = {"counts": Counts(0, 0, 0), "oldest_due_ms": None, "consumers": (), "load": Load((), None)}
    return TopicFacts(Topic(name, dead_letter=dead_letter, max_attempts=5 if dead_letter else None), **empty | given)


def consumer(ago_ms: int = 0, drift_ms: int = 0) -> ConsumerRow:
    return ConsumerRow("c", NOW - ago_ms, drift_ms, 2.0)


def fanout(ago_ms: int, pending: int = 1, state: str = "sealed", failed_ago_ms: int | None = None) -> FanoutStatus:
    at = moment_ms(NOW - ago_ms)
    failed_at = None if failed_ago_ms is None else moment_ms(NOW - failed_ago_ms)
    return FanoutStatus("f", state, 9, pending, 9 - pending, 0, 0, None, at, at, None, failed_at, None, at)  # type: ignore[arg-type]


def report(kind: str, ago_ms: int, name: str = "a", **numbers: Any) -> Report:
    return Report(kind, name, NOW - ago_ms, {"started_ms": 1} | numbers)


def kinds(**given: Any) -> list[str]:
    return [one.kind for one in attention(facts(**given))]


def test_nothing_needs_attention_where_all_is_well() -> None:
    fine = topic(counts=Counts(5, 1, 1), oldest_due_ms=NOW - 1_000, consumers=(consumer(),))
    assert kinds(topics=(fine,), fanouts=(fanout(MINUTE),), drifts={"b": 900.0}, reports=(report("run", 1_000),)) == []


def test_a_fanout_is_stuck_when_nothing_happened_for_five_minutes() -> None:
    assert kinds(fanouts=(fanout(5 * MINUTE + 1),)) == ["stuck_fanout"]
    assert kinds(fanouts=(fanout(5 * MINUTE + 1, pending=0), fanout(5 * MINUTE))) == []
    assert kinds(fanouts=(fanout(6 * MINUTE, state="failed", failed_ago_ms=MINUTE),)) == ["failed_fanout"]
    assert kinds(fanouts=(fanout(6 * MINUTE, state="failed", failed_ago_ms=61 * MINUTE),)) == []


def test_parcels_that_nobody_took_are_dead_letters_too() -> None:
    dead = topic("parcels-dead", counts=Counts(0, 0, 2), oldest_due_ms=NOW - 9 * MINUTE)
    assert kinds(topics=(topic("parcels"), dead)) == ["dead_letters"]
    assert kinds(topics=(dead,)) == ["no_consumers"]  # of no topic that is known


def test_dead_letters_are_told_and_are_not_late_for_anybody() -> None:
    dead = topic("dead", counts=Counts(0, 0, 3), oldest_due_ms=NOW - 9 * MINUTE)
    assert kinds(topics=(topic(dead_letter="dead"), dead)) == ["dead_letters"]


def test_a_topic_without_consumers_is_worse_than_one_that_is_behind() -> None:
    due: dict[str, Any] = {"counts": Counts(0, 0, 3), "oldest_due_ms": NOW - 2 * MINUTE}
    assert kinds(topics=(topic(**due),)) == ["no_consumers"]
    assert kinds(topics=(topic(**due, consumers=(consumer(),)),)) == ["late"]
    assert kinds(topics=(topic(**due, consumers=(consumer(31_000),)),)) == ["no_consumers", "consumer_gone"]


def test_clocks_that_are_off_are_told() -> None:
    assert kinds(topics=(topic(consumers=(consumer(drift_ms=-1_001),)),), drifts={"b": 1_001.0}) == ["clock", "clock"]


def test_a_spike_is_told_unless_its_stretch_is_short() -> None:
    def load(length: timedelta) -> Load:
        return Load((Bin(moment_ms(NOW), moment_ms(NOW) + length, 1_000, spike=True),), 2.0)

    spiky = topic(load=load(timedelta(minutes=5)))
    assert [one.text for one in attention(facts(topics=(spiky,)))] == [
        "orders gets 1,000 messages within 5m from 08:00 UTC on; its consumers take about 600"
    ]
    assert kinds(topics=(topic(load=load(timedelta(seconds=9))),)) == []


def test_a_process_that_says_nothing_is_told_unless_it_ended() -> None:
    assert kinds(reports=(report("work", 10_001),)) == ["silent"]
    assert kinds(reports=(report("work", 10_001), report("work", 9_000, ended=True))) == []
    assert kinds(reports=(report("work", 500, paused=True),)) == ["paused"]


def test_rates_and_backlogs_of_stages_come_from_what_processes_report() -> None:
    reports = (
        report("run", 20_000, source="mqtt", read=0, batched=0, parcels=0),
        report("ingest", 20_000, received=0),
        report("run", 0, source="mqtt", read=400, batched=200, parcels=20, published=150, open_rows=7),
        report("ingest", 0, received=600),
    )
    found = {one.name: one for one in stages(facts(reports=reports, fanouts=(fanout(MINUTE, pending=4),)))}
    assert {name: one.rates and one.rates[-1] for name, one in found.items()} == {
        "sources": 30.0,  # what the run read came by way of the ingest
        "batcher": 10.0,
        "packer": 7.5,
        "tracker": 1.0,
        "timeline": 0,
        "dispatcher": None,
        "sink": None,
        "ack": None,
    }
    assert [found[name].backlog for name in ("batcher", "packer", "tracker", "ack", "sink")] == [7, 50, 1, 4, None]


def test_due_messages_are_the_backlog_of_the_dispatcher_and_waiting_ones_that_of_the_timeline() -> None:
    busy = topic(
        counts=Counts(5, 1, 3), oldest_due_ms=NOW - 9, consumers=(consumer(), consumer(40_000)), dead_letter="d"
    )
    found = {one.name: one for one in stages(facts(topics=(busy, topic("d", counts=Counts(9, 9, 9)))))}
    assert (found["timeline"].rates, found["timeline"].backlog) == ((2.0,), 5)
    assert (found["dispatcher"].backlog, found["dispatcher"].since_ms) == (3, NOW - 9)


def test_rejections_are_counted_by_reason_the_most_frequent_first_also_of_who_has_ended() -> None:
    reports = (
        report("run", 20_000, rejected={"late": 0}),
        report("run", 0, rejected={"late": 20, "malformed": 1}),
        report("ingest", 0, malformed=30),
        report("run", 30_000, "gone", rejected={"future": 5}),
    )
    found = rejections(facts(reports=reports))
    assert [(one.reason, one.count, one.per_second) for one in found] == [
        ("malformed", 31, 0.05),
        ("late", 20, 1.0),
        ("future", 5, 0.0),
    ]


def test_who_may_not_see_a_topic_or_a_fanout_is_told_nothing_of_it() -> None:
    all_of_it = facts(
        topics=(topic(), topic("secret")),
        fanouts=(fanout(MINUTE),),
        reports=(report("work", 0, topic="secret"), report("serve", 0)),
    )
    seen = all_of_it.for_caller(lambda name: name == "orders", lambda labels: bool(labels))
    assert ([one.topic.name for one in seen.topics], seen.fanouts) == (["orders"], ())
    assert [one.kind for one in seen.reports] == ["serve"]


def test_a_process_with_loops_that_fail_needs_attention_until_they_run() -> None:
    troubles = [
        {"loop": "prune", "since_ms": NOW - 9_000, "error": "KeyError"},
        {"loop": "beat", "since_ms": NOW - 5_000, "error": "OSError"},
    ]
    (point,) = attention(facts(reports=(report("serve", 500, degraded=troubles),)))
    assert (point.kind, point.bad, point.since_ms, point.process) == ("degraded", True, NOW - 9_000, "a")
    assert "serve a is degraded: prune (KeyError), beat (OSError)" in point.text
    assert kinds(reports=(report("serve", 500, degraded=[]),)) == []
