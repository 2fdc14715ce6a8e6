"""Capacity that falls when the receiver throttles."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.adaptive import Adapting, Adaptive
from batchline.errors import InvalidRules

shares = st.sampled_from([0.05, 0.3, 1.0]) | st.floats(0.01, 1)


@given(shares, shares, shares, st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=30))
def test_the_share_stays_between_the_floor_and_all(
    floor: float, fall: float, step: float, story: list[tuple[float, bool]]
) -> None:
    adapting, now_s, before = Adapting(Adaptive(floor, fall, step)), 0.0, 1.0
    for after_s, throttled in story:
        now_s += after_s
        share = adapting.share(now_s)
        assert floor <= share <= 1
        assert before <= share <= before + step * (after_s + 1) + 1e-9
        if throttled:
            adapting.throttled(now_s)
            assert adapting.share(now_s) == pytest.approx(max(share * (1 - fall), floor))
        before = adapting.share(now_s)


def test_it_falls_by_a_share_and_comes_back_in_steps() -> None:
    adapting = Adapting(Adaptive(floor=0.4, fall=0.5, step=0.2, every=timedelta(seconds=10)))
    assert adapting.share(5.0) == 1
    adapting.throttled(5.0)
    assert [adapting.share(now_s) for now_s in (5.0, 14.9, 15.0, 25.0, 35.0)] == pytest.approx([0.5, 0.5, 0.7, 0.9, 1])
    adapting.throttled(15.0)
    adapting.throttled(15.0)
    assert adapting.share(15.0) == 0.4


@pytest.mark.parametrize("name", ["floor", "fall", "step"])
@pytest.mark.parametrize("share", [0, -0.1, 1.1, True, "0.5", None, float("nan")], ids=str)
def test_shares_that_cannot_be_are_refused(name: str, share: Any) -> None:
    with pytest.raises(InvalidRules, match=rf"^{name} must be a share above 0, up to 1, got {share!r}"):
        Adaptive(**{name: share})


@pytest.mark.parametrize("every", [timedelta(0), 5], ids=str)
def test_an_interval_that_cannot_be_is_refused(every: Any) -> None:
    with pytest.raises(InvalidRules, match=r"^every must be "):
        Adaptive(every=every)
