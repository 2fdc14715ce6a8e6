"""Partitions: how many, what each is worth, how many one wants, and how many are fair."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import Amounts
from batchline.core.partitions import (
    MOST_PARTITIONS,
    fair_shares,
    partition_count,
    partition_worth,
    partitions_wanted,
)
from batchline.errors import InvalidRules

factors = st.integers(1, 5_000)
counts = st.integers(0, MOST_PARTITIONS)


@given(factors, counts, st.floats(0, 1))
def test_all_partitions_are_worth_exactly_what_is_shared(factor: int, count: int, rest: float) -> None:
    shared = max(factor * count - int(factor * rest), 0)
    assert partition_count(shared, factor) == math.ceil(shared / factor)
    worths = [partition_worth(shared, factor, number) for number in range(partition_count(shared, factor))]
    assert sum(worths) == shared
    assert all(worth == factor for worth in worths[:-1])
    assert all(0 < worth <= factor for worth in worths)
    assert partition_worth(shared, factor, len(worths)) == 0


@given(st.floats(0.001, 1e6), st.floats(1, MOST_PARTITIONS - 1))
def test_fractions_are_worth_what_is_shared_up_to_rounding(factor: float, times: float) -> None:
    shared = factor * times
    count = partition_count(shared, factor)
    assert count in (math.ceil(times), math.ceil(times - 1e-8))
    worth = sum(partition_worth(shared, factor, number) for number in range(count))
    assert worth == pytest.approx(shared, rel=1e-8)


@given(st.data(), st.integers(1, 90), st.integers(2, 90), st.integers(2, 90))
def test_of_several_capacities_all_partitions_are_worth_all_of_each(
    data: st.DataObject, count: int, a: int, b: int
) -> None:
    ru = data.draw(st.integers((count - 1) * a + 1, count * a))
    net = data.draw(st.integers((count - 1) * b + 1, count * b))
    shared, factor = Amounts(ru=ru, net=net), Amounts(ru=a, net=b)
    assert partition_count(shared, factor) == count
    worths = [partition_worth(shared, factor, number) for number in range(count)]
    assert sum(worths, Amounts(ru=0, net=0)) == shared


def test_capacities_that_make_different_numbers_of_partitions_are_refused() -> None:
    with pytest.raises(InvalidRules, match=r"into the same number of partitions, got {'ru': 1, 'net': 1} for"):
        partition_count(Amounts(ru=10, net=5), Amounts(ru=1, net=1))


@pytest.mark.parametrize(
    ("shared", "factor", "count"),
    [(10_200, 1_000, 11), (10_000, 1_000, 10), (0, 5, 0), (0.3, 0.1, 3), (0.1 + 0.2, 0.1, 3)],
)
def test_the_count_is_rounded_up(shared: float, factor: float, count: int) -> None:
    assert partition_count(shared, factor) == count


@pytest.mark.parametrize(
    ("shared", "factor", "count"),
    [
        (501, 1, "501"),
        (500.5, 1, "501"),
        (20_000, 1, "20,000"),
        (Amounts(ru=600, net=6), Amounts(ru=1, net=0.01), "600"),
    ],
)
def test_more_than_500_partitions_are_refused(shared: Any, factor: Any, count: str) -> None:
    assert partition_count(500, 1) == 500
    with pytest.raises(
        InvalidRules, match=rf"^shared / factor must be at most 500 .* = {count}: choose a larger factor"
    ):
        partition_count(shared, factor)


def test_a_factor_of_other_capacities_is_refused() -> None:
    with pytest.raises(InvalidRules, match=r"^factor must name the same capacities as shared, got 5 for \{'ru': 10\}"):
        partition_count(Amounts(ru=10), 5)


@pytest.mark.parametrize(
    ("per_second", "reserved", "factor", "wanted"),
    [
        (0, 0, 1_000, 0),
        (1, 0, 1_000, 1),
        (1_000, 0, 1_000, 1),
        (1_001, 0, 1_000, 2),
        (2_000, 2_000, 1_000, 0),
        (1_000, 2_000, 1_000, 0),
        (2_001, 2_000, 1_000, 1),
        (9_999, 2_000, 1_000, 8),
        (1e9, 2_000, 1_000, 10),
        (0.3, 0, 0.1, 3),
        (Amounts(ru=1_500, net=5), 0, Amounts(ru=1_000, net=10), 2),
        (Amounts(ru=1_500, net=45), Amounts(ru=500, net=5), Amounts(ru=1_000, net=10), 4),
        (0, Amounts(ru=500, net=5), Amounts(ru=1_000, net=10), 0),
    ],
)
def test_as_many_are_wanted_as_are_used_beyond_what_is_reserved(
    per_second: Any, reserved: Any, factor: Any, wanted: int
) -> None:
    assert partitions_wanted(per_second, reserved, factor, 10) == wanted


wishes = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40), min_size=1)


@given(wishes, st.integers(0, 60), st.integers(0, 10**9))
def test_shares_are_as_many_as_there_are_and_no_one_has_less_than_another_needs(
    wanted: dict[str, int], count: int, turn: int
) -> None:
    shares = fair_shares(wanted, count, turn)
    assert set(shares) == set(wanted)
    assert sum(shares.values()) == min(count, sum(wanted.values()))
    for one, share in shares.items():
        assert 0 <= share <= wanted[one]
        if share < wanted[one]:
            assert all(other <= share + 1 for other in shares.values())


@given(wishes, st.integers(0, 60), st.integers(0, 10**9))
def test_what_cannot_be_divided_goes_round(wanted: dict[str, int], count: int, turn: int) -> None:
    several = [fair_shares(wanted, count, turn + later) for later in range(len(wanted))]
    waiting = [one for one in wanted if any(shares[one] < wanted[one] for shares in several)]
    totals = {sum(shares[one] for shares in several[: len(waiting)]) for one in waiting}
    assert len(totals) <= 1


def test_turns_are_seen_on_a_small_case() -> None:
    wanted = {"a": 9, "b": 9, "c": 9}
    assert [fair_shares(wanted, 5, turn) for turn in range(3)] == [
        {"a": 2, "b": 2, "c": 1},
        {"c": 2, "a": 2, "b": 1},
        {"b": 2, "c": 2, "a": 1},
    ]
    assert fair_shares({"a": 1, "b": 9, "c": 9}, 5) == {"a": 1, "b": 2, "c": 2}
    assert fair_shares({}, 5) == {}
