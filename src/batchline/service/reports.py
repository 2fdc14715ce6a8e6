"""`/v1/reports`: what running processes have said of themselves, for pages that draw it over time."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from batchline.core.name import check_name
from batchline.core.topic import span_ms
from batchline.service.caller import Caller
from batchline.service.operation import Call, Operation
from batchline.stores.report_rows import ReportRow
from batchline.wire.form import At, Form, Name, Span, ms_of_at, ms_text, read_span
from batchline.wire.reports import ReportForm, Reports

__all__ = ["MOST", "OPERATIONS", "thinned", "visible"]

#: The newest of so many are answered.
MOST: Final = 5_000
USUAL: Final = timedelta(minutes=5)


class ReportsQuery(Form):
    """Of which kind, since when; with `every`, only the last of each process in each such span."""

    kind: Name | None = None
    since: At | None = None
    every: Span | None = None


class _Topic(msgspec.Struct):
    topic: str | None = None


TOPIC: Final = msgspec.json.Decoder(_Topic)


def list_reports(call: Call[ReportsQuery]) -> Reports:
    """What running processes said of themselves, the oldest first; of the last five minutes, unless you say since."""
    form, now_ms = call.form, call.parts.timeline.now_ms()
    since_ms = now_ms - span_ms(USUAL) if form.since is None else ms_of_at("since", form.since)
    kind = None if form.kind is None else check_name("the kind of a report", form.kind)
    rows = call.parts.store.read(lambda rows: rows.reports(since_ms, kind))
    if form.every is not None:
        rows = thinned(rows, span_ms(read_span("every", form.every)))
    return Reports([_form(row) for row in visible(rows, call.caller)[-MOST:]], ms_text(now_ms))


def _form(row: ReportRow) -> ReportForm:
    return ReportForm(row.kind, row.name, ms_text(row.at_ms), msgspec.Raw(row.body.encode()))


def visible(rows: Iterable[ReportRow], caller: Caller) -> list[ReportRow]:
    """Those that do not tell of topics which the caller may not know of."""
    if caller.is_admin:
        return list(rows)
    return [row for row in rows if (topic := TOPIC.decode(row.body).topic) is None or caller.may_see(topic)]


def thinned(rows: Iterable[ReportRow], every_ms: int) -> list[ReportRow]:
    """The last report of each process in each span; the spans are the same whenever one asks."""
    last = {(row.kind, row.name, row.at_ms // max(every_ms, 1)): row for row in rows}
    return sorted(last.values(), key=lambda row: row.at_ms)


OPERATIONS: Final = (Operation("GET", "/v1/reports", "read", list_reports, ReportsQuery, Reports),)
