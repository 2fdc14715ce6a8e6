"""Counting by slices, and the histogram of the future."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.future_load import (
    SLICE_MS,
    Counts,
    Load,
    Range,
    bin_edges,
    cut_at_slices,
    fill_bins,
    slice_of,
    sum_counts,
)
from batchline.core.message import ms_of

MOMENTS = st.integers(0, 12 * SLICE_MS) | st.builds(
    lambda number, by: max(number * SLICE_MS + by, 0), st.integers(0, 12), st.integers(-1, 1)
)


def test_counts_have_a_total() -> None:
    assert Counts(1, 20, 300).total == 321


@pytest.mark.parametrize(("at", "number"), [(0, 0), (299_999, 0), (300_000, 1), (300_001, 1)])
def test_a_slice_begins_at_its_moment(at: int, number: int) -> None:
    assert slice_of(at) == number


@given(begin=MOMENTS, end=MOMENTS, at=MOMENTS)
@example(begin=1, end=SLICE_MS + 1, at=SLICE_MS)
def test_a_cut_range_has_each_moment_once(begin: int, end: int, at: int) -> None:
    slices, ends = cut_at_slices(Range(begin, end))
    hits = [slices.begin_ms <= slice_of(at) < slices.end_ms, *(one.begin_ms <= at < one.end_ms for one in ends)]
    assert sum(hits) == (begin <= at < end)
    assert len(ends) <= 2
    assert not any(one.is_empty() for one in ends)
    for one in ends:
        assert slice_of(one.begin_ms) == slice_of(one.end_ms - 1), "an end is within one slice"


@given(begin=MOMENTS, length=st.integers(1, 12 * SLICE_MS), bins=st.integers(1, 200))
def test_bins_cover_the_range_and_are_as_long_as_each_other(begin: int, length: int, bins: int) -> None:
    edges, _ = bin_edges(Range(begin, begin + length), bins)
    assert (edges[0], edges[-1]) == (begin, begin + length)
    assert edges == sorted(set(edges))
    assert len(edges) - 1 <= bins + 1
    widths = {end - start for start, end in pairwise(edges[1:-1])}
    assert len(widths) <= 1
    if -(-length // bins) >= SLICE_MS:
        assert all(edge % SLICE_MS == 0 for edge in edges[1:-1])
    else:
        assert len(edges) - 1 <= bins


@given(
    begin=MOMENTS,
    length=st.integers(1, 5 * SLICE_MS),
    bins=st.integers(1, 50),
    ats=st.lists(st.tuples(st.integers(0, 5 * SLICE_MS), st.integers(1, 9)), max_size=30),
)
def test_a_histogram_counts_each_moment_in_its_bin(
    begin: int, length: int, bins: int, ats: list[tuple[int, int]]
) -> None:
    edges, _ = bin_edges(Range(begin, begin + length), bins)
    counts = [(begin + at % length, count) for at, count in ats]
    filled = fill_bins(edges, counts, None)
    assert [ms_of(one.begin) for one in filled] + [ms_of(filled[-1].end)] == edges
    for one in filled:
        inside = sum(count for at, count in counts if ms_of(one.begin) <= at < ms_of(one.end))
        assert one.count == inside
        assert not one.spike


def test_a_spike_is_more_than_the_consumers_can_take() -> None:
    filled = fill_bins([0, 1_000, 2_000, 4_000], [(0, 10), (1_500, 11), (2_000, 20), (3_999, 1)], 10.0)
    assert [(one.count, one.spike) for one in filled] == [(10, False), (11, True), (21, True)]
    assert Load(filled, 10.0).spikes == filled[1:]


def test_nobody_who_has_shown_nothing_can_be_asked_too_much() -> None:
    assert Load(fill_bins([0, 1_000], [(0, 10**9)], None), None).spikes == ()


def test_sums_of_parts() -> None:
    assert sum_counts([{1: 2, 3: -1}, {}, {1: 1, 3: 1, 4: 7}]) == {1: 3, 3: 0, 4: 7}
