"""Moments as requests have them."""

import pytest

from batchline.core.message import LATEST_MS
from batchline.errors import InvalidMessage
from batchline.wire.form import LONGEST_MS, ms_of_at

MS = 1_800_000_000_123


@pytest.mark.parametrize("at", [MS, str(MS), "2027-01-15T08:00:00.123Z", "2027-01-15T09:00:00.123+01:00"])
def test_a_moment_is_iso_8601_or_milliseconds_as_a_number_or_as_a_query_has_them(at: str | int) -> None:
    assert ms_of_at("from", at) == MS


@pytest.mark.parametrize("at", ["", "now", "2027-01-15T08:00:00", "9" * 5_000, "-5", "\N{FULLWIDTH DIGIT ONE}", "1.5"])
def test_anything_else_is_refused(at: str) -> None:
    with pytest.raises(InvalidMessage, match="from"):
        ms_of_at("from", at)


def test_digits_alone_are_milliseconds_for_a_day_without_a_zone_is_no_moment() -> None:
    assert ms_of_at("from", "20270115") == 20_270_115


def test_the_latest_moment_has_room() -> None:
    assert ms_of_at("to", str(LATEST_MS)) == LATEST_MS
    assert len(str(LATEST_MS)) <= LONGEST_MS
