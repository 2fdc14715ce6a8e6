"""Stage 4: bundles, the messages that one call created, kept together."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from batchline.core.item_group import indexes_of
from batchline.core.message import BUNDLE_SIZE, CheckedMessages, bucket_of, made_id, made_ids
from batchline.core.spot import SEGMENTS, Spot, mask_of
from batchline.core.topic import Topic

__all__ = ["LARGEST_BUNDLE", "Bundle", "Draft", "draft_bundles", "narrowed", "unpack_bundle"]

#: Bytes of bodies, unless one message alone has more.
LARGEST_BUNDLE: Final = 64 * 1024


@dataclass(slots=True)
class Bundle:
    """Messages that were created together, in the order of their creation."""

    number: int
    topic: int
    producer_group: int
    created_ms: int = field(compare=False)  # a repeated call comes later
    #: The ids; None if all of them were made.
    ids: tuple[str, ...] | None
    bodies: tuple[bytes, ...]
    #: The name of the producer group, of bundles that were read.
    owner: str = field(default="", compare=False)
    _made: list[str] = field(default_factory=list, compare=False, repr=False)

    def all_ids(self) -> Sequence[str]:
        """The ids of its messages, by place."""
        if self.ids is not None:
            return self.ids
        if not self._made:
            self._made = made_ids(self.number, len(self.bodies))
        return self._made

    def id_of(self, place: int) -> str:
        """The id of one of its messages."""
        return self.all_ids()[place]

    def packed(self) -> tuple[str, bytes]:
        """Ids and bodies as a text and bytes: no name has a line break."""
        lengths = struct.pack(f">{len(self.bodies)}I", *map(len, self.bodies))
        content = b"".join((bytes((len(self.bodies),)), lengths, *self.bodies))
        return "" if self.ids is None else "\n".join(self.ids), content


def unpack_bundle(ids: str, content: bytes) -> tuple[tuple[str, ...] | None, tuple[bytes, ...]]:
    """Ids and bodies of what `packed` made."""
    count = content[0]
    begin = 1 + 4 * count
    bodies = []
    for length in struct.unpack_from(f">{count}I", content, 1):
        bodies.append(content[begin : begin + length])
        begin += length
    return tuple(ids.split("\n")) if ids else None, tuple(bodies)


def narrowed(spot: Spot, bundle: Bundle, buckets: int) -> Spot:
    """A spot that says its buckets as closely as its messages allow."""
    if bundle.ids is None or spot.low_bucket == spot.high_bucket:
        return spot
    inside = [bucket_of(bundle.ids[place], buckets) for place in indexes_of(spot.bits)]
    return spot._replace(low_bucket=min(inside), high_bucket=max(inside))


class Stand(NamedTuple):
    """Messages of a bundle that are to stand together: a bit for each, and between which buckets they are."""

    bits: int
    low_bucket: int
    high_bucket: int


@dataclass(slots=True)
class Draft:
    """A bundle to be created, and where its messages are to stand."""

    bundle: Bundle
    #: Of each of its messages, the index in the call.
    indexes: Sequence[int]
    #: By segment, moment and turn.
    stands: dict[tuple[int, int, int], Stand]

    def spots(self, kept: int, numbers: Iterator[int]) -> list[Spot]:
        """Its spots, with those messages only whose bits are in `kept`."""
        bundle = self.bundle
        return [
            Spot(bundle.number, next(numbers), bundle.topic, *key, stand.bits & kept, *stand[1:], 1, 0, None)
            for key, stand in self.stands.items()
            if stand.bits & kept
        ]


def draft_bundles(
    messages: CheckedMessages,
    wanted: Sequence[int],
    topic: Topic,
    producer_group: int,
    now_ms: int,
    numbers: Iterator[int],
) -> list[Draft]:
    """Bundle the messages wanted in their order, so that bundle and place tell the order of creation."""
    drafts = []
    for part in _parts(wanted, messages.bodies):
        number = next(numbers)
        ids = _ids_of(number, [messages.ids[index] for index in part])
        bodies = tuple(map(messages.bodies.__getitem__, part))
        bundle = Bundle(number, topic.number, producer_group, now_ms, ids, bodies)
        drafts.append(Draft(bundle, part, _stands(part, messages, _buckets_of(bundle, topic.buckets), topic.buckets)))
    return drafts


def _ids_of(number: int, given: Sequence[str]) -> tuple[str, ...] | None:
    """Complete the given ids of a bundle with made ones; None if all are to be made."""
    if not any(given):
        return None
    return tuple(id or made_id(number, place) for place, id in enumerate(given))


def _buckets_of(bundle: Bundle, buckets: int) -> list[int]:
    if bundle.ids is None:  # all in one, by the part of their ids that they share
        return [bucket_of(bundle.id_of(0), buckets)] * len(bundle.bodies)
    return [bucket_of(id, buckets) for id in bundle.ids]


def _stands(
    part: Sequence[int], messages: CheckedMessages, inside: Sequence[int], buckets: int
) -> dict[tuple[int, int, int], Stand]:
    """Group messages, given their buckets, by segment, due time and priority."""
    moments, turns = messages.at_ms, messages.turns
    places: dict[tuple[int, int, int], list[int]] = {}
    for place, (index, bucket) in enumerate(zip(part, inside, strict=True)):
        key = (bucket * SEGMENTS // buckets, moments[index], turns[index])
        if key in places:
            places[key].append(place)
        else:
            places[key] = [place]
    stands = {}
    for key, found in places.items():
        theirs = [inside[place] for place in found]
        stands[key] = Stand(mask_of(found), min(theirs), max(theirs))
    return stands


def _parts(indexes: Sequence[int], bodies: Sequence[bytes]) -> Iterator[Sequence[int]]:
    """Pieces of at most 64 messages, and of at most so many bytes."""
    begin, size = 0, 0
    for place, index in enumerate(indexes):
        length = len(bodies[index])
        if place > begin and (place - begin == BUNDLE_SIZE or size + length > LARGEST_BUNDLE):
            yield indexes[begin:place]
            begin, size = place, 0
        size += length
    if begin < len(indexes):
        yield indexes[begin:]
