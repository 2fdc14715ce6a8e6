"""What processes have reported lately, read piece by piece: a page that is open costs only what is new."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from batchline.core.counter import Count
from batchline.core.topic import span_ms
from batchline.runtime.clock import now_us
from batchline.stores.report_rows import ReportRow
from batchline.stores.store import Store

__all__ = ["SILENT_AFTER", "RecentReports", "Report", "counts_of", "latest"]

#: After so long without a report a process was killed, or does not reach the store.
SILENT_AFTER: Final = timedelta(seconds=10)
#: How much is read again: clocks differ, and what is written last is not always the newest.
OVERLAP: Final = timedelta(seconds=10)


class Report(NamedTuple):
    """What a process said at a moment."""

    kind: str
    name: str
    at_ms: int
    numbers: Mapping[str, Any]

    @property
    def topic(self) -> str | None:
        """Of which topic it tells; None if of none."""
        return self.numbers.get("topic")

    @property
    def ended(self) -> bool:
        """Whether it was the last one."""
        return bool(self.numbers.get("ended"))

    def is_live(self, now_ms: int) -> bool:
        """Whether its process is there, if this is its last report."""
        return not self.ended and now_ms - self.at_ms <= span_ms(SILENT_AFTER)

    def number(self, path: str) -> float:
        """A number by its name, such as `parcels.delivered`; what is not there is 0."""
        found: Any = self.numbers
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return float(found) if isinstance(found, (int, float)) else 0.0


class RecentReports:
    """The reports of the last minutes. Threads may share it."""

    def __init__(self, store: Store, *, keep: timedelta = timedelta(minutes=10), clock: Callable[[], int] = now_us):
        self._store, self._clock = store, clock
        self._keep_ms = span_ms(keep)
        self._known: dict[tuple[str, str, int], Report] = {}
        self._newest_ms = 0
        self._lock = threading.Lock()

    def read(self) -> list[Report]:
        """All that are known by now, by their moments."""
        with self._lock:
            oldest_ms = self._clock() // 1_000 - self._keep_ms
            from_ms = max(oldest_ms, self._newest_ms - span_ms(OVERLAP))
            for row in self._store.read(lambda rows: rows.reports(from_ms)):
                self._take(row)
            self._known = {key: report for key, report in self._known.items() if report.at_ms >= oldest_ms}
            return sorted(self._known.values(), key=lambda report: report.at_ms)

    def _take(self, row: ReportRow) -> None:
        key = (row.kind, row.name, row.at_ms)
        if key not in self._known:
            self._known[key] = Report(row.kind, row.name, row.at_ms, json.loads(row.body))
            # One from the far future would hide all that come before it.
            self._newest_ms = max(self._newest_ms, min(row.at_ms, self._clock() // 1_000))


def latest(reports: Iterable[Report]) -> list[Report]:
    """The last report of each process, of reports by their moments."""
    return list({(report.kind, report.name): report for report in reports}.values())


def counts_of(reports: Iterable[Report], kind: str, path: str) -> list[Count]:
    """A counter of all processes of a kind, as rates are made of."""
    return [
        Count(one.name, int(one.number("started_ms")), one.at_ms, one.number(path))
        for one in reports
        if one.kind == kind
    ]
