"""Whose clock is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.drift import drift_ms

OFFSETS = st.integers(-100_000, 100_000)


@pytest.mark.parametrize(
    ("ahead", "everybody", "off"),
    [
        (5_000, [5_000], 5_000),
        (5_000, [5_000, 0], 5_000),
        (0, [5_000, 0], 0),
        (5_000, [5_000, 0, 10], 4_990),
        (10, [5_000, 0, 10], 0),
        (0, [5_000, 0, 10], -10),
        (7_000, [7_000, 7_010, 7_020], -10),
        (0, [0, 10, 20, 5_000], -15),
    ],
)
def test_off_the_median_from_three_on_else_off_the_database(ahead: int, everybody: list[int], off: float) -> None:
    assert drift_ms(ahead, everybody) == off


@given(right=st.lists(st.integers(-10, 10), min_size=2, max_size=6), wrong=OFFSETS)
def test_one_wrong_clock_among_right_ones_is_the_only_one_that_is_off(right: list[int], wrong: int) -> None:
    everybody = [*right, wrong]
    assert all(abs(drift_ms(one, everybody)) <= 20 for one in right)
    assert abs(drift_ms(wrong, everybody) - wrong) <= 20 or abs(wrong) <= 20


@given(everybody=st.lists(OFFSETS, min_size=3, max_size=9), by=OFFSETS)
def test_what_the_database_shows_does_not_matter_to_three(everybody: list[int], by: int) -> None:
    moved = [one + by for one in everybody]
    assert [drift_ms(one, moved) for one in moved] == [drift_ms(one, everybody) for one in everybody]
