"""How live consumers share a topic's buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.bucket_ranges import bucket_range, bucket_ranges

NAMES = st.sets(st.text(max_size=3), max_size=40)


@pytest.mark.parametrize(
    ("consumers", "buckets", "lengths"),
    [
        (3, 89, [30, 30, 29]),
        (1, 1024, [1024]),
        (3, 1024, [342, 341, 341]),
        (5, 3, [1, 1, 1, 0, 0]),
        (4, 1, [1, 0, 0, 0]),
        (0, 8, []),
    ],
)
def test_the_table_of_the_spec(consumers: int, buckets: int, lengths: list[int]) -> None:
    names = [f"worker-{number}" for number in range(consumers)]
    ranges = bucket_ranges(reversed(names), buckets)
    assert list(ranges) == names
    assert [len(one) for one in ranges.values()] == lengths


@given(names=NAMES, buckets=st.integers(1, 2_000))
def test_ranges_are_contiguous_whole_and_differ_by_at_most_one(names: set[str], buckets: int) -> None:
    ranges = bucket_ranges(names, buckets)
    assert list(ranges) == sorted(names)
    if not names:
        return
    assert [bucket for one in ranges.values() for bucket in one] == list(range(buckets))
    lengths = [len(one) for one in ranges.values()]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] - lengths[-1] <= 1


@given(names=NAMES, buckets=st.integers(1, 2_000))
def test_who_is_counted_twice_has_one_share(names: set[str], buckets: int) -> None:
    assert bucket_ranges([*names, *names], buckets) == bucket_ranges(names, buckets)


@given(names=NAMES, own=st.text(max_size=3), buckets=st.integers(1, 2_000))
def test_a_consumer_has_its_share_seen_or_not(names: set[str], own: str, buckets: int) -> None:
    assert bucket_range(own, names, buckets) == bucket_ranges({own, *names}, buckets)[own]
