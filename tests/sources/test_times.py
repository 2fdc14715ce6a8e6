from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.moment import EARLIEST_US, LATEST_US
from batchline.sources.files.times import moments_from_texts, moments_from_timestamps

NOON_US = 1_794_744_000_000_000
HOUR_US = 3_600_000_000
READ = {
    "2026-11-15T12:00:00Z": NOON_US,
    "2026-11-15 12:00:00Z": NOON_US,
    "2026-11-15T12:00:00.5Z": NOON_US + 500_000,
    "2026-11-15T12:00:00.000001Z": NOON_US + 1,
    "2026-11-15T12:00:00.0000019Z": NOON_US + 1,
    "2026-11-15T12:00:00.123456789+00:00": NOON_US + 123_456,
    "2026-11-15T13:00:00+01:00": NOON_US,
    "2026-11-15T13:30:00+0130": NOON_US,
    "2026-11-15T10:30:00-01:30": NOON_US,
    "2026-11-15T12:00Z": NOON_US,
    "2026-11-15T13:00:00+01": NOON_US,
    "2028-02-29T00:00:00Z": 1_835_395_200_000_000,
    "1969-12-31T23:59:59.9999999Z": -1,
    "0001-01-01T00:00:00+05:00": EARLIEST_US - 5 * HOUR_US,
    "9999-12-31T23:59:59.999999-05:00": LATEST_US + 5 * HOUR_US,
}
REFUSED = [
    "",
    "noon",
    "2026-11-15",
    "2026-11-15Z",
    "2026-11-15 12:00",
    "2026-11-15T12:00:00",
    "2026-11-15T12:00:00 Z",
    " 2026-11-15T12:00:00Z",
    "2026-11-15T12:00:00z",
    "2026-11-15t12:00:00Z",
    "2026-11-15T12:00:00.Z",
    "2026-11-15T12:00:00.1234567890Z",
    "2026-11-15T12:00:00,5Z",
    "2026-11-15T24:00:00Z",
    "2026-11-15T12:00:60Z",
    "2026-02-29T12:00:00Z",
    "2026-13-15T12:00:00Z",
    "2026-11-15T12:00:00+24:00",
    "2026-11-15T12:00:00+00:60",
    "2026-11-15T12:00:00−01:00",
    "20261115T120000Z",
    "2026-W46-7T12:00:00Z",
    "2026-11-15T12:00:00Z\n",
    "٢٠٢٦-11-15T12:00:00Z",
    "1794744000",
]


def us(*texts: str | None) -> list[int | None]:
    column: Any = pa.chunked_array([pa.array(texts[:1], pa.string()), pa.array(texts[1:], pa.string())])
    moments: list[int | None] = moments_from_texts(column).cast(pa.int64()).to_pylist()
    return moments


@pytest.mark.parametrize("text", READ)
def test_a_time_with_a_zone_is_read(text: str) -> None:
    assert us(text) == [READ[text]]
    assert us(text, "in company of none", None) == [READ[text], None, None]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_time_or_has_no_zone_is_none(text: str) -> None:
    assert us(text) == [None]
    assert us("2026-11-15T12:00:00Z", text) == [NOON_US, None]


def pieces(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


nearly_times = st.builds(
    "{}{}{}{}".format,
    pieces("2026-11-15", "2026-02-30", "0000-01-01", "9999-12-31", "1969-12-31", "2026-1-15"),
    pieces("T", " ", "", "t"),
    pieces(
        "12:00:00", "12:00", "12", "23:59:59.9", "23:59:60", "24:00:00", "00:00:00.123456789", "1:00:00", "12:00:00."
    ),
    pieces("Z", "", "+01:00", "-2359", "+24:00", "+01", "+1", "z", " Z"),
)


@given(st.lists(nearly_times, min_size=1, max_size=8))
def test_a_time_is_read_the_same_in_any_company(texts: list[str]) -> None:
    alone = [us(text)[0] for text in texts]
    # Arrow knows a year 0, Python does not: nobody measured in it.
    known = [text for text in texts if not text.startswith("0000")]
    assert us(*known, "none of them") == [*(one for text, one in zip(texts, alone, strict=True) if text in known), None]


@given(
    st.datetimes(timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))),
    pieces("T", " "),
)
def test_any_moment_is_read_as_python_reads_it(moment: datetime, separator: str) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert us(moment.isoformat(sep=separator)) == [expected]
    assert us(moment.isoformat(sep=separator), "none") == [expected, None]


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", 1, 1_000_000),
        ("ms", -1, -1_000),
        ("us", -1, -1),
        ("ns", 1_999, 1),
        ("ns", -1, -1),
        ("s", None, None),
        ("ns", None, None),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_timestamps_are_moments_rounded_down(unit: Any, value: int | None, expected: int | None, zone: str) -> None:
    moments = moments_from_timestamps(pa.chunked_array([pa.array([value], pa.timestamp(unit, zone))]))
    assert moments.type == pa.timestamp("us", "UTC")
    assert moments.cast(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_timestamps_beyond_all_years_stay_beyond_them(unit: Any, value: int) -> None:
    moment = moments_from_timestamps(pa.chunked_array([pa.array([value], pa.timestamp(unit, "UTC"))]))
    assert not EARLIEST_US <= moment.cast(pa.int64())[0].as_py() <= LATEST_US
