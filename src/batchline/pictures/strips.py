"""A long axis cut into strips, as lines of text are: so each window is wide enough to be read.

A strip covers whole windows, and time in which there is no batch is left out. All strips have one scale, but for a
window that is longer than a strip: it gets a strip of its own length.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batchline.pictures.captions import MARKS
from batchline.pictures.windows import Bar, Rejected, WindowsPicture, reach_us, typical_us

__all__ = ["Lane", "Strip", "lanes_of", "levels_of", "strips_of"]

Extent = tuple[int, int, tuple[Bar, ...]]


@dataclass(frozen=True, slots=True)
class Strip:
    """A stretch of the axis with all that is drawn on it; every bar and rejected message is on exactly one strip."""

    first_us: int
    last_us: int
    bars: tuple[Bar, ...]
    #: Rejected messages whose event time lies on this strip.
    rejected: tuple[Rejected, ...]
    #: Rejected messages received about here whose event time lies on no strip, for it is before or after this one.
    before: tuple[Rejected, ...]
    after: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """The rejected messages of a strip that have one reason; never empty."""

    reason: str
    here: tuple[Rejected, ...]
    before: tuple[Rejected, ...]
    after: tuple[Rejected, ...]

    @property
    def messages(self) -> tuple[Rejected, ...]:
        """All of them."""
        return self.here + self.before + self.after


def strips_of(picture: WindowsPicture, windows: float) -> tuple[Strip, ...]:
    """Cut the axis into as few strips as possible, each no longer than so many typical windows."""
    extents: list[Extent] = [(picture.first_us, picture.last_us, ())]
    if picture.bars:
        extents = _extents(picture.bars, _span_us(picture.bars, windows))
    messages: list[list[Rejected]] = [[] for _ in extents]
    for message in picture.rejected:
        messages[_home(extents, message)].append(message)
    return tuple(_strip(*extent, here) for extent, here in zip(extents, messages, strict=True))


def lanes_of(strip: Strip) -> Iterator[Lane]:
    """The rejected messages of a strip by reason, in the order of the lanes."""
    for reason in MARKS:
        kinds = (strip.rejected, strip.before, strip.after)
        lane = Lane(reason, *(tuple(message for message in kind if message.reason == reason) for kind in kinds))
        if lane.messages:
            yield lane


def levels_of(spans: Sequence[tuple[float, float]], most: int) -> list[int]:
    """A level for each span so that the spans of a level do not overlap; beyond `most` levels they have to."""
    free_from: list[float] = []
    levels = []
    for start, end in spans:
        level = _level(free_from, start, most)
        free_from[level : level + 1] = [end]
        levels.append(level)
    return levels


def _span_us(bars: Sequence[Bar], windows: float) -> int:
    """The shortest span that needs no more strips than the longest one: nothing is drawn smaller than it must be."""
    longest = max(1, int(typical_us(bars) * windows))
    # What is a little too long for one strip is not worth two.
    if len(_extents(bars, longest * 3 // 2)) == 1:
        longest = longest * 3 // 2
    count = len(_extents(bars, longest))
    return bisect_left(range(longest), True, lo=1, key=lambda span: len(_extents(bars, span)) <= count)


def _extents(bars: Sequence[Bar], span_us: int) -> list[Extent]:
    typical = typical_us(bars)
    extents: list[Extent] = []
    for bar in bars:
        reach = reach_us(bar, typical)
        if extents and reach <= extents[-1][1]:
            first, last, mates = extents[-1]
            extents[-1] = (first, last, (*mates, bar))
        else:
            extents.append((bar.start_us, max(bar.start_us + span_us, reach), (bar,)))
    return extents


def _home(extents: Sequence[Extent], message: Rejected) -> int:
    """Where its event time is; else, where it was received."""
    # Extents are in order of their ends as well: only the last one begun can hold a moment.
    home = _last_begun(extents, message.event_us)
    on_axis = extents[home][0] <= message.event_us <= extents[home][1]
    return home if on_axis else _last_begun(extents, message.receive_us)


def _last_begun(extents: Sequence[Extent], us: int) -> int:
    return max(0, bisect_right(extents, us, key=lambda extent: extent[0]) - 1)


def _strip(first_us: int, last_us: int, bars: tuple[Bar, ...], messages: Sequence[Rejected]) -> Strip:
    return Strip(
        first_us,
        last_us,
        bars,
        rejected=tuple(message for message in messages if first_us <= message.event_us <= last_us),
        before=tuple(message for message in messages if message.event_us < first_us),
        after=tuple(message for message in messages if message.event_us > last_us),
    )


def _level(free_from: list[float], start: float, most: int) -> int:
    for level, free in enumerate(free_from):
        if free <= start:
            return level
    if len(free_from) < most:
        return len(free_from)
    return free_from.index(min(free_from))
