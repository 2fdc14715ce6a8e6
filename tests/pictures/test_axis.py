"""Round ticks, and moments and durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.pictures.axis import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    YEAR,
    clock_text,
    duration_text,
    moment_text,
    round_steps,
    tick_step,
    ticks,
)
from tests.pictures.tables import BASE_US, MS


def test_steps_are_round_and_grow() -> None:
    steps = list(round_steps())
    assert steps == sorted(set(steps))
    assert {1, 2, 5, 10, 500 * MS, SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY} <= set(
        steps
    )
    # Each divides a day or is made of days: midnight is always a tick.
    assert all(DAY % step == 0 or step % DAY == 0 for step in steps)


@given(st.integers(-(2**62), 2**62), st.integers(1, 10**17), st.integers(24, 1_000))
def test_ticks_are_multiples_of_a_round_step_inside_the_axis(first: int, span: int, cells: int) -> None:
    step = tick_step(cells / span, lambda _: 15)
    marks = ticks(first, first + span, step)
    assert step in round_steps()
    assert all(mark % step == 0 and first <= mark <= first + span for mark in marks)
    assert len(marks) == (first + span) // step - (first - 1) // step
    # The labels do not touch, and a wide axis is not left without any.
    assert step * cells / span >= 15
    assert len(marks) >= 1 or cells < 15 * 3


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (1, "22:13:20.123456"),
        (500, "22:13:20.1234"),
        (50 * MS, "22:13:20.12"),
        (200 * MS, "22:13:20.1"),
        (SECOND, "22:13:20"),
        (30 * SECOND, "22:13:20"),
        (5 * MINUTE, "22:13"),
        (6 * HOUR, "22:13"),
        (2 * DAY, "2023-11-14"),
    ],
)
def test_a_label_is_as_precise_as_its_step(step: int, text: str) -> None:
    assert clock_text(BASE_US + 123_456, step) == text


def test_a_moment_names_its_day_once() -> None:
    assert moment_text(BASE_US, SECOND) == "2023-11-14 22:13:20"
    assert moment_text(BASE_US, DAY) == "2023-11-14"
    assert moment_text(-1) == "1969-12-31 23:59:59.999999"


def test_a_year_beyond_the_calendar_is_still_named() -> None:
    assert moment_text(2**62, DAY) == "148106"
    assert moment_text(-(2**62), SECOND) == "-144166 ?"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 µs"),
        (7, "7 µs"),
        (1_500, "1.5 ms"),
        (400 * MS, "400 ms"),
        (3_200 * MS, "3.2 s"),
        (-3_000 * MS, "3 s"),
        (59 * MINUTE, "59 min"),
        (90 * MINUTE, "1.5 h"),
        (3 * DAY, "3 days"),
        (56 * YEAR, "56 years"),
    ],
)
def test_a_duration_is_short(us: int, text: str) -> None:
    assert duration_text(us) == text
