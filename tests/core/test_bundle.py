"""Bundles: whatever is created together is kept whole, and stands where its buckets are."""

from itertools import count

from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.bundle import LARGEST_BUNDLE, Bundle, Draft, draft_bundles, narrowed, unpack_bundle
from batchline.core.item_group import full_mask, indexes_of
from batchline.core.message import CheckedMessages, bucket_of, made_id
from batchline.core.spot import segment_of
from batchline.core.topic import Topic

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
BODIES = st.binary(max_size=8) | st.sampled_from([bytes(20_000), bytes(LARGEST_BUNDLE), bytes(LARGEST_BUNDLE + 1)])
MESSAGES = st.lists(st.tuples(st.none() | NAMES, st.integers(0, 3), BODIES, st.integers(-1, 1)), max_size=150)
#: Which places of a bundle: all, or some.
MASKS = st.just(full_mask(64)) | st.integers(0, full_mask(64))
BUCKETS = st.sampled_from([1, 7, 8, 89, 1024])


def checked(parts: list[tuple[str | None, int, bytes, int]]) -> CheckedMessages:
    """Messages; where a name stands a second time, one is to be made."""
    free: set[str | None] = {name for name, _, _, _ in parts if name}
    messages = CheckedMessages([], [], [], [])
    for name, at_ms, body, turn in parts:
        messages.ids.append(name if name and name in free else "")
        messages.at_ms.append(at_ms)
        messages.bodies.append(body)
        messages.turns.append(turn)
        free.discard(name)
    return messages


def drafted(messages: CheckedMessages, buckets: int) -> list[Draft]:
    topic = Topic("topic", buckets=buckets, number=3)
    return draft_bundles(messages, range(len(messages.ids)), topic, 4, 5, count(1_000))


@given(parts=MESSAGES, buckets=BUCKETS)
@example(parts=[(f"m{n}", 0, b"", 0) for n in range(200)], buckets=1024)
@example(parts=[(None, 0, b"", 0)] * 129, buckets=1024)
def test_every_message_is_in_a_bundle_once(parts: list[tuple[str | None, int, bytes, int]], buckets: int) -> None:
    messages = checked(parts)
    drafts = drafted(messages, buckets)
    assert sorted(index for draft in drafts for index in draft.indexes) == list(range(len(messages.ids)))
    assert len({draft.bundle.number for draft in drafts}) == len(drafts)
    for draft in drafts:
        bundle = draft.bundle
        assert (bundle.topic, bundle.producer_group, bundle.created_ms) == (3, 4, 5)
        for place, index in enumerate(draft.indexes):
            assert bundle.bodies[place] == messages.bodies[index]
            assert bundle.id_of(place) == (messages.ids[index] or made_id(bundle.number, place))


@given(parts=MESSAGES, buckets=BUCKETS)
@example(parts=[(None, 0, b"", 0)] * 129, buckets=8)
def test_a_bundle_is_not_too_large_unless_one_message_alone_is(
    parts: list[tuple[str | None, int, bytes, int]], buckets: int
) -> None:
    for draft in drafted(checked(parts), buckets):
        bodies = draft.bundle.bodies
        assert 1 <= len(bodies) == len(draft.indexes) <= 64
        assert sum(map(len, bodies)) <= LARGEST_BUNDLE or len(bodies) == 1


def test_messages_made_together_fill_their_bundles() -> None:
    messages = checked([(None, 0, b"", 0)] * 130)
    assert [list(draft.indexes) for draft in drafted(messages, 1024)] == [
        list(range(64)),
        list(range(64, 128)),
        [128, 129],
    ]


@given(parts=MESSAGES, buckets=BUCKETS, some=MASKS)
def test_all_messages_of_a_spot_stand_where_it_says(
    parts: list[tuple[str | None, int, bytes, int]], buckets: int, some: int
) -> None:
    messages = checked(parts)
    for draft in drafted(messages, buckets):
        kept = full_mask(len(draft.indexes)) & some
        spots = draft.spots(kept, count(1))
        assert sum(spot.bits for spot in spots) == kept  # each bit in one spot
        assert len({spot.number for spot in spots}) == len(spots)
        for spot in spots:
            assert (spot.bundle, spot.topic, spot.version, spot.attempts) == (draft.bundle.number, 3, 1, 0)
            assert spot.consumer is None
            inside = [bucket_of(draft.bundle.id_of(place), buckets) for place in indexes_of(spot.bits)]
            assert {segment_of(bucket, buckets) for bucket in inside} == {spot.segment}
            assert spot.low_bucket <= min(inside) <= max(inside) <= spot.high_bucket
            assert segment_of(spot.low_bucket, buckets) == segment_of(spot.high_bucket, buckets) == spot.segment
            if some == full_mask(64):
                assert (spot.low_bucket, spot.high_bucket) == (min(inside), max(inside))
            for place in indexes_of(spot.bits):
                index = draft.indexes[place]
                assert (messages.at_ms[index], messages.turns[index]) == (spot.at_ms, spot.turn)


@given(
    ids=st.none() | st.lists(NAMES, min_size=1, max_size=64),
    bodies=st.lists(st.binary(max_size=300), min_size=64, max_size=64),
)
def test_a_bundle_is_unpacked_as_it_was_packed(ids: list[str] | None, bodies: list[bytes]) -> None:
    chosen = None if ids is None else tuple(ids)
    bundle = Bundle(1, 2, 3, 4, chosen, tuple(bodies[: 64 if ids is None else len(ids)]))
    assert unpack_bundle(*bundle.packed()) == (bundle.ids, bundle.bodies)


@given(parts=MESSAGES, buckets=BUCKETS, some=MASKS)
def test_a_part_of_a_spot_says_its_buckets_closely(
    parts: list[tuple[str | None, int, bytes, int]], buckets: int, some: int
) -> None:
    for draft in drafted(checked(parts), buckets):
        for spot in draft.spots(full_mask(len(draft.indexes)), count(1)):
            part = spot._replace(bits=spot.bits & some or spot.bits)
            inside = [bucket_of(draft.bundle.id_of(place), buckets) for place in indexes_of(part.bits)]
            close = narrowed(part, draft.bundle, buckets)
            assert (close.low_bucket, close.high_bucket) == (min(inside), max(inside))
            assert close._replace(low_bucket=part.low_bucket, high_bucket=part.high_bucket) == part
