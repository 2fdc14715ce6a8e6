"""What is due again and again."""

import math

from hypothesis import given
from hypothesis import strategies as st

from batchline.core.ticker import Ticker

begins = st.sampled_from([0.0, 1_000.37, 123_456.789]) | st.floats(0, 1e6)
intervals = st.sampled_from([0.001, 0.01, 0.1, 1.0, 10.0]) | st.floats(0.001, 100)


@given(begins, intervals)
def test_each_moment_of_the_grid_is_due_once(begin_s: float, every_s: float) -> None:
    ticker = Ticker(every_s, begin_s)
    for number in range(1, 200):
        now_s = ticker.next_s
        assert now_s == begin_s + number * every_s
        assert not ticker.due(math.nextafter(now_s, 0.0))
        assert ticker.due(now_s)
        assert not ticker.due(now_s)


@given(begins, intervals, st.lists(st.floats(0, 50), max_size=30))
def test_moments_that_are_missed_are_not_made_up_for(begin_s: float, every_s: float, gaps: list[float]) -> None:
    ticker, now_s = Ticker(every_s, begin_s), begin_s
    for gap in gaps:
        now_s += gap * every_s
        due_s = ticker.next_s
        assert ticker.due(now_s) == (now_s >= due_s)
        assert not ticker.due(now_s)
        assert now_s < ticker.next_s <= now_s + every_s * (1 + 1e-6)
        turns = (ticker.next_s - begin_s) / every_s
        assert abs(turns - round(turns)) < 1e-6


def test_a_ticker_faster_than_the_clock_can_tell_goes_on_all_the_same() -> None:
    ticker = Ticker(1e-6, 1e12)
    assert ticker.due(1e12 + 1)
    assert ticker.next_s > 1e12 + 1
