"""`/v1/overview`: the whole path at a glance."""

from datetime import timedelta
from typing import Final

from batchline.runtime.attention import Attention, attention, is_stuck
from batchline.runtime.facts import Facts, TopicFacts
from batchline.runtime.recent_reports import Report, latest
from batchline.runtime.stages import STRETCH_MS, Stage, rejections, stages
from batchline.service.operation import Call, NoForm, Operation
from batchline.wire.form import ms_text, span_text
from batchline.wire.overview import (
    AttentionForm,
    FanoutsState,
    OverviewForm,
    ProcessForm,
    RejectionForm,
    StageForm,
    TopicState,
)

__all__ = ["OPERATIONS", "overview_form"]


def read_overview(call: Call[NoForm]) -> OverviewForm:
    """Every stage's rate and backlog, what was rejected, and what needs attention."""
    caller = call.caller
    who = "" if caller.token is None else caller.token.id
    return call.parts.glance.made(who, lambda facts: overview_form(facts.for_caller(caller.may_see, caller.owns)))


def overview_form(facts: Facts) -> OverviewForm:
    """Facts as they are answered."""
    dead_letters = facts.dead_letters
    return OverviewForm(
        at=ms_text(facts.now_ms),
        stretch=span_text(timedelta(milliseconds=STRETCH_MS)),
        stages=[_stage(one) for one in stages(facts)],
        rejections=[RejectionForm(one.reason, one.count, round(one.per_second, 3)) for one in rejections(facts)],
        attention=[_attention(one) for one in attention(facts)],
        topics=[_topic(one, facts.now_ms, dead_letters=one.topic.name in dead_letters) for one in facts.topics],
        fanouts=_fanouts(facts),
        processes=[_process(one, facts.now_ms) for one in latest(facts.reports)],
    )


def _stage(one: Stage) -> StageForm:
    rates = [round(rate, 3) for rate in one.rates or ()]
    now = rates[-1] if rates else None
    return StageForm(one.name, one.unit, one.backlog_unit, now, rates, one.backlog, _moment(one.since_ms))


def _attention(one: Attention) -> AttentionForm:
    return AttentionForm(one.kind, one.bad, one.text, _moment(one.since_ms), one.topic, one.fanout, one.process)


def _topic(one: TopicFacts, now_ms: int, *, dead_letters: bool) -> TopicState:
    live = one.live(now_ms)
    return TopicState(
        one.topic.name,
        one.counts.waiting,
        one.counts.available,
        one.counts.processing,
        len(live),
        round(sum(row.messages_per_second for row in live), 3),
        _moment(one.oldest_due_ms),
        dead_letters,
    )


def _fanouts(facts: Facts) -> FanoutsState:
    states = [one.state for one in facts.fanouts]
    live = [one for one in facts.fanouts if one.state in ("open", "sealed")]
    stuck = sum(is_stuck(one, facts.now_ms) for one in live)
    pending = sum(one.pending for one in live)
    return FanoutsState(states.count("open"), states.count("sealed"), stuck, pending, facts.more_fanouts)


def _process(one: Report, now_ms: int) -> ProcessForm:
    state = "ended" if one.ended else "running" if one.is_live(now_ms) else "silent"
    return ProcessForm(one.kind, one.name, state, ms_text(int(one.number("started_ms"))), ms_text(one.at_ms))


def _moment(ms: int | None) -> str | None:
    return None if ms is None else ms_text(ms)


OPERATIONS: Final = (Operation("GET", "/v1/overview", "read", read_overview, answer=OverviewForm),)
