"""The table of reports, on every store."""

from batchline import Store
from batchline.stores.report_rows import ReportRow
from tests.doubles import BEGIN_US

NOW_MS = BEGIN_US // 1000
REPORTS = [
    ReportRow("work", "host-a", NOW_MS, '{"delivered": 1}'),
    ReportRow("run", "host-a", NOW_MS, '{"epoch": 0, "who": "é🤖"}'),
    ReportRow("work", "host-b ", NOW_MS + 1, '{"delivered": 5}'),
    ReportRow("work", "host-a", NOW_MS + 2000, "{}"),
]


def insert(store: Store, *reports: ReportRow) -> None:
    store.transact(lambda rows: rows.insert_reports(reports))


def test_reports_of_a_span_and_of_a_kind_come_by_their_moments(fresh_store: Store) -> None:
    insert(fresh_store, *REPORTS)
    insert(fresh_store)
    work_a, run_a, work_b, later = REPORTS
    assert fresh_store.read(lambda rows: rows.reports(0)) == [run_a, work_a, work_b, later]
    assert fresh_store.read(lambda rows: rows.reports(NOW_MS + 1)) == [work_b, later]
    assert fresh_store.read(lambda rows: rows.reports(NOW_MS, "work")) == [work_a, work_b, later]
    assert fresh_store.read(lambda rows: rows.reports(NOW_MS, "serve")) == []
    assert fresh_store.read(lambda rows: rows.reports(NOW_MS + 2001)) == []


def test_the_latest_of_each_process_is_one_report(fresh_store: Store) -> None:
    insert(fresh_store, *REPORTS)
    _, run_a, work_b, later = REPORTS
    assert fresh_store.read(lambda rows: rows.latest_reports()) == [run_a, later, work_b]
    assert fresh_store.read(lambda rows: rows.latest_reports(NOW_MS + 1)) == [later, work_b]


def test_a_report_that_is_made_again_stays_as_it_is(fresh_store: Store) -> None:
    insert(fresh_store, REPORTS[0])
    insert(fresh_store, REPORTS[0]._replace(body="[]"), REPORTS[2])
    assert fresh_store.read(lambda rows: rows.reports(0)) == [REPORTS[0], REPORTS[2]]


def test_old_reports_are_forgotten_step_by_step_the_oldest_first(fresh_store: Store) -> None:
    insert(fresh_store, *REPORTS)
    assert fresh_store.transact(lambda rows: rows.forget_reports(NOW_MS, 2)) == 0
    assert fresh_store.transact(lambda rows: rows.forget_reports(NOW_MS + 2000, 2)) == 2
    assert fresh_store.read(lambda rows: rows.reports(0)) == REPORTS[2:]
    assert fresh_store.transact(lambda rows: rows.forget_reports(NOW_MS + 2000, 2)) == 1
    assert fresh_store.read(lambda rows: rows.reports(0)) == REPORTS[3:]
