"""Due times: a moment, or a span from now, resolved by the clock of the broker and never early."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.due_time import (
    AT_ONCE,
    LATEST_MS,
    LONGEST_AFTER_MS,
    after_ms_of,
    check_at,
    check_due,
    check_either,
    moment_ms,
    resolve_after,
)
from batchline.core.moment import LONGEST_SPAN_US
from batchline.errors import InvalidMessage

NOW_US = 1_800_000_000_123_457
NOWS = st.integers(0, 4_000_000_000_000_000)
SPANS_US = st.integers(1, LONGEST_SPAN_US)


@given(now_us=NOWS, after_us=SPANS_US)
@example(now_us=NOW_US, after_us=543)
@example(now_us=NOW_US, after_us=544)
@example(now_us=NOW_US, after_us=LONGEST_SPAN_US)
def test_a_span_is_resolved_to_the_first_millisecond_that_is_not_early(now_us: int, after_us: int) -> None:
    due_ms = resolve_after("x", None, timedelta(microseconds=after_us), now_us)
    assert 0 <= due_ms * 1_000 - (now_us + after_us) < 1_000


@given(now_us=NOWS, after_us=SPANS_US)
def test_a_span_by_way_of_a_client_is_never_early_either(now_us: int, after_us: int) -> None:
    after_ms = after_ms_of(resolve_after("x", None, timedelta(microseconds=after_us), None))
    assert after_ms is not None
    assert 0 <= after_ms * 1_000 - after_us < 1_000
    assert after_ms <= LONGEST_AFTER_MS
    due_ms = resolve_after("x", None, timedelta(milliseconds=after_ms), now_us)
    assert 0 <= due_ms * 1_000 - (now_us + after_us) < 2_000


def test_a_span_of_nothing_is_due_in_the_millisecond_that_has_begun() -> None:
    assert resolve_after("x", None, timedelta(0), NOW_US) == NOW_US // 1_000
    assert resolve_after("x", None, timedelta(0), None) == AT_ONCE
    assert after_ms_of(AT_ONCE) == 0


@given(at_ms=st.integers(0, LATEST_MS))
def test_a_moment_is_no_span(at_ms: int) -> None:
    assert after_ms_of(check_due("x", at_ms, None)) is None
    assert check_due("x", moment_ms(at_ms), NOW_US) == check_either("x", at_ms, None, NOW_US) == at_ms


def test_one_of_moment_and_span_is_taken_or_neither() -> None:
    minute = timedelta(minutes=1)
    assert check_either("x", None, None, NOW_US) is None
    assert check_either("x", None, minute, NOW_US) == check_due("x", minute, NOW_US) == 1_800_000_060_124
    with pytest.raises(InvalidMessage, match=r"x is given by at and by after, expected one of them: leave one out"):
        check_either("x", 5, minute, NOW_US)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(microseconds=-1), "or longer and at most 36,500 days"),
        (timedelta.min, "or longer"),
        (timedelta(days=36_500, microseconds=1), "at most 36,500 days"),
        (timedelta.max, "at most 36,500 days"),
        (60, "a timedelta, got 60"),
        (True, "a timedelta"),
        ("1m", "a timedelta, got '1m'"),
        (datetime(2027, 1, 1, tzinfo=UTC), "a timedelta"),
    ],
    ids=str,
)
@pytest.mark.parametrize("now_us", [NOW_US, None], ids=["broker", "client"])
def test_what_is_no_span_is_refused(after: Any, said: str, now_us: int | None) -> None:
    with pytest.raises(InvalidMessage, match=f"the moment: after must be .*{said}"):
        check_either("the moment", None, after, now_us)


def test_a_moment_is_rounded_down_where_it_is_now() -> None:
    just_before = moment_ms(5_000) - timedelta(microseconds=1)
    assert (check_at("now", just_before), check_at("now", just_before, up=False)) == (5_000, 4_999)
