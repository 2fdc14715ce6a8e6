"""Reports over HTTP: what running processes say of themselves."""

import msgspec

from batchline.wire.form import AnswerForm, Name

__all__ = ["ReportForm", "Reports"]


class ReportForm(AnswerForm):
    """What a process said at a moment."""

    kind: Name
    name: Name
    at: str
    #: Counters and gauges, by their names: see the reference of reports.
    numbers: msgspec.Raw


class Reports(AnswerForm):
    """Reports, the oldest first."""

    reports: list[ReportForm]
    #: What the service's clock shows.
    now: str
