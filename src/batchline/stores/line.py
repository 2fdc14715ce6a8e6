"""What one call changes on the line: spots that are written, split or made, and how that changes the counts."""

from collections.abc import Callable, Iterator
from typing import Final

from batchline.core.future_load import slice_of
from batchline.core.spot import Spot
from batchline.stores.timeline_rows import Key, SpotChange, TimelineRows, TriedSpot

__all__ = ["LineChanges"]

#: What the history says of a lease that ended by itself.
RAN_OUT: Final = "the lease ran out"


class LineChanges:
    """Collects changes of spots that are held, and writes them together."""

    def __init__(self, numbers: Iterator[int]):
        #: Fresh numbers, for the spots that are split off.
        self._numbers = numbers
        self._before: dict[Key, Spot] = {}
        self._after: dict[Key, Spot] = {}
        self._new: list[Spot] = []
        self._tried: list[TriedSpot] = []
        self._counts: dict[int, dict[int, int]] = {}

    def change(self, spot: Spot, mask: int, become: Callable[[Spot], Spot]) -> Spot:
        """Let some messages of a spot become something else, and return their spot; the others stay as they are."""
        left = self._after.get(spot.key, spot)
        part = left if mask == left.bits else left._replace(number=next(self._numbers), bits=mask)
        changed = become(part)
        if part is left:
            self._write(spot, changed)
        else:
            self._write(spot, left._replace(bits=left.bits & ~mask))
            self._new.append(changed)
        self._count(part, -mask.bit_count())
        self._count(changed, mask.bit_count())
        return changed

    def create(self, spot: Spot) -> None:
        """Let a new spot stand on the line."""
        self._new.append(spot)
        self._count(spot, spot.size)

    def note_attempt(self, spot: Spot, mask: int, ended_ms: int, ending: str, reason: str) -> None:
        """Note that the lease on messages of a spot came to nothing."""
        consumer, number = spot.consumer or "", next(self._numbers)
        self._tried.append(
            TriedSpot(spot.bundle, number, mask, spot.version, spot.attempts, ended_ms, consumer, ending, reason)
        )

    def note_lost(self, spot: Spot, mask: int) -> None:
        """Note that the lease on messages of a spot ran out, if there was one."""
        if spot.consumer is not None:
            self.note_attempt(spot, mask, spot.at_ms, "lost", RAN_OUT)

    def write(self, rows: TimelineRows) -> None:
        """Write all of it."""
        rows.write_spots([SpotChange(before, self._after[key]) for key, before in self._before.items()])
        rows.insert_spots(self._new)
        rows.insert_attempts(self._tried)
        for topic, counts in self._counts.items():
            changed = {place: count for place, count in counts.items() if count}
            if changed:
                rows.insert_tally(topic, changed)

    def _write(self, before: Spot, after: Spot) -> None:
        self._before.setdefault(before.key, before)
        self._after[before.key] = after

    def _count(self, spot: Spot, difference: int) -> None:
        """Messages that nobody has leased, now or before, are counted by slice; the others are few."""
        if spot.consumer is None and spot.is_on_line:
            counts = self._counts.setdefault(spot.topic, {})
            place = slice_of(spot.at_ms)
            counts[place] = counts.get(place, 0) + difference
