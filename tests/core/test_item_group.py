"""Groups of items: the uuids that are read and not looked up, and how items are spread over counters."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from batchline import ItemGroup
from batchline.core.item_group import (
    GROUP_SIZE,
    MOST_ITEMS,
    SALT_BITS,
    SHARDS,
    add_of,
    count_per_shard,
    full_mask,
    group_id,
    groups_of,
    indexes_of,
    item_groups,
    place_of,
    shard_of,
    slot_and_salt,
    slot_of,
    upto_of,
)

ADDS = st.integers(0, (1 << 42) - 1)
PLACES = st.integers(0, (1 << 18) - 1)
SALTS = st.integers(0, (1 << SALT_BITS) - 1)
COUNTS = st.integers(1, 3 * SHARDS * GROUP_SIZE) | st.integers(1, MOST_ITEMS)


@given(ADDS, PLACES, SALTS)
def test_a_uuid_holds_the_slot_and_the_salt(add: int, place: int, salt: int) -> None:
    slot = slot_of(add, place)
    assert (add_of(slot), place_of(slot)) == (add, place)
    assert slot_and_salt(group_id(slot, salt)) == (slot, salt)


@given(ADDS, PLACES, SALTS)
def test_a_uuid_is_one_of_version_8_as_rfc_9562_has_it(add: int, place: int, salt: int) -> None:
    text = group_id(slot_of(add, place), salt)
    read = uuid.UUID(text)
    assert (read.version, read.variant, str(read)) == (8, uuid.RFC_4122, text)


@given(st.tuples(ADDS, PLACES), st.tuples(ADDS, PLACES), SALTS)
def test_uuids_of_a_fanout_sort_as_their_groups_were_added(
    one: tuple[int, int], other: tuple[int, int], salt: int
) -> None:
    assert (group_id(slot_of(*one), salt) < group_id(slot_of(*other), salt)) == (one < other)


@given(st.uuids())
def test_a_uuid_of_another_version_is_no_groups(other: uuid.UUID) -> None:
    read = slot_and_salt(str(other))
    assert (read is not None) == (other.version == 8 and other.variant == uuid.RFC_4122)


@given(st.text() | st.text("0123456789abcdef-_ +x", min_size=30, max_size=40))
def test_a_text_that_is_no_uuid_is_no_groups(other: str) -> None:
    assert slot_and_salt(other) is None


def test_a_group_has_one_text_only() -> None:
    text = group_id(slot_of(5, 7), 0xABCDEF)
    assert slot_and_salt(text) == (slot_of(5, 7), 0xABCDEF)
    for other in (text.upper(), f"{{{text}}}", f"urn:uuid:{text}", text.replace("-", ""), f"{text} "):
        assert slot_and_salt(other) is None


@given(st.integers(60, 500), SALTS)
def test_a_uuid_with_digits_too_many_is_no_groups(bits: int, salt: int) -> None:
    assert slot_and_salt(group_id(1 << bits, salt)) is None


@given(COUNTS)
def test_groups_have_64_items_each_but_the_last(count: int) -> None:
    places = groups_of(count)
    looked_at = [place for place in (0, places // 2, places - 2, places - 1, places, places + 1) if place >= 0]
    uptos = [upto_of(count, place) for place in looked_at]
    assert uptos[-3:] == [count - (places - 1) * GROUP_SIZE, 0, 0]
    assert 1 <= uptos[-3] <= GROUP_SIZE
    assert set(uptos[:-3]) <= {GROUP_SIZE, uptos[-3]}


@given(ADDS, SALTS, st.integers(1, 1000))
def test_groups_of_an_add_hold_all_its_items(add: int, salt: int, count: int) -> None:
    groups = item_groups("f:1", add, salt, count)
    items = [item for group in groups for item in group.items()]
    assert len(items) == len(set(items)) == count
    slots = [slot_of(add, place) for place in range(len(groups))]
    assert [slot_and_salt(group.id) for group in groups] == [(slot, salt) for slot in slots]


def test_a_group_names_its_items_and_their_bits() -> None:
    group = ItemGroup("f", "u", 3)
    assert (list(group.items()), group.mask) == (["f:u:0", "f:u:1", "f:u:2"], 0b111)
    assert (ItemGroup("f", "u", 64).mask, full_mask(0), full_mask(1)) == (2**64 - 1, 0, 1)


@given(st.sets(st.integers(0, 63)))
def test_indexes_are_the_bits_that_are_set(indexes: set[int]) -> None:
    assert list(indexes_of(sum(1 << index for index in indexes))) == sorted(indexes)


@given(ADDS, st.integers(1, 5000))
def test_counters_count_what_their_groups_have(add: int, count: int) -> None:
    expected: dict[int, int] = {}
    for place in range(groups_of(count)):
        shard = shard_of(slot_of(add, place))
        expected[shard] = expected.get(shard, 0) + upto_of(count, place)
    assert count_per_shard(add, count) == expected


@given(ADDS, COUNTS)
def test_counters_count_every_item_and_none_is_empty(add: int, count: int) -> None:
    counts = count_per_shard(add, count)
    assert sum(counts.values()) == count
    assert len(counts) == min(groups_of(count), SHARDS)
    assert all(0 <= shard < SHARDS and counted > 0 for shard, counted in counts.items())


@given(ADDS, PLACES)
def test_neighbours_have_different_counters(add: int, place: int) -> None:
    assert shard_of(slot_of(add, place)) != shard_of(slot_of(add, place + 1))
    assert shard_of(slot_of(add, 0)) != shard_of(slot_of(add + 1, 0))


def test_the_largest_add_has_room_in_its_slots() -> None:
    assert groups_of(MOST_ITEMS) < 1 << 18
