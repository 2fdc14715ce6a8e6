"""Costs and capacities: a number, or, where there are several capacities at once, a number for each by its name."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from batchline.errors import BatchlineError, shown

__all__ = [
    "Amounts",
    "Cost",
    "amount_of",
    "exceeds",
    "largest_ratio",
    "least",
    "most",
    "names_of",
    "part_of",
    "same_names",
]

#: A cost as people write it.
Cost = float | Mapping[str, float]
#: Most that a cost or a capacity can be: sums of them stay exact enough.
LARGEST: Final = 1e15


class Amounts(dict[str, float]):
    """An amount of each of several capacities; what is not named is 0. Adds, subtracts and scales as a number does.

    A plain number among them is the amount of a capacity without a name.
    """

    def __add__(self, other: "Amounts | float") -> "Amounts":
        if not isinstance(other, Amounts):
            other = Amounts({"": other} if other else {})
        return Amounts({name: self.get(name, 0) + other.get(name, 0) for name in self | other})

    __radd__ = __add__

    def __sub__(self, other: "Amounts | float") -> "Amounts":
        return self + other * -1

    def __rsub__(self, other: float) -> "Amounts":
        return self * -1 + other

    def __mul__(self, factor: float) -> "Amounts":
        return Amounts({name: amount * factor for name, amount in self.items()})

    def __bool__(self) -> bool:
        return any(self.values())

    def __hash__(self) -> int:  # type: ignore[override] # it is never changed
        return hash(frozenset(self.items()))


#: A cost as it is kept.
Amount = float | Amounts


def amount_of(name: str, cost: object, refused: type[BatchlineError]) -> Any:
    """A cost or capacity, checked: a number from 0 on, or a mapping of names to such numbers."""
    if isinstance(cost, Mapping):
        if not cost or not all(isinstance(key, str) and key for key in cost):
            raise refused(f"{name} must name at least one capacity, each by a text, got {shown(cost)}")
        return Amounts({key: _number(f"{name}[{key!r}]", value, refused) for key, value in cost.items()})
    return _number(name, cost, refused)


def _number(name: str, value: object, refused: type[BatchlineError]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise refused(f"{name} must be a number from 0 to {LARGEST:,.0f}, got {shown(value)}")
    return value


def names_of(amount: Amount) -> tuple[str, ...] | None:
    """The names of several capacities; None for a single one."""
    return tuple(amount) if isinstance(amount, Amounts) else None


def same_names(one: Amount, other: Amount) -> bool:
    """Whether both are amounts of the same capacities."""
    return set(names_of(one) or (None,)) == set(names_of(other) or (None,))


def part_of(amount: Amount, name: str | None) -> float:
    """The amount of one capacity."""
    return amount.get(name or "", 0) if isinstance(amount, Amounts) else amount


def _each(amounts: Iterable[Amount], choose: Any) -> Any:
    several = list(amounts)
    names = [name for amount in several if isinstance(amount, Amounts) for name in amount]
    if not names:
        return choose([part_of(amount, None) for amount in several])  # one of several capacities may name none
    return Amounts({name: choose([part_of(amount, name) for amount in several]) for name in dict.fromkeys(names)})


def least(*amounts: Amount) -> Any:
    """The smallest amount of each capacity."""
    return _each(amounts, min)


def most(*amounts: Amount) -> Any:
    """The largest amount of each capacity."""
    return _each(amounts, max)


def exceeds(cost: Amount, capacity: Amount) -> bool:
    """Whether any of the capacities is less than the cost."""
    if not isinstance(cost, Amounts) and not isinstance(capacity, Amounts):
        return cost > capacity
    return any(part_of(cost, name) > part_of(capacity, name) for name in names_of(cost) or (None,))


def largest_ratio(cost: Amount, capacity: Amount) -> float:
    """How many times the capacity the cost is, for the capacity it uses most of."""
    parts = ((part_of(cost, name), part_of(capacity, name)) for name in names_of(cost) or (None,))
    return max((part / whole if whole else math.inf for part, whole in parts if part > 0), default=0.0)
