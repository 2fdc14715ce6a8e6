"""Spans in text."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.moment import moment_of, span_of, span_text, us_of


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("1.5s", timedelta(milliseconds=1500)),
        (" 2 m ", timedelta(minutes=2)),
        ("7us", timedelta(microseconds=7)),
        ("7µs", timedelta(microseconds=7)),
        ("1h", timedelta(hours=1)),
        ("1d", timedelta(days=1)),
    ],
)
def test_a_span_is_a_number_and_a_unit(text: str, span: timedelta) -> None:
    assert span_of(text) == span


@pytest.mark.parametrize("text", ["", "500", "ms", "1 week", "1e3s", "5s5s"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a span such as 500ms"):
        span_of(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_a_span_written_is_the_span_read(span: timedelta) -> None:
    assert span_of(span_text(span)) == span


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 - zones are drawn
def test_a_moment_is_its_microseconds(moment: datetime) -> None:
    assert moment_of(us_of(moment)) == moment.astimezone(UTC)
