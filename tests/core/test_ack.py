"""What an ack names: the same masks and errors as reading every id by itself."""

from itertools import repeat
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.ack import Asked, collect_items
from batchline.core.item_group import MOST_ITEMS, ItemGroup, group_id, slot_of
from batchline.errors import BatchlineError, InvalidCount, MalformedItem, UnknownGroup, UnknownItem

GROUPS = [group_id(slot_of(add, place), salt) for add, place, salt in ((1, 0, 5), (1, 1, 5), (2, 0, 6))]
UUID4 = "9f86d081-884c-4d65-9a2f-eaa0c55ad015"
FANOUTS = st.sampled_from(["f", "g", "a:b", ":", "😀", "", "nul\0", "\ud800", "x" * 256])
UUIDS = st.sampled_from([*GROUPS, UUID4, UUID4.upper(), "", "u"])
INDEXES = st.integers(0, 70).map(str) | st.sampled_from(["-1", "01", "x", "", "²", "9" * 40])
IDS = st.tuples(FANOUTS, UUIDS, INDEXES).map(":".join) | st.text(max_size=5)


def judged(item: str) -> tuple[str, str, int] | type[BatchlineError]:
    """An id read by itself: fanout, group and index; or the error."""
    if item.count(":") < 2:
        return MalformedItem
    fanout, group, index = item.rsplit(":", 2)
    if not (index.isascii() and index.isdecimal() and (index == "0" or index[0] != "0")) or len(index) > 30:
        return MalformedItem
    if int(index) > 63:
        return UnknownItem
    if not 1 <= len(fanout) <= 255 or "\0" in fanout or "\ud800" in fanout or group not in (*GROUPS, UUID4):
        return MalformedItem
    return UnknownGroup if group == UUID4 else (fanout, group, int(index))


@given(st.lists(IDS, max_size=60))
@example(["0", "0", ":0"])
def test_ids_are_combined_to_masks_as_if_each_was_read_by_itself(ids: list[str]) -> None:
    collected = collect_items(ids)
    masks: dict[tuple[str, str], int] = {}
    errors: list[tuple[str, type[BatchlineError]]] = []
    repeated, seen = 0, set[str]()
    for item in ids:
        found = judged(item)
        if item in seen and ":" in item and item.rpartition(":")[2] in {str(index) for index in range(64)}:
            repeated += 1
        elif isinstance(found, tuple):
            masks[found[:2]] = masks.get(found[:2], 0) | 1 << found[2]
        else:
            errors.append((item, found))
        seen.add(item)
    assert {(one.fanout, one.group): one.mask for one in collected.asked} == masks
    assert len(collected.asked) == len(masks)
    assert sorted((str(one.item), one.error.__class__.__name__) for one in collected.errors) == sorted(
        (item, kind.__name__) for item, kind in errors
    )
    assert collected.repeated == repeated
    # Nothing is silent: each id is asked for, an error, or named twice.
    assert sum(one.mask.bit_count() for one in collected.asked) + len(collected.errors) + repeated == len(ids)


@given(st.sampled_from(GROUPS), st.integers(1, 2**64 - 1))
def test_pairs_are_asked_for_as_they_are(group: str, mask: int) -> None:
    of_group = ItemGroup("f", group, 64)
    for pair, fanout in (((group, mask), None), ((f"f:{group}", mask), "f"), ((of_group, mask), "f")):
        (asked,) = collect_items([pair]).asked
        assert (asked.fanout, asked.group, asked.mask, asked.pair) == (fanout, group, mask, pair)


@given(st.dictionaries(st.tuples(st.sampled_from(["f", "a:b"]), st.sampled_from(GROUPS)), st.integers(1, 2**64 - 1)))
def test_a_mapping_has_its_masks_combined_already(masks: dict[tuple[str, str], int]) -> None:
    collected = collect_items({":".join(name): mask for name, mask in masks.items()})
    assert {(one.fanout, one.group): one.mask for one in collected.asked} == masks
    assert (collected.errors, collected.repeated) == ([], 0)


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.lists(st.integers(), max_size=3))
def test_anything_else_is_malformed(item: object) -> None:
    collected = collect_items([item])
    assert collected.asked == []
    assert [(one.item is item, type(one.error)) for one in collected.errors] == [(True, MalformedItem)]


def test_a_refusal_is_told_of_each_id_or_of_the_pair() -> None:
    error = UnknownItem("no")
    ids = Asked(1, 5, "f", "u", 0b101)
    assert [(one.item, one.error) for one in ids.refused(0b101, error)] == [("f:u:0", error), ("f:u:2", error)]
    pair: Any = ("u", 0b101)
    assert [one.item for one in Asked(1, 5, None, "u", 0b101, pair).refused(0b101, error)] == [pair]


def test_more_than_ten_million_items_are_refused_as_soon_as_they_have_come() -> None:
    came = iter(repeat(f"f:{GROUPS[0]}:0", MOST_ITEMS + 2))
    with pytest.raises(InvalidCount, match="at most 10,000,000 items in one call, got more; nothing was changed"):
        collect_items(came)
    assert len(list(came)) <= 1


def test_as_many_items_as_a_call_may_have_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchline.core.ack.MOST_ITEMS", 100)
    assert collect_items(repeat(f"f:{GROUPS[0]}:0", 100)).repeated == 99
    named: list[object] = [f"f:{GROUPS[0]}:0", (GROUPS[0], 1), "nonsense", 5]
    for item in named:
        with pytest.raises(InvalidCount):
            collect_items(repeat(item))


def test_messages_show_no_more_than_a_line_or_two() -> None:
    items: list[Any] = ["x" * 10_000, "x" * 10_000 + f":{UUID4}:5", ["y" * 10_000], 10**5000, (GROUPS[0], -(10**5000))]
    errors = collect_items(items).errors
    assert len(errors) == len(items)
    assert all(len(str(one.error)) < 500 for one in errors)


def test_a_mapping_or_pairs_of_more_than_ten_million_items_are_refused() -> None:
    whole = (1 << 64) - 1
    names = [group_id(slot_of(1, place), 5) for place in range(MOST_ITEMS // 64 + 1)]
    for items in ({f"f:{name}": whole for name in names}, [(name, whole) for name in names]):
        with pytest.raises(InvalidCount, match="at most 10,000,000 items in one call, got more; nothing was changed"):
            collect_items(items)
