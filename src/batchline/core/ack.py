"""What an ack names, and what it answers: item ids and groups with masks, combined to one mask per group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from batchline.core.item_group import ALL_BITS, GROUP_SIZE, MOST_ITEMS, ItemGroup, indexes_of, slot_and_salt
from batchline.core.name import check_name
from batchline.errors import BatchlineError, InvalidCount, InvalidName, MalformedItem, UnknownGroup, UnknownItem, shown

__all__ = ["AckOutcome", "Asked", "Collected", "Item", "ItemError", "SealOutcome", "collect_items"]

#: An item id `fanout:uuid:index`; or a group, as `add` gave it or by its uuid, with a mask of its items.
Item = str | tuple["ItemGroup | str", int]

BITS: Final = {str(index): 1 << index for index in range(GROUP_SIZE)}
EXPECTED: Final = "expected fanout:uuid:index, or a group with a mask"


@dataclass(frozen=True, slots=True)
class ItemError:
    """An item that did not count, and why."""

    #: The item's id, or the group and mask, as it was given.
    item: object
    error: BatchlineError


@dataclass(frozen=True, slots=True)
class AckOutcome:
    """What an ack, or a fail, did."""

    #: Items that were pending and now are done.
    changed: int
    #: Items that were done before, or named twice.
    repeated: int
    #: Ids of the fanouts that this call, and no other, completed.
    completed: tuple[str, ...]
    #: Ids of the fanouts that this call, and no other, made fail.
    failed: tuple[str, ...]
    errors: tuple[ItemError, ...]


@dataclass(frozen=True, slots=True)
class SealOutcome:
    """What a seal did."""

    fanout: str
    #: Whether this call, and no other, completed the fanout.
    completed: bool
    #: Ids of its parents that this call, and no other, completed or made fail.
    parents_completed: tuple[str, ...] = ()
    parents_failed: tuple[str, ...] = ()


class Asked(NamedTuple):
    """Items of one group, as bits."""

    slot: int
    salt: int
    #: The fanout that the ids name; None for a group that was given by its uuid alone.
    fanout: str | None
    group: str
    mask: int
    #: The pair that was given; None if it was item ids.
    pair: object = None

    def refused(self, mask: int, error: BatchlineError) -> list[ItemError]:
        """An error for each item id, or one for the pair that was given."""
        if self.pair is not None:
            return [ItemError(self.pair, error)]
        return [ItemError(f"{self.fanout}:{self.group}:{index}", error) for index in indexes_of(mask)]


@dataclass(frozen=True, slots=True)
class Collected:
    """What a call names: what to look up, what is no item, and how many were named twice."""

    asked: list[Asked]
    errors: list[ItemError]
    repeated: int


def collect_items(items: Iterable[object]) -> Collected:
    """Combine item ids to one mask per group; whatever names no item is an error of its own.

    A mapping from `fanout:uuid` to a mask has them combined already.
    """
    collected = _collect_masks(items) if isinstance(items, Mapping) else _collect_ids(items)
    if sum(one.mask.bit_count() for one in collected.asked) > MOST_ITEMS:
        raise _too_many()
    return collected


def _collect_masks(items: Mapping[object, object]) -> Collected:
    errors: list[ItemError] = []
    found = [_of_mask(group, mask, errors) for group, mask in items.items()]
    return Collected([one for one in found if one is not None], errors, 0)


def _of_mask(group: object, mask: object, errors: list[ItemError]) -> Asked | None:
    if isinstance(group, str) and type(mask) is int and 0 < mask <= ALL_BITS:
        return _of_group(group, mask, None, errors)
    return _of_pair((group, mask), errors)


def _collect_ids(items: Iterable[object]) -> Collected:
    masks: dict[str, int] = {}
    pairs: list[object] = []
    errors: list[ItemError] = []
    repeated = 0
    for count, item in enumerate(items, 1):
        if count > MOST_ITEMS:
            raise _too_many()
        if not isinstance(item, str):
            pairs.append(item)
            continue
        group, colon, index = item.rpartition(":")
        bit = BITS.get(index) if colon else None
        if bit is None:
            errors.append(ItemError(item, _no_index(item, index)))
            continue
        mask = masks.get(group, 0)
        repeated += mask & bit != 0
        masks[group] = mask | bit
    asked = [_of_group(group, mask, None, errors) for group, mask in masks.items()]
    asked += [_of_pair(pair, errors) for pair in pairs]
    return Collected([one for one in asked if one is not None], errors, repeated)


def _too_many() -> InvalidCount:
    return InvalidCount(f"at most {MOST_ITEMS:,} items in one call, got more; nothing was changed")


def _no_index(item: str, index: str) -> BatchlineError:
    if index.isascii() and index.isdecimal() and str(int(index[:30])) == index and item.count(":") > 1:
        return UnknownItem(f"a group has at most {GROUP_SIZE} items, got the index {index} in {item[:300]!r}")
    return MalformedItem(f"{EXPECTED}, got {item[:300]!r}")


def _of_group(name: str, mask: int, pair: object, errors: list[ItemError]) -> Asked | None:
    """The group that `fanout:uuid` names, or `uuid` where a pair was given."""
    fanout, colon, group = name.rpartition(":")
    read = slot_and_salt(group)
    named_well = _is_name(fanout) if fanout else pair is not None and not colon
    if read is not None and named_well:
        return Asked(*read, fanout or None, group, mask, pair)
    error: BatchlineError
    if named_well and _is_uuid(group):
        error = UnknownGroup(f"no group {group!r} was ever given out")
    else:
        error = MalformedItem(f"{EXPECTED}, got {name[:300]!r}")
    named = [pair] if pair is not None else [f"{name}:{index}" for index in indexes_of(mask)]
    errors += [ItemError(item, error) for item in named]
    return None


@lru_cache(maxsize=1024)
def _is_name(fanout: str) -> bool:
    """Whether a fanout can have this id: a database would refuse the whole call for a character that it cannot hold."""
    try:
        check_name("the id of a fanout", fanout)
    except InvalidName:
        return False
    return True


def _is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and not set(text) - set("0123456789abcdef-")


def _of_pair(pair: object, errors: list[ItemError]) -> Asked | None:
    match pair:
        case (ItemGroup() | str() as group, int() as mask) if not isinstance(mask, bool):
            if 0 < mask <= ALL_BITS:
                name = group if isinstance(group, str) else f"{group.fanout}:{group.id}"
                return _of_group(name, mask, pair, errors)
            errors.append(ItemError(pair, _no_mask(mask)))
        case _:
            errors.append(ItemError(pair, MalformedItem(f"{EXPECTED}, got {shown(pair)}")))
    return None


def _no_mask(mask: int) -> BatchlineError:
    if mask > ALL_BITS:
        return UnknownItem(f"a group has at most {GROUP_SIZE} items, got a mask of {mask.bit_length()} bits")
    return MalformedItem(f"expected a mask with a bit for each item, got {shown(mask)}")
