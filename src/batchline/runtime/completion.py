"""What the tracker says of all fanouts with certain labels, looked at again and again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from batchline.core.fanout import FanoutStatus
from batchline.runtime.tracker import Tracker

__all__ = ["Completion"]

PAGE: Final = 100
#: Fanouts that are not complete, of which it is told why.
NAMED: Final = 3


@dataclass(slots=True)
class _Sums:
    fanouts: int = 0
    total: int = 0
    acked: int = 0
    failed: int = 0
    pending: int = 0
    #: The first of those that are not complete.
    undone: list[FanoutStatus] = field(default_factory=list)

    def add(self, status: FanoutStatus) -> None:
        self.fanouts += 1
        self.total += status.total
        self.acked += status.acked
        self.failed += status.failed
        self.pending += status.pending
        if status.state != "complete" and len(self.undone) < NAMED:
            self.undone.append(status)

    def copy(self) -> "_Sums":
        return _Sums(self.fanouts, self.total, self.acked, self.failed, self.pending, list(self.undone))


class Completion:
    """How many items of how many fanouts are done; pages of fanouts that are over are not looked at again."""

    def __init__(self, tracker: Tracker, labels: Mapping[str, str]):
        self._tracker, self._labels = tracker, dict(labels)
        self._over = _Sums()
        self._after: int | None = None
        self.sums = _Sums()

    def look(self) -> None:
        """Look how it stands now."""
        sums, after, all_over = self._over.copy(), self._after, True
        while True:
            page = self._tracker.list(labels=self._labels, after=after, limit=PAGE)
            for status in page.fanouts:
                sums.add(status)
            after = page.next
            all_over = all_over and not any(status.pending or status.state == "open" for status in page.fanouts)
            if after is None:
                break
            if all_over:
                self._over, self._after = sums.copy(), after
        self.sums = sums

    @property
    def complete(self) -> bool:
        """Whether all fanouts are complete; so it is if there are none."""
        return not self.sums.undone

    def why_not(self) -> list[str]:
        """Of the first that are not complete, why."""
        return [self._reason(status) for status in self.sums.undone]

    def _reason(self, status: FanoutStatus) -> str:
        if status.failed:
            failed = self._tracker.failed_items(status.id, 1)
            why = f", the first: {failed[0].reason}" if failed else ""
            return f"{status.id}: {status.failed:,} of {status.total:,} parcels were refused{why}"
        if status.pending:
            return f"{status.id}: {status.pending:,} of {status.total:,} parcels have not arrived yet"
        return f"{status.id}: it is {status.state}"
