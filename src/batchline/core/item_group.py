"""Items of a fanout: 64 to a group, each one bit, and the ids that name them.

    fanout:uuid:index        one item; the uuid is that of its group, the index lies below the group's `upto`

A group's uuid is not looked up, it is read: it holds the group's *slot* (the number of the add that made the group, and
its place in that add) and the fanout's *salt*, so that it is unlike any other's and a made-up one is recognised.

    xxxxxxxx-xxxx-8xxx-yxxx-xxxxxxxxxxxx
    └─ slot, 60 bits ─┘└─ salt, 62 bits ┘       version 8 (RFC 9562), variant y = 8…b
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = [
    "ALL_BITS",
    "GROUP_SIZE",
    "MOST_ITEMS",
    "SALT_BITS",
    "SHARDS",
    "ItemGroup",
    "add_of",
    "count_per_shard",
    "full_mask",
    "group_id",
    "groups_of",
    "indexes_of",
    "item_groups",
    "place_of",
    "shard_of",
    "slot_and_salt",
    "slot_of",
    "upto_of",
]

#: Items in a full group: the bits of one integer.
GROUP_SIZE: Final = 64
#: All items of a full group, as bits.
ALL_BITS: Final = (1 << GROUP_SIZE) - 1
#: Most items in one call.
MOST_ITEMS: Final = 10_000_000
#: Counters a fanout's pending items are spread over, so that acks of neighbours do not wait for each other.
SHARDS: Final = 16
SALT_BITS: Final = 62
PLACE_BITS: Final = 18
PLACES: Final = 1 << PLACE_BITS
VERSION: Final = 8 << 76
VARIANT: Final = 2 << 62


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Up to 64 items of a fanout, in one answer of `add`."""

    fanout: str
    id: str
    #: How many items it has; their indexes are 0 to upto - 1.
    upto: int

    def items(self) -> Iterator[str]:
        """The ids of its items."""
        start = f"{self.fanout}:{self.id}:"
        return (f"{start}{index}" for index in range(self.upto))

    @property
    def mask(self) -> int:
        """All its items, as bits."""
        return full_mask(self.upto)


def item_groups(fanout: str, add: int, salt: int, count: int) -> list[ItemGroup]:
    """The groups that an add of so many items makes."""
    places = range(groups_of(count))
    return [ItemGroup(fanout, group_id(slot_of(add, place), salt), upto_of(count, place)) for place in places]


def groups_of(count: int) -> int:
    """How many groups so many items need."""
    return -(-count // GROUP_SIZE)


def upto_of(count: int, place: int) -> int:
    """How many items the group at a place has, of an add of `count`; 0 past the last."""
    return max(0, min(GROUP_SIZE, count - place * GROUP_SIZE))


def full_mask(upto: int) -> int:
    """The bits of all items of a group."""
    return (1 << upto) - 1


@lru_cache(maxsize=1024)  # whole groups, and single items, come again and again
def indexes_of(mask: int) -> tuple[int, ...]:
    """The indexes of the bits that are set."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


def slot_of(add: int, place: int) -> int:
    """Where a group is kept."""
    return add << PLACE_BITS | place


def add_of(slot: int) -> int:
    """The number of the add that made the group."""
    return slot >> PLACE_BITS


def place_of(slot: int) -> int:
    """The place of a group in its add."""
    return slot & (PLACES - 1)


def shard_of(slot: int) -> int:
    """Which of the fanout's counters counts the group; neighbours have different ones, and so have small adds."""
    return (add_of(slot) + place_of(slot)) % SHARDS


def count_per_shard(add: int, count: int) -> dict[int, int]:
    """How many items of an add each shard counts."""
    places = groups_of(count)
    counts = {}
    for first in range(min(places, SHARDS)):
        full_groups = len(range(first, places, SHARDS))
        counts[shard_of(slot_of(add, first))] = full_groups * GROUP_SIZE
    counts[shard_of(slot_of(add, places - 1))] -= places * GROUP_SIZE - count
    return counts


def group_id(slot: int, salt: int) -> str:
    """The uuid of a group."""
    digits = f"{(slot >> 12) << 80 | VERSION | (slot & 0xFFF) << 64 | VARIANT | salt:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def slot_and_salt(group: str) -> tuple[int, int] | None:
    """What a group's uuid holds, or None for a text that is the uuid of no group."""
    try:
        number = int(group.replace("-", ""), 16)
    except ValueError:
        return None
    slot, salt = (number >> 80) << 12 | number >> 64 & 0xFFF, number & ((1 << SALT_BITS) - 1)
    # Written as we write it, or it is another's: this checks version and variant, dashes and case at once.
    return (slot, salt) if 0 <= number < 1 << 128 and group_id(slot, salt) == group else None
