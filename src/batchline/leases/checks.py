"""What lease managers refuse, whatever keeps the leases."""

from collections.abc import Sequence
from typing import Final

from batchline.core.name import check_name
from batchline.core.partitions import MOST_PARTITIONS, Asking
from batchline.errors import InvalidInput, InvalidRules, shown

__all__ = [
    "LONGEST_LEASE_MS",
    "acquired_from",
    "check_asking",
    "check_lease",
    "check_provision",
    "distinct_partitions",
]

LONGEST_LEASE_MS: Final = 24 * 3_600_000
#: Most characters of what says how a resource is divided.
LONGEST_SIZE: Final = 2_000


def check_provision(count: object, size: object) -> None:
    """So many partitions can be, and their size is a text that every keeper can keep."""
    if type(count) is not int or not 0 <= count <= MOST_PARTITIONS:
        raise InvalidRules(f"partitions must be 0 to {MOST_PARTITIONS}, got {shown(count)}")
    if not isinstance(size, str) or not 1 <= len(size) <= LONGEST_SIZE or not size.isprintable():
        raise InvalidInput(f"size must be a text of 1 to {LONGEST_SIZE:,} printable characters, got {shown(size)}")


def check_lease(lease_ms: object, shortest_ms: int = 1, longest_ms: int = LONGEST_LEASE_MS) -> None:
    """A lease lasts for a number of milliseconds that its keeper can do."""
    if type(lease_ms) is not int or not shortest_ms <= lease_ms <= longest_ms:
        raise InvalidRules(f"lease_ms must be {shortest_ms:,} to {longest_ms:,}, got {shown(lease_ms)}")


def acquired_from(instance: object, partitions: Sequence[int], most: object) -> list[int]:
    """The partitions of which an instance wants at most so many, each once, in its order; none if it wants none."""
    numbers = distinct_partitions(instance, partitions)
    if type(most) is not int or most < 0:
        raise InvalidInput(f"most must be a number of partitions, got {shown(most)}")
    return numbers if most else []


def check_asking(asking: object) -> None:
    """An instance can ask for that."""
    if not isinstance(asking, Asking):
        raise InvalidInput(f"expected an Asking, got {shown(asking)}")
    check_name("instance", asking.instance)
    if type(asking.wanted) is not int or not 0 <= asking.wanted <= MOST_PARTITIONS:
        raise InvalidInput(f"wanted must be 0 to {MOST_PARTITIONS} partitions, got {shown(asking.wanted)}")
    distinct_partitions(asking.instance, asking.held)


def distinct_partitions(instance: object, partitions: Sequence[int]) -> list[int]:
    """The partitions that an instance names, each once, in its order."""
    check_name("instance", instance)
    for number in partitions:
        if type(number) is not int or not 0 <= number < MOST_PARTITIONS:
            raise InvalidInput(f"a partition must be 0 to {MOST_PARTITIONS - 1}, got {shown(number)}")
    return list(dict.fromkeys(partitions))
