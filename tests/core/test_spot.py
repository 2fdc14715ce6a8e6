"""Spots: messages of one bundle in the same state."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.spot import CANCELLED, DONE, SEGMENTS, Spot, mask_of, segment_of, segments_of

NOW = 1_000
SPOT = Spot(7, 8, 1, 3, 900, -5, 0b1011, 100, 120, 4, 2, None)
#: All that no change of state touches.
KEPT = ("bundle", "number", "turn")


@given(buckets=st.integers(1, 1 << 20), data=st.data())
def test_segments_share_the_buckets_in_order(buckets: int, data: st.DataObject) -> None:
    bucket = data.draw(st.integers(0, buckets - 1))
    assert 0 <= segment_of(bucket, buckets) < SEGMENTS
    if bucket:
        assert segment_of(bucket - 1, buckets) <= segment_of(bucket, buckets)


def test_each_segment_has_an_equal_share() -> None:
    assert [[segment_of(bucket, 1024) for bucket in range(1024)].count(segment) for segment in range(8)] == [128] * 8


@given(buckets=st.integers(1, 2_000), data=st.data())
def test_the_segments_of_a_range_are_those_of_its_buckets(buckets: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, buckets - 1))
    last = data.draw(st.integers(first, buckets - 1))
    assert {segment_of(bucket, buckets) for bucket in range(first, last + 1)} <= set(segments_of(first, last, buckets))
    assert segments_of(first, last, buckets)[-1] == segment_of(last, buckets)


@given(places=st.sets(st.integers(0, 63)))
def test_a_mask_has_a_bit_for_each_place(places: set[int]) -> None:
    mask = mask_of(sorted(places))
    assert {place for place in range(64) if mask >> place & 1} == places
    assert SPOT._replace(bits=mask).size == len(places)


@pytest.mark.parametrize("consumer", [None, "w"])
@pytest.mark.parametrize("at_ms", [NOW - 1, NOW, NOW + 1])
def test_a_spot_is_available_or_leased_or_waits(at_ms: int, consumer: str | None) -> None:
    spot = SPOT._replace(at_ms=at_ms, consumer=consumer)
    assert spot.is_available(NOW) == (at_ms <= NOW)
    assert spot.is_leased(NOW) == (at_ms > NOW and consumer is not None)
    assert not spot.is_available(NOW) or not spot.is_leased(NOW)


@pytest.mark.parametrize(("end", "segment"), [(Spot.done, DONE), (Spot.cancelled, CANCELLED)])
def test_what_has_ended_is_neither_and_keeps_its_bits(end: Callable[[Spot, int], Spot], segment: int) -> None:
    ended = end(SPOT._replace(consumer="w", session=7, at_ms=NOW + 9), NOW)
    assert ended == SPOT._replace(segment=segment, at_ms=NOW)
    assert not ended.is_on_line
    for now_ms in (NOW - 1, NOW, NOW + 1):
        assert not ended.is_available(now_ms)
        assert not ended.is_leased(now_ms)


def test_a_lease_is_held_by_its_version_and_consumer_until_its_end() -> None:
    leased = SPOT.leased("w", 7, NOW + 10)
    assert leased.is_held(5, "w", NOW + 9)
    assert not leased.is_held(5, "w", NOW + 10)
    assert not leased.is_held(4, "w", NOW)
    assert not leased.is_held(6, "w", NOW)
    assert not leased.is_held(5, "v", NOW)


def test_every_change_makes_a_new_version() -> None:
    leased = SPOT.leased("w", 7, NOW + 10)
    assert (leased.version, leased.attempts, leased.consumer, leased.at_ms) == (5, 3, "w", NOW + 10)
    extended = leased.extended(NOW + 20)
    assert (extended.version, extended.attempts, extended.consumer, extended.at_ms) == (6, 3, "w", NOW + 20)
    moved = extended.moved(NOW + 30)
    assert (moved.version, moved.attempts, moved.consumer, moved.at_ms) == (7, 3, None, NOW + 30)
    buried = moved.buried(2, 1, [9, 5, 7], NOW + 40)
    assert (buried.version, buried.attempts, buried.consumer, buried.at_ms) == (8, 0, None, NOW + 40)
    assert (buried.topic, buried.segment, buried.low_bucket, buried.high_bucket) == (2, 1, 5, 9)
    for spot in (leased, extended, moved, buried):
        assert spot.bits == SPOT.bits
        assert [getattr(spot, name) for name in KEPT] == [getattr(SPOT, name) for name in KEPT]
