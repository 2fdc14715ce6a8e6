"""A rate: a second's worth at once, and then as time goes by."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.rate import allowed

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
CALLS = st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 5_000)), min_size=1, max_size=40)
RATES = st.floats(0.01, 1e6)


@given(rate=RATES, calls=CALLS)
@example(rate=600_000.0, calls=[(0, 1)] * 40)
def test_never_more_than_a_seconds_worth_at_once_and_on_average_no_more_than_the_rate(
    rate: float, calls: list[tuple[int, int]]
) -> None:
    used, now, total = None, NOW, 0
    for wait, wanted in calls:
        now += wait
        count, used = allowed(rate, used, wanted, now)
        assert 0 <= count <= min(wanted, max(rate, 1))
        total += count
        assert total <= max((now - NOW) / SECOND * rate + rate, 1) + 1


@given(rate=RATES, wanted=st.integers(1, 10**7))
def test_an_unused_rate_allows_a_seconds_worth_and_at_least_one(rate: float, wanted: int) -> None:
    for used in (None, NOW, NOW - 1):
        assert allowed(rate, used, wanted, NOW)[0] == min(wanted, max(int(rate), 1))


@pytest.mark.parametrize(("waited_ms", "count"), [(0, 0), (99, 0), (100, 1), (250, 2), (1_000, 10), (60_000, 10)])
def test_what_was_used_comes_back_as_time_goes_by(waited_ms: int, count: int) -> None:
    first, used = allowed(10, None, 100, NOW)
    assert first == 10
    assert allowed(10, used, 100, NOW + waited_ms * 1_000)[0] == count


def test_a_low_rate_allows_one_after_another() -> None:
    count, used = allowed(0.1, None, 5, NOW)
    assert count == 1
    assert allowed(0.1, used, 5, NOW + 10 * SECOND - 1)[0] == 0
    assert allowed(0.1, used, 5, NOW + 10 * SECOND)[0] == 1


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    _, used = allowed(10, None, 10, NOW)
    assert allowed(10, used, 10, NOW - 60 * SECOND)[0] == 0
