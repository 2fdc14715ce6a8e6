"""How many messages stand where, on any store."""

from batchline.core.future_load import (
    SLICE_MS,
    Counts,
    Load,
    Range,
    bin_edges,
    cut_at_slices,
    fill_bins,
    slice_of,
)
from batchline.core.topic import Topic
from batchline.stores.timeline_rows import TimelineRows

__all__ = ["count_messages", "future_load"]


def count_messages(rows: TimelineRows, topic: Topic, span: Range, now_ms: int) -> Counts:
    """Messages by state, at moments in a range."""
    past = Range(span.begin_ms, min(span.end_ms, now_ms + 1))
    future = Range(max(span.begin_ms, now_ms + 1), span.end_ms)
    return Counts(
        waiting=_free(rows, topic, future),
        processing=_leased(rows, topic, future),
        available=_free(rows, topic, past) + _leased(rows, topic, past),
    )


def _free(rows: TimelineRows, topic: Topic, span: Range) -> int:
    """Messages that nobody has leased."""
    if span.is_empty():
        return 0
    slices, ends = cut_at_slices(span)
    whole = 0 if slices.is_empty() else sum(rows.tallies(topic.number, slices, 0, slices.end_ms).values())
    return whole + sum(rows.count_spots(topic.number, end) for end in ends)


def _leased(rows: TimelineRows, topic: Topic, span: Range) -> int:
    return 0 if span.is_empty() else rows.leased_counts(topic.number, span)


def future_load(rows: TimelineRows, topic: Topic, span: Range, bins: int, since_ms: int) -> Load:
    """How many messages wait, over a range of the future, beside what the consumers have shown they can take."""
    shown = sum(row.messages_per_second for row in rows.consumers(topic.number, since_ms))
    edges, width_ms = bin_edges(span, bins)
    if width_ms < SLICE_MS:
        fine = rows.spot_counts(topic.number, span, width_ms)
        counts = [(span.begin_ms + place * width_ms, count) for place, count in fine.items()]
    else:
        slices, ends = cut_at_slices(span)
        origin, width = slice_of(span.begin_ms), width_ms // SLICE_MS
        summed = rows.tallies(topic.number, slices, origin, width).items()
        # A bin that the range cuts at its beginning has what is in the slice before it as well.
        counts = [(max((origin + place * width) * SLICE_MS, span.begin_ms), count) for place, count in summed]
        counts += [(end.begin_ms, rows.count_spots(topic.number, end)) for end in ends]
    per_second = shown or None
    return Load(fill_bins(edges, counts, per_second), per_second)
