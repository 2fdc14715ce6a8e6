"""Stories of a dispatcher, generated and told to its rules, and what the rate allows of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

from batchline.core.cost import amount_of, names_of, part_of
from batchline.core.dispatch import Dispatch
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.operation import Operation, Watcher
from batchline.errors import InvalidRules

#: The moment at which stories begin: a clock shows anything.
BEGIN_S = 1_000.37
#: So much more, in parts of what is allowed, is rounding.
ROUNDING = 1e-9

capacities = st.sampled_from([0.3, 1.0, 5.0, 19.0, 1_000.0, 20_000.0]) | st.floats(0.01, 1e6)
flush_intervals = st.sampled_from([1, 10, 25, 100, 1_000, 5_000]).map(lambda ms: timedelta(milliseconds=ms))
#: Costs, as parts of the capacity: nothing, little, about a slice, as much as there is in a second.
cost_parts = st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.1, 0.15, 0.5, 1.0]) | st.floats(0, 1)


def nothing(_operations: list[Operation]) -> None:
    """A callback that is never called: rules do not."""


def watcher(name: str = "w", **limits: Any) -> Watcher:
    return Watcher(nothing, name=name, **limits)


def dispatch_of(**rules: Any) -> Dispatch:
    return Dispatch(DispatchRules(**rules))


@dataclass(frozen=True)
class Step:
    """A flush: how long after the one before, what came in between, and what becomes of what goes out."""

    gap: float
    idle_s: float
    parts: list[float]
    outcome: str = "end"
    #: What capacity there is from now on, as a part of the configured one.
    capacity: float = 1.0


@st.composite
def steps(draw: st.DrawFn, *, late: bool = False, changing: bool = False) -> Step:
    """Regular flushes, some asked for at any moment, storms of them; `late` ones come after the interval."""
    gaps = st.sampled_from([1.0, 1.0, 1.0, 0.25, 0.0]) | st.floats(0, 1)
    return Step(
        gap=draw(gaps | st.floats(1, 30) if late else gaps),
        idle_s=draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0, 1e6])),
        parts=draw(st.lists(cost_parts, max_size=8)),
        outcome=draw(st.sampled_from(["end", "end", "fail", "throttled"])),
        capacity=draw(st.sampled_from([1.0, 0.5, 0.1, 0.0]) | st.floats(0, 1)) if changing else 1.0,
    )


@dataclass
class Sent:
    """What one flush has handed out, at which capacity."""

    at_s: float
    cost: Any
    capacity: Any


@dataclass
class Played:
    sent: list[Sent] = field(default_factory=list)
    #: The most that one operation costs.
    largest: Any = 0


def play(story: Sequence[Step], capacity: Any, flush: timedelta, **rules: Any) -> Played:
    """Tell a story to a dispatcher's rules; capacity and costs may be of several kinds at once."""
    whole = amount_of("capacity", capacity, InvalidRules)
    dispatch, owner, now_s = dispatch_of(flush_interval=flush, **rules), watcher(max_batch_size=3), BEGIN_S
    dispatch.begin(whole * story[0].capacity if story else whole, now_s)
    played = Played(largest=whole * max((part for step in story for part in step.parts), default=0))
    for step in story:
        now_s += step.gap * flush.total_seconds()
        if not dispatch.buffer.count:
            now_s += step.idle_s
        dispatch.put([Operation(owner, _cost(whole, part, place), batchable=True) for place, part in enumerated(step)])
        flushed = dispatch.flush(whole * step.capacity, now_s, 0)
        played.sent.append(Sent(now_s, sum(one.cost for one in flushed.handouts), whole * step.capacity))
        for handout in flushed.handouts:
            if step.outcome == "throttled":
                dispatch.put_back(handout)
            dispatch.end(handout, now_s)
            if step.outcome == "fail":
                dispatch.put(handout.operations)
    return played


def enumerated(step: Step) -> Iterable[tuple[int, float]]:
    return enumerate(step.parts)


def _cost(whole: Any, part: float, place: int) -> Any:
    """A part of the capacity; of several, now of the one, now of the other, now of all."""
    names = names_of(whole)
    if names is None:
        return whole * part
    chosen = names if place % 3 == 2 else (names[place % len(names)],)
    return {name: whole[name] * part for name in chosen}


def rate_holds(played: Played, flush: timedelta, extra_s: float = 0.0, name: str | None = None) -> None:
    """In every closed interval no more was handed out than the page allows, whatever its two ends."""
    moments = [one.at_s for one in played.sent]
    sums = [0.0, *accumulate(part_of(one.cost, name) for one in played.sent)]
    capacities = [part_of(one.capacity, name) for one in played.sent]
    worth = [0.0, *accumulate(_worth(capacities, moments))]
    slice_s = flush.total_seconds() + extra_s
    for first in range(len(moments)):
        highest = capacities[first]
        for last in range(first, len(moments)):
            highest = max(highest, capacities[last])
            handed_out = sums[last + 1] - sums[first]
            allowed = worth[last] - worth[first] + highest * slice_s + part_of(played.largest, name)
            assert handed_out <= allowed + ROUNDING * (allowed + highest * moments[last] + sums[-1])


def _worth(capacities: Sequence[float], moments: Sequence[float]) -> Iterable[float]:
    """What the time between flushes is worth; while the capacity changes, at the higher one."""
    spans = zip(moments[1:], moments, strict=False)
    each = zip(capacities[1:], capacities, strict=False)
    return [max(pair) * (end - begin) for pair, (end, begin) in zip(each, spans, strict=True)]
