"""Stage 4: bundles, the messages that one call created, kept together."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from batchline.core.item_group import indexes_of
from batchline.core.message import BUNDLE_SIZE, CheckedMessage, bucket_of, made_id
from batchline.core.spot import Spot, mask_of, segment_of

__all__ = ["LARGEST_BUNDLE", "Bundle", "Draft", "draft_bundles", "narrowed", "unpack_bundle"]

#: Bytes of bodies, unless one message alone has more.
LARGEST_BUNDLE: Final = 64 * 1024


@dataclass(slots=True)
class Bundle:
    """Messages that were created together."""

    number: int
    topic: int
    producer_group: int
    created_ms: int
    #: The ids that were chosen; None if they were made.
    ids: tuple[str, ...] | None
    bodies: tuple[bytes, ...]

    def id_of(self, place: int) -> str:
        """The id of one of its messages."""
        return made_id(self.number, place) if self.ids is None else self.ids[place]

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


@dataclass(slots=True)
class Draft:
    """A bundle to be created, and where its messages are to stand."""

    bundle: Bundle
    #: Of each of its messages, the index in the call.
    indexes: list[int]
    #: Its messages by (segment, at, turn), each by place and bucket.
    stands: dict[tuple[int, int, int], list[tuple[int, int]]]

    def spots(self, kept: int, numbers: Iterator[int]) -> list[Spot]:
        """Its spots, with those messages only whose bits are in `kept`."""
        found = []
        for (segment, at_ms, turn), members in self.stands.items():
            inside = [member for member in members if kept >> member[0] & 1]
            if inside:
                found.append(self._spot(segment, at_ms, turn, inside, next(numbers)))
        return found

    def _spot(self, segment: int, at_ms: int, turn: int, members: list[tuple[int, int]], number: int) -> Spot:
        bits = mask_of([place for place, _ in members])
        low, high = members[0][1], members[-1][1]
        return Spot(self.bundle.number, number, self.bundle.topic, segment, at_ms, turn, bits, low, high, 1, 0, None)


def draft_bundles(
    messages: Sequence[CheckedMessage],
    topic: int,
    producer_group: int,
    buckets: int,
    now_ms: int,
    numbers: Iterator[int],
) -> list[Draft]:
    """Bundle messages: neighbours in their buckets together, those without an id of their own as they come."""
    bucket = {index: bucket_of(message.id, buckets) for index, message in enumerate(messages) if message.id}
    chosen = sorted(bucket, key=lambda index: bucket[index])
    made = [index for index, message in enumerate(messages) if not message.id]
    drafts = []
    for ours, indexes in ((False, chosen), (True, made)):
        for part in _parts(indexes, messages):
            ids = None if ours else tuple(messages[index].id for index in part)
            bodies = tuple(messages[index].body for index in part)
            bundle = Bundle(next(numbers), topic, producer_group, now_ms, ids, bodies)
            if ours:
                bucket |= dict.fromkeys(part, bucket_of(bundle.id_of(0), buckets))
            drafts.append(_draft(bundle, part, messages, bucket, buckets))
    return drafts


def _draft(
    bundle: Bundle, part: list[int], messages: Sequence[CheckedMessage], bucket: dict[int, int], buckets: int
) -> Draft:
    stands: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for place, index in enumerate(part):
        message, its_bucket = messages[index], bucket[index]
        key = (segment_of(its_bucket, buckets), message.at_ms, message.turn)
        stands.setdefault(key, []).append((place, its_bucket))
    return Draft(bundle, part, stands)


def _parts(indexes: Sequence[int], messages: Sequence[CheckedMessage]) -> Iterator[list[int]]:
    """Pieces of at most 64 messages, and of at most so many bytes."""
    part: list[int] = []
    size = 0
    for index in indexes:
        length = len(messages[index].body)
        if part and (len(part) == BUNDLE_SIZE or size + length > LARGEST_BUNDLE):
            yield part
            part, size = [], 0
        part.append(index)
        size += length
    if part:
        yield part
