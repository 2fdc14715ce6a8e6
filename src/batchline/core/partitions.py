"""Shared capacity in partitions: how many there are, what each is worth, how many one needs, and how many are fair."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from batchline.core.cost import Amount, Amounts, largest_ratio, part_of, same_names
from batchline.errors import InvalidRules

__all__ = ["MOST_PARTITIONS", "Asking", "fair_shares", "partition_count", "partition_worth", "partitions_wanted"]

MOST_PARTITIONS: Final = 500


@dataclass(frozen=True, slots=True)
class Asking:
    """What an instance says of itself: how many partitions it wants, and which it holds."""

    instance: str
    wanted: int
    held: tuple[int, ...] = ()


def partition_count(shared: Amount, factor: Amount) -> int:
    """Into how many partitions a capacity is divided: the last may be worth less than a factor."""
    if not same_names(shared, factor):
        raise InvalidRules(f"factor must name the same capacities as shared, got {factor!r} for {shared!r}")
    counts = {math.ceil(part / part_of(factor, name) - 1e-9) for name, part in _parts(shared)}
    if len(counts) > 1:
        raise InvalidRules(
            f"factor must divide every capacity into the same number of partitions, got {factor!r} for {shared!r}"
        )
    count = counts.pop()
    if count > MOST_PARTITIONS:
        raise InvalidRules(
            f"shared / factor must be at most {MOST_PARTITIONS} partitions, got {shared!r} / {factor!r} = {count:,}: "
            "choose a larger factor"
        )
    return count


def _parts(amount: Amount) -> list[tuple[str | None, float]]:
    return list(amount.items()) if isinstance(amount, Amounts) else [(None, amount)]


def partition_worth(shared: Amount, factor: Amount, number: int) -> Any:
    """What holding a partition is worth: one factor, or what is left for the last; all together exactly `shared`."""
    if isinstance(shared, Amounts):
        return Amounts({name: _worth(part_of(shared, name), part_of(factor, name), number) for name in shared})
    return _worth(shared, part_of(factor, None), number)


def _worth(shared: float, factor: float, number: int) -> float:
    return min(factor, max(shared - number * factor, 0))


def partitions_wanted(per_second: Amount, reserved: Amount, factor: Amount, count: int) -> int:
    """How many partitions it takes to use so much a second beyond what is reserved."""
    if isinstance(factor, Amounts):
        beyond: Amount = Amounts({name: max(part_of(per_second, name) - part_of(reserved, name), 0) for name in factor})
    else:
        beyond = max(part_of(per_second, None) - part_of(reserved, None), 0)
    ratio = largest_ratio(beyond, factor)
    return count if ratio >= count else math.ceil(ratio - 1e-9)


def fair_shares(wanted: Mapping[str, int], count: int, turn: int = 0) -> dict[str, int]:
    """How many of the partitions each instance may have: as many as it wants, or else as many as any other.

    What cannot be divided goes to some, and with each `turn` to others.
    """
    shares: dict[str, int] = {}
    left = count
    waiting = sorted(wanted, key=lambda instance: (wanted[instance], instance))
    while waiting and wanted[waiting[0]] <= left // len(waiting):
        instance = waiting.pop(0)
        shares[instance] = wanted[instance]
        left -= wanted[instance]
    if waiting:
        each, over = divmod(left, len(waiting))
        ring = _from(sorted(waiting), turn * over)
        shares |= {instance: each + (place < over) for place, instance in enumerate(ring)}
    return shares


def _from(ring: Sequence[str], begin: int) -> list[str]:
    begin %= len(ring)
    return [*ring[begin:], *ring[:begin]]
