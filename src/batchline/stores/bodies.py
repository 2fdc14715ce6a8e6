"""Bodies of messages, read in parts of limited size: their sizes are known before they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from batchline.core.bundle import LARGEST_BUNDLE, Bundle
from batchline.core.message import LARGEST_BODY
from batchline.core.spot import Spot
from batchline.stores.timeline_rows import TimelineRows

__all__ = ["bundles_in_parts", "content_bounds", "first_within", "read_bundles", "spots_within"]


def content_bounds(rows: TimelineRows, spots: Iterable[Spot], enough: int) -> Mapping[int, int]:
    """Return how many bytes the bundles of spots have at most; ask the store only if they may have more than enough."""
    most: dict[int, int] = {}
    for spot in spots:
        # A bundle of several messages is small; one message alone may be as large as messages can be.
        most[spot.bundle] = min(most.get(spot.bundle, LARGEST_BODY), LARGEST_BUNDLE if spot.size > 1 else LARGEST_BODY)
    return most if sum(most.values()) <= enough else rows.content_sizes(most)


def first_within(numbers: Sequence[int], begin: int, sizes: Mapping[int, int], max_bytes: int) -> int:
    """Return up to before which of these bundles, from `begin` on, they have at most `max_bytes`: at least one."""
    end, left, seen = begin, max_bytes, set[int]()
    while end < len(numbers) and (end == begin or sizes.get(numbers[end], 0) <= left or numbers[end] in seen):
        left -= 0 if numbers[end] in seen else sizes.get(numbers[end], 0)
        seen.add(numbers[end])
        end += 1
    return end


def spots_within(rows: TimelineRows, spots: Sequence[Spot], max_bytes: int) -> Iterator[Sequence[Spot]]:
    """Cut spots into parts, in their order, whose bundles have at most `max_bytes` together, or are one alone."""
    numbers = [spot.bundle for spot in spots]
    sizes, begin = content_bounds(rows, spots, max_bytes), 0
    while begin < len(spots):
        end = first_within(numbers, begin, sizes, max_bytes)
        yield spots[begin:end]
        begin = end


def read_bundles(rows: TimelineRows, numbers: Sequence[int], max_bytes: int) -> Iterator[dict[int, Bundle]]:
    """Read bundles, part by part, each of at most `max_bytes` or one alone."""
    small = len(numbers) * LARGEST_BODY <= max_bytes
    sizes, begin = {} if small else rows.content_sizes(numbers), 0
    while begin < len(numbers):
        end = first_within(numbers, begin, sizes, max_bytes)
        yield rows.bundles_by_number(numbers[begin:end])
        begin = end


def bundles_in_parts(
    rows: TimelineRows, spots: Sequence[Spot], max_bytes: int
) -> Iterator[tuple[Sequence[Spot], dict[int, Bundle]]]:
    """Read the bundles of spots, part by part: what is wanted of one must be taken before the next is read."""
    for part in spots_within(rows, spots, max_bytes):
        yield part, rows.bundles_by_number({spot.bundle for spot in part})
