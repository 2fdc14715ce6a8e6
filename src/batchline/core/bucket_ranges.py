"""Stage 4: how the live consumers of a topic share its buckets."""

from collections.abc import Iterable

__all__ = ["bucket_range", "bucket_ranges"]


def bucket_ranges(consumers: Iterable[str], buckets: int) -> dict[str, range]:
    """Contiguous ranges, by the order of ids, whose lengths differ by at most one; the first are the longer ones.

    3 consumers, 89 buckets: 30, 30, 29. More consumers than buckets: the rest get none.
    """
    ordered = sorted(set(consumers))
    if not ordered:
        return {}
    length, longer = divmod(buckets, len(ordered))
    ranges, begin = {}, 0
    for place, consumer in enumerate(ordered):
        end = begin + length + (place < longer)
        ranges[consumer] = range(begin, end)
        begin = end
    return ranges


def bucket_range(consumer: str, consumers: Iterable[str], buckets: int) -> range:
    """The range of one consumer, which is live whether or not anybody has seen it yet."""
    return bucket_ranges({consumer, *consumers}, buckets)[consumer]
