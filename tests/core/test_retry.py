"""When to try again."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import RetryRules
from batchline.errors import InvalidRules

SECOND = timedelta(seconds=1)


def test_pauses_double_up_to_the_longest() -> None:
    rules = RetryRules(first=SECOND, factor=2, longest=timedelta(seconds=10), jitter=0)
    assert [rules.pause_ms(attempts, 0.5) for attempts in (1, 2, 3, 4, 5, 6)] == [
        1_000,
        2_000,
        4_000,
        8_000,
        10_000,
        10_000,
    ]


def test_chance_decides_a_part_of_the_pause() -> None:
    rules = RetryRules(first=SECOND, jitter=0.1)
    assert [rules.pause_ms(1, chance) for chance in (0.0, 0.5, 1.0)] == [1_000, 950, 900]


@given(
    first=st.integers(1, 10**6),
    longest=st.integers(1, 10**8),
    factor=st.floats(1, 100),
    jitter=st.floats(0, 1),
    attempts=st.integers(1, 10**6),
    chance=st.floats(0, 1),
)
def test_a_pause_is_never_longer_than_the_longest_nor_nothing(
    first: int, longest: int, factor: float, jitter: float, attempts: int, chance: float
) -> None:
    rules = RetryRules(timedelta(milliseconds=first), factor, timedelta(milliseconds=longest), jitter)
    pause = rules.pause_ms(attempts, chance)
    assert 1 <= pause <= longest
    assert pause <= rules.pause_ms(attempts + 1, chance)
    assert rules.pause_ms(attempts, 1.0) <= pause <= rules.pause_ms(attempts, 0.0)


@pytest.mark.parametrize(
    "rules",
    [
        {"first": timedelta(0)},
        {"first": 1},
        {"longest": timedelta(-1)},
        {"factor": 0.5},
        {"factor": 101},
        {"factor": "2"},
        {"factor": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": True},
    ],
    ids=str,
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidRules):
        RetryRules(**rules)
