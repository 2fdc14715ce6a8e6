"""Wrong rules are answered when they are built, with the value that was wrong."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import BatchRules
from batchline.errors import InvalidRules


def test_the_defaults_are_those_of_the_spec() -> None:
    rules = BatchRules()
    assert rules.as_data() == {
        "window_us": 500_000,
        "max_delay_us": 400_000,
        "leap_limit_us": 400_000,
        "max_bytes": None,
        "anchor": "arrival",
        "split": "later",
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"window": timedelta(seconds=-1)}, "window must be longer than 0"),
        ({"window": timedelta(0)}, "window must be longer than 0"),
        ({"window": timedelta(days=40_000)}, "got datetime.timedelta(days=40000)"),
        ({"window": 500}, "window must be a timedelta, got 500 (int)"),
        ({"max_delay": timedelta(microseconds=-1)}, "max_delay must be 0 or longer"),
        ({"leap_limit": None}, "leap_limit must be a timedelta, got None"),
        ({"max_bytes": 0}, "max_bytes must lie between 1 and 2**62, got 0"),
        ({"max_bytes": 1.5}, "max_bytes must be a whole number or None, got 1.5 (float)"),
        ({"max_bytes": True}, "got True (bool)"),
        ({"anchor": "arival"}, "got 'arival'; did you mean 'arrival'?"),
        ({"anchor": None}, "anchor must be one of 'arrival', 'lookback', 'event', 'aligned', got None"),
        ({"split": "middle"}, "split must be one of 'later', 'midpoint', got 'middle'"),
        ({"split": "midpoint"}, "split 'midpoint' needs the anchor 'event', got the anchor 'arrival'"),
    ],
)
def test_wrong_rules_are_refused_with_the_value_that_was_wrong(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRules) as caught:
        BatchRules(**wrong)
    assert said in str(caught.value)


def test_zero_delay_and_zero_leap_are_allowed() -> None:
    BatchRules(max_delay=timedelta(0), leap_limit=timedelta(0))
