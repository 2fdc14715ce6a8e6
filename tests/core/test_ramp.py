"""Capacity that grows by no more than so much over so long."""

from datetime import timedelta
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import Amounts
from batchline.core.ramp import Ramp, Ramping
from batchline.errors import InvalidRules

EVERY = timedelta(seconds=10)
factors = st.sampled_from([1.5, 2.0, 1_000.0]) | st.floats(1.001, 1_000)
starts = st.sampled_from([1.0, 500.0]) | st.floats(0.1, 1_000)
#: Each after how long it is asked, and what capacity there is then.
stories = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 1.0, 5.0, 10.0, 1e6]) | st.floats(0, 30), st.sampled_from([0, 10, 700, 1e5])),
    min_size=1,
    max_size=30,
)


def played(ramp: Ramp, story: list[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """The moments, what there was, and what was allowed of it."""
    ramping = Ramping(ramp, 0.0)
    moments = accumulate(gap_s for gap_s, _ in story)
    return [
        (now_s, capacity, ramping.allow(capacity, now_s)) for now_s, (_, capacity) in zip(moments, story, strict=True)
    ]


@given(factors, starts, stories)
def test_it_grows_by_no_more_than_the_factor_over_any_span(
    factor: float, start: float, story: list[tuple[float, float]]
) -> None:
    told = played(Ramp(start, factor=factor, every=EVERY), story)
    for first, (early_s, _, before) in enumerate(told):
        for late_s, capacity, after in told[first:]:
            assert after <= capacity
            spans = (late_s - early_s) / 10
            assert spans > 50 or after <= max(start, before) * factor**spans * (1 + 1e-6)


@given(st.sampled_from([0.0, 1.0, 250.0]), starts, stories)
def test_it_grows_by_no_more_than_the_step_over_any_span(
    step: float, start: float, story: list[tuple[float, float]]
) -> None:
    told = played(Ramp(start, step=step, every=EVERY), story)
    for first, (early_s, _, before) in enumerate(told):
        for late_s, capacity, after in told[first:]:
            assert after <= capacity
            assert after <= (max(start, before) + step * (late_s - early_s) / 10) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("ramp", "expected"),
    [
        (Ramp(500, factor=1.5, every=EVERY), [500, 750, 1_125, 1_687.5, 2_000, 2_000]),
        (Ramp(500, step=400, every=EVERY), [500, 900, 1_300, 1_700, 2_000, 2_000]),
        (Ramp(5_000, step=1, every=EVERY), [2_000] * 6),
    ],
)
def test_capacity_grows_up_to_what_there_is(ramp: Ramp, expected: list[float]) -> None:
    assert [level for _, _, level in played(ramp, [(0, 2_000), *[(10, 2_000)] * 5])] == pytest.approx(expected)


def test_it_grows_evenly_and_not_in_jumps() -> None:
    levels = [level for _, _, level in played(Ramp(400, factor=4, every=EVERY), [(0, 1e6), (2.5, 1e6), (2.5, 1e6)])]
    assert levels == pytest.approx([400, 565.685, 800], rel=1e-4)


def test_after_a_fall_it_grows_again_from_there_but_not_from_below_the_start() -> None:
    levels = [
        level
        for _, _, level in played(
            Ramp(500, factor=2, every=EVERY), [(0, 900), (100, 900), (10, 600), (5, 2_000), (0, 10), (0, 2_000)]
        )
    ]
    assert levels == pytest.approx([500, 900, 600, 848.528, 10, 500], rel=1e-4)


@pytest.mark.parametrize("start", [500, {"ru": 500, "net": 500}], ids=str)
@pytest.mark.parametrize("growth", [{"factor": 2}, {"step": 500}, {"step": {"ru": 500, "net": 500}}], ids=str)
def test_several_capacities_grow_each_by_itself(start: Any, growth: dict[str, Any]) -> None:
    ramping = Ramping(Ramp(start, **growth, every=EVERY), 0.0)
    capacity = Amounts(ru=5_000, net=700)
    assert ramping.allow(capacity, 0.0) == {"ru": 500, "net": 500}
    assert ramping.allow(capacity, 10.0) == {"ru": 1_000, "net": 700}


def test_a_clock_that_runs_back_is_no_growth() -> None:
    ramping = Ramping(Ramp(100, step=10, every=EVERY), 100.0)
    assert [ramping.allow(1e6, now_s) for now_s in (110.0, 100.0, 110.0)] == [110, 110, 110]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 500}, "a ramp has either a factor or a step"),
        ({"start": 500, "factor": 2, "step": 5}, "a ramp has either a factor or a step"),
        ({"start": -1, "factor": 2}, "start must be a number from 0 to .*, got -1"),
        ({"start": "500", "factor": 2}, "start must be a number from 0 to .*, got '500'"),
        ({"start": 0, "factor": 2}, "start must be above 0 to grow by a factor, got 0"),
        ({"start": {"ru": 5, "net": 0}, "factor": 2}, "start must be above 0 to grow by a factor, got {'ru': 5, 'net'"),
        ({"start": 500, "step": -5}, "step must be a number from 0 to .*, got -5"),
        ({"start": 500, "factor": 1}, "factor must be a number above 1, up to 1,000, got 1"),
        ({"start": 500, "factor": 1_001}, "factor must be a number above 1, up to 1,000, got 1001"),
        ({"start": 500, "factor": True}, "factor must be a number above 1, up to 1,000, got True"),
        ({"start": 500, "factor": float("nan")}, "factor must be a number above 1, up to 1,000, got nan"),
        ({"start": 500, "factor": 2, "every": 300}, "every must be a timedelta, got 300"),
        ({"start": 500, "factor": 2, "every": timedelta(0)}, "every must be longer than 0"),
    ],
    ids=str,
)
def test_ramps_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=f"^{message}"):
        Ramp(**options)
