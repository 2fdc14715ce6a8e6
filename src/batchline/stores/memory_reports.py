"""The table of reports in the memory of this process."""

from collections.abc import Sequence

from batchline.stores.memory_tables import MemoryTables
from batchline.stores.report_rows import ReportRow

__all__ = ["MemoryReportRows"]


class MemoryReportRows:
    """`ReportRows` on a dictionary."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    def insert_reports(self, rows: Sequence[ReportRow]) -> None:
        """New reports."""
        for row in rows:
            if row[:3] not in self._tables.reports:
                self._tables.reports[row[:3]] = row

    def reports(self, from_ms: int, kind: str | None = None) -> list[ReportRow]:
        """Reports from a moment on."""
        found = (row for row in self._tables.reports.values() if row.at_ms >= from_ms and kind in (None, row.kind))
        return sorted(found, key=lambda row: (row.at_ms, row.kind, row.name))

    def latest_reports(self, from_ms: int = 0) -> list[ReportRow]:
        """The last report of each kind and name."""
        latest = {(row.kind, row.name): row for row in self.reports(from_ms)}
        return [latest[key] for key in sorted(latest)]

    def forget_reports(self, before_ms: int, most: int) -> int:
        """Forget reports before a moment."""
        old = [row for row in self.reports(0) if row.at_ms < before_ms][:most]
        for row in old:
            del self._tables.reports[row[:3]]
        return len(old)
