"""Costs and capacities: numbers, or numbers by name."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import (
    LARGEST,
    Amounts,
    amount_of,
    exceeds,
    largest_ratio,
    least,
    most,
    names_of,
    part_of,
    same_names,
)
from batchline.errors import InvalidOperation, InvalidRules

numbers = st.integers(0, 1_000)
amounts = st.dictionaries(st.sampled_from(["ru", "net", "cpu"]), numbers, min_size=1).map(Amounts)
NAMES = ("ru", "net", "cpu")


@pytest.mark.parametrize("cost", [0, 1, 2.5, LARGEST, {"ru": 0}, {"ru": 1, "net": 2.5}])
def test_numbers_and_mappings_of_names_to_numbers_are_costs(cost: Any) -> None:
    amount = amount_of("cost", cost, InvalidOperation)
    assert amount == cost
    assert isinstance(amount, Amounts) == isinstance(cost, dict)


@pytest.mark.parametrize(
    "cost",
    [-1, -0.001, True, None, "5", math.nan, math.inf, LARGEST * 2, 10**5_000, [1], 1j],
    ids=lambda cost: type(cost).__name__,
)
@pytest.mark.parametrize("named", [False, True])
def test_anything_else_is_refused_by_name_and_value(cost: Any, named: bool) -> None:
    expected = r"the cost\['ru'\] must be a number from 0 to" if named else "the cost must be a number from 0 to"
    with pytest.raises(InvalidRules, match=f"^{expected} .*, got .+"):
        amount_of("the cost", {"ru": cost} if named else cost, InvalidRules)


@pytest.mark.parametrize("cost", [{}, {1: 2}, {"": 2}, {None: 2}], ids=str)
def test_names_are_texts_and_there_is_at_least_one(cost: Any) -> None:
    with pytest.raises(InvalidOperation, match=r"^cost must name at least one capacity, each by a text, got \{"):
        amount_of("cost", cost, InvalidOperation)


@given(amounts, amounts, numbers)
def test_amounts_add_subtract_and_scale_by_name(one: Amounts, other: Amounts, factor: int) -> None:
    for name in NAMES:
        mine, theirs = one.get(name, 0), other.get(name, 0)
        assert part_of(one + other, name) == mine + theirs
        assert part_of(one - other, name) == mine - theirs
        assert part_of(one * factor, name) == mine * factor
        assert part_of(least(one, other), name) == min(mine, theirs)
        assert part_of(most(one, other), name) == max(mine, theirs)
    assert exceeds(one, other) == any(one.get(name, 0) > other.get(name, 0) for name in NAMES)
    assert sum([one, other, one]) == one + other + one
    assert bool(one) == any(one.values())
    assert not one - one


@given(amounts)
def test_nothing_as_a_number_adds_no_name(one: Amounts) -> None:
    assert one + 0 == 0 + one == one - 0 == one
    assert 0 - one == one * -1


def test_a_number_among_amounts_is_that_of_a_capacity_without_a_name() -> None:
    assert Amounts(ru=1) + 5 == 5 + Amounts(ru=1) == {"ru": 1, "": 5}
    assert 5 - Amounts(ru=1) == {"ru": -1, "": 5}


@given(numbers, numbers)
def test_single_amounts_are_compared_as_numbers(one: int, other: int) -> None:
    assert exceeds(one, other) == (one > other)
    assert (least(one, other), most(one, other)) == (min(one, other), max(one, other))


def test_the_same_amounts_are_one_in_a_set() -> None:
    assert len({Amounts(ru=1, net=2), Amounts(net=2, ru=1), Amounts(ru=1.0, net=2)}) == 1


@pytest.mark.parametrize(
    ("cost", "capacity", "ratio"),
    [
        (10, 4, 2.5),
        (0, 0, 0.0),
        (1, 0, math.inf),
        (Amounts(ru=10, net=9), Amounts(ru=5, net=3), 3.0),
        (Amounts(ru=0, net=1), Amounts(ru=0, net=4), 0.25),
        (Amounts(cpu=1), Amounts(ru=5), math.inf),
    ],
)
def test_ratios_are_those_of_the_capacity_used_most(cost: Any, capacity: Any, ratio: float) -> None:
    assert largest_ratio(cost, capacity) == ratio


def test_names_are_the_same_in_any_order() -> None:
    assert names_of(5) is None
    assert names_of(Amounts(ru=1, net=2)) == ("ru", "net")
    assert same_names(1, 2)
    assert same_names(Amounts(ru=1, net=2), Amounts(net=5, ru=0))
    assert not same_names(1, Amounts(ru=1))
    assert not same_names(Amounts(ru=1), Amounts(ru=1, net=1))


def test_amounts_that_name_no_capacity_compare_as_nothing() -> None:
    assert (most(Amounts(), 0), least(Amounts(), 3)) == (0, 0)
