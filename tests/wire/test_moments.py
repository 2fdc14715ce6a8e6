"""Moments as requests have them: in a body, and in a query, where everything is text."""

import pytest

from batchline.core.message import LATEST_MS
from batchline.errors import InvalidMessage
from batchline.wire.form import at_of, ms_of_at, ms_text

NOON_MS = 1_800_014_400_123


@pytest.mark.parametrize(
    "said",
    [
        NOON_MS,
        str(NOON_MS),
        "2027-01-15T12:00:00.123Z",
        "2027-01-15T12:00:00.123+00:00",
        "2027-01-15T14:00:00.123+02:00",
    ],
)
def test_a_moment_is_milliseconds_or_iso_8601_wherever_it_is_said(said: str | int) -> None:
    assert ms_of_at("at", said) == NOON_MS


@pytest.mark.parametrize("said", ["", "now", "2027-01-15T12:00:00", "-1", "1.5", "٣", str(LATEST_MS + 1), -1])
def test_what_is_no_moment_is_refused(said: str | int) -> None:
    with pytest.raises(InvalidMessage):
        ms_of_at("at", said)


@pytest.mark.parametrize("ms", [0, 1, NOON_MS, LATEST_MS])
def test_a_moment_that_is_answered_can_be_read(ms: int) -> None:
    assert at_of(ms_text(ms)) == ms_of_at("at", ms_text(ms)) == ms
