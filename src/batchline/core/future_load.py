"""Stage 4: how many messages stand where on the line.

Counting rows would take longer the more there are. So every call notes how it changed the number of messages that
nobody holds, by slice of the line; sums of those, and a look at the two slices that a range cuts, give exact counts.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from batchline.core.message import moment_ms

__all__ = [
    "SLICE_MS",
    "Bin",
    "Counts",
    "Load",
    "Range",
    "bin_edges",
    "cut_at_slices",
    "fill_bins",
    "slice_of",
    "sum_counts",
]

#: The length of a slice: 5 minutes.
SLICE_MS: Final = 300_000


def slice_of(at_ms: int) -> int:
    """The slice of a moment."""
    return at_ms // SLICE_MS


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages by state, in a range."""

    waiting: int
    processing: int
    available: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.waiting + self.processing + self.available


@dataclass(frozen=True, slots=True)
class Bin:
    """A stretch of the future, and how many messages become due in it."""

    begin: datetime
    end: datetime
    count: int
    #: Whether these are more than the consumers have shown they can take in that time.
    spike: bool


@dataclass(frozen=True, slots=True)
class Load:
    """The future load of a topic."""

    bins: tuple[Bin, ...]
    #: What its live consumers together have shown they can take; None if they have shown nothing yet.
    messages_per_second: float | None

    @property
    def spikes(self) -> tuple[Bin, ...]:
        """The bins with more than the consumers can take."""
        return tuple(one for one in self.bins if one.spike)


@dataclass(frozen=True, slots=True)
class Range:
    """From a moment on, up to before another."""

    begin_ms: int
    end_ms: int

    def is_empty(self) -> bool:
        """Whether no moment is in it."""
        return self.begin_ms >= self.end_ms


def cut_at_slices(span: Range) -> tuple[Range, list[Range]]:
    """A range as the whole slices in it, by number, and what is left at its ends, by moment."""
    first, last = -(-span.begin_ms // SLICE_MS), span.end_ms // SLICE_MS
    if first > last:
        return Range(0, 0), [] if span.is_empty() else [span]
    ends = [Range(span.begin_ms, first * SLICE_MS), Range(last * SLICE_MS, span.end_ms)]
    return Range(first, last), [end for end in ends if not end.is_empty()]


def bin_edges(span: Range, bins: int) -> tuple[list[int], int]:
    """Where bins begin and end, and how long they are.

    All but the last are as long as each other; if they are longer than slices, they are whole ones, so that there may
    be fewer of them than were asked for, and the first may be shorter, too.
    """
    width = -(-(span.end_ms - span.begin_ms) // bins)
    begin = span.begin_ms
    if width >= SLICE_MS:
        width = -(-width // SLICE_MS) * SLICE_MS
        begin -= begin % SLICE_MS
    inner = range(begin + width, span.end_ms, width)
    return [span.begin_ms, *inner, span.end_ms], width


def fill_bins(
    edges: list[int], counts: Iterable[tuple[int, int]], messages_per_second: float | None
) -> tuple[Bin, ...]:
    """A histogram from (moment, count)."""
    totals = [0] * (len(edges) - 1)
    for at_ms, count in counts:
        totals[bisect_right(edges, at_ms, hi=len(edges) - 1) - 1] += count
    return tuple(
        Bin(moment_ms(begin), moment_ms(end), count, _is_spike(count, end - begin, messages_per_second))
        for begin, end, count in zip(edges, edges[1:], totals, strict=False)
    )


def _is_spike(count: int, length_ms: int, messages_per_second: float | None) -> bool:
    return messages_per_second is not None and count > messages_per_second * length_ms / 1_000


def sum_counts(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Counts by slice, those of several parts together."""
    total: dict[int, int] = {}
    for part in parts:
        for place, count in part.items():
            total[place] = total.get(place, 0) + count
    return total
