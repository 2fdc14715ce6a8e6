"""Rules of expiry are checked when they are built."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import ExpiryRules
from batchline.errors import InvalidRules

DAY_US = 86_400_000_000


def test_without_a_word_it_is_a_week_and_thirty_days() -> None:
    rules = ExpiryRules()
    assert (rules.unsealed_us, rules.sealed_us, rules.tombstone_us) == (7 * DAY_US, 30 * DAY_US, 30 * DAY_US)


def test_spans_are_told_in_microseconds() -> None:
    rules = ExpiryRules(timedelta(microseconds=1), timedelta(seconds=2), timedelta(days=36_500))
    assert (rules.unsealed_us, rules.sealed_us, rules.tombstone_us) == (1, 2_000_000, 36_500 * DAY_US)


@pytest.mark.parametrize("name", ["unsealed", "sealed", "tombstone"])
@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(0), r"must be longer than 0 and at most 36,500 days, got datetime.timedelta\(0\)"),
        (timedelta(days=-1), "must be longer than 0 and at most 36,500 days"),
        (timedelta(days=36_500, microseconds=1), "must be longer than 0 and at most 36,500 days"),
        (timedelta.max, "must be longer than 0 and at most 36,500 days"),
        (5, r"must be a timedelta, got 5 \(int\)"),
        ("1d", r"must be a timedelta, got '1d' \(str\)"),
        (None, r"must be a timedelta, got None \(NoneType\)"),
    ],
)
def test_a_span_in_which_nothing_can_be_kept_is_refused(name: str, span: Any, said: str) -> None:
    with pytest.raises(InvalidRules, match=f"{name} {said}"):
        ExpiryRules(**{name: span})
