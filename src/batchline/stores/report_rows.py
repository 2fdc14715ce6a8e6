"""What running processes tell a store of themselves, and who asks for it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["ReportRow", "ReportRows"]


class ReportRow(NamedTuple):
    """What a process said at a moment."""

    kind: str
    name: str
    at_ms: int
    #: Numbers by their names, as JSON.
    body: str


class ReportRows(Protocol):
    """The table of reports, within one transaction."""

    def insert_reports(self, rows: Sequence[ReportRow]) -> None:
        """New reports; one of the same kind, name and moment stays as it is."""

    def reports(self, from_ms: int, kind: str | None = None) -> list[ReportRow]:
        """Reports from a moment on, of all kinds or of one, by their moments."""

    def latest_reports(self, from_ms: int = 0) -> list[ReportRow]:
        """The last report of each kind and name, if it was made from a moment on, by kind and name."""

    def forget_reports(self, before_ms: int, most: int) -> int:
        """Forget at most so many of the reports before a moment, the oldest first; tells how many went."""
