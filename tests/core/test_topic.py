"""A topic's rules."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import Topic
from batchline.core.topic import span_ms
from batchline.errors import InvalidName, InvalidRules

HOUR = timedelta(hours=1)


def test_a_topic_has_the_rules_that_the_spec_says() -> None:
    topic = Topic("parcels")
    assert (topic.buckets, topic.max_ahead) == (1024, timedelta(days=365))
    assert (topic.lease, topic.longest_lease) == (timedelta(minutes=5), timedelta(hours=12))
    assert (topic.max_attempts, topic.dead_letter, topic.rate_limit) == (None, None, None)
    assert topic.keep == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"buckets": 0}, "buckets must be a whole number from 1 to 1,048,576, got 0"),
        ({"buckets": (1 << 20) + 1}, "buckets"),
        ({"buckets": True}, "buckets"),
        ({"buckets": 8.0}, "buckets"),
        ({"buckets": "8"}, "buckets"),
        ({"max_ahead": timedelta(-1)}, "max_ahead must be 0 or longer"),
        ({"max_ahead": timedelta(days=36_501)}, "max_ahead"),
        ({"max_ahead": 5}, "max_ahead must be a timedelta"),
        ({"lease": timedelta(0)}, "lease must be 1ms or longer"),
        ({"lease": timedelta(microseconds=999)}, "lease"),
        ({"lease": timedelta(hours=12, microseconds=1)}, "lease must be at most 12 hours"),
        ({"lease": 300}, "lease must be a timedelta"),
        ({"longest_lease": timedelta(hours=13)}, "longest_lease must be at most 12 hours"),
        ({"longest_lease": timedelta(0)}, "longest_lease"),
        ({"lease": 2 * HOUR, "longest_lease": HOUR}, "lease must be at most longest_lease"),
        ({"max_attempts": 3}, "max_attempts and dead_letter go together"),
        ({"dead_letter": "dead"}, "max_attempts and dead_letter go together"),
        ({"max_attempts": 0, "dead_letter": "dead"}, "max_attempts must be a whole number from 1"),
        ({"max_attempts": 1.5, "dead_letter": "dead"}, "max_attempts"),
        ({"max_attempts": 3, "dead_letter": "parcels"}, "a topic cannot be its own dead-letter topic"),
        ({"keep": timedelta(-1)}, "keep must be 0 or longer"),
        ({"keep": 60}, "keep must be a timedelta"),
        ({"rate_limit": 0}, "rate_limit must be messages a second, above 0"),
        ({"rate_limit": -1.0}, "rate_limit"),
        ({"rate_limit": float("nan")}, "rate_limit"),
        ({"rate_limit": float("inf")}, "rate_limit"),
        ({"rate_limit": True}, "rate_limit"),
        ({"rate_limit": "fast"}, "rate_limit"),
    ],
    ids=str,
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRules, match=said):
        Topic("parcels", **rules)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", 5, None], ids=ascii)
def test_a_name_that_cannot_be_kept_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName, match="the name of a topic"):
        Topic(name)
    with pytest.raises(InvalidName if name is not None else InvalidRules):
        Topic("parcels", max_attempts=1, dead_letter=name)


@given(us=st.integers(0, 10**12))
def test_a_span_is_rounded_up_to_milliseconds(us: int) -> None:
    assert 0 <= span_ms(timedelta(microseconds=us)) * 1_000 - us < 1_000


def test_a_lease_is_as_long_as_asked_for_or_as_the_topic_says() -> None:
    topic = Topic("parcels", lease=timedelta(minutes=1), longest_lease=HOUR)
    assert topic.lease_ms(None) == 60_000
    assert topic.lease_ms(timedelta(milliseconds=1)) == 1
    assert topic.lease_ms(HOUR) == 3_600_000


@pytest.mark.parametrize(
    "duration", [HOUR + timedelta(microseconds=1), timedelta(0), timedelta(-1), timedelta(microseconds=999), 60, "1h"]
)
def test_a_lease_is_never_longer_than_the_topic_allows(duration: Any) -> None:
    with pytest.raises(InvalidRules):
        Topic("parcels", longest_lease=HOUR).lease_ms(duration)


def test_attempts_are_exhausted_at_their_number() -> None:
    topic = Topic("parcels", max_attempts=3, dead_letter="dead")
    assert [topic.is_exhausted(attempts) for attempts in range(5)] == [False, False, False, True, True]
    assert not Topic("parcels").is_exhausted(10**9)
