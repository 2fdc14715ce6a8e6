"""The table of reports in a SQL database."""

from collections.abc import Sequence

from batchline.stores.report_rows import ReportRow
from batchline.stores.sql_session import SqlSession

__all__ = ["SqlReportRows"]


class SqlReportRows:
    """`ReportRows` on a session."""

    def __init__(self, session: SqlSession):
        self._session = session

    def insert_reports(self, rows: Sequence[ReportRow]) -> None:
        """New reports."""
        if rows:
            self._session.tell_many("insert_reports", ReportRow._fields, rows)

    def reports(self, from_ms: int, kind: str | None = None) -> list[ReportRow]:
        """Reports from a moment on."""
        if kind is None:
            found = self._session.rows("reports", from_ms=from_ms)
        else:
            found = self._session.rows("reports_of_kind", from_ms=from_ms, kind=kind)
        return [ReportRow(*row) for row in found]

    def latest_reports(self, from_ms: int = 0) -> list[ReportRow]:
        """The last report of each kind and name."""
        return [ReportRow(*row) for row in self._session.rows("latest_reports", from_ms=from_ms)]

    def forget_reports(self, before_ms: int, most: int) -> int:
        """Forget reports before a moment."""
        return self._session.run("forget_reports", before_ms=before_ms, most=most)
