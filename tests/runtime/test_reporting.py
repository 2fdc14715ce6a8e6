"""Reports: written every so often, forgotten after a while, and no trouble for who is reported on."""

import json
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from batchline import Store, open_store
from batchline.cli.ingest_reports import IngestNumbers
from batchline.errors import StoreUnavailable
from batchline.runtime.reporting import AT_ONCE, KEPT, Reporter, reporting
from batchline.runtime.supervisor import Supervisor
from batchline.sources.mqtt import MqttCounts
from batchline.stores.report_rows import ReportRow
from batchline.stores.rows import Rows
from tests.doubles import BEGIN_US, HandClock
from tests.runtime.reports import documented, keys_of, reports_in
from tests.waiting import wait_until

T = TypeVar("T")
NOW_MS = BEGIN_US // 1_000
KEPT_MS = KEPT // timedelta(milliseconds=1)


class Away:
    """A store that can be away."""

    def __init__(self) -> None:
        self.store, self.away = open_store("memory://"), False

    def transact(self, work: Callable[[Rows], T]) -> T:
        if self.away:
            raise StoreUnavailable("it is away")
        return self.store.transact(work)


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


def test_a_report_has_what_the_process_says_and_when_it_began(store: Store) -> None:
    clock, counts = HandClock(), {"done": 1}
    reporter = Reporter(store, "work", "one", lambda: counts, clock=clock)
    clock.us += 2_000_000
    reporter.run_once()
    counts["done"] = 5
    clock.us += 2_000_000
    reporter.run_once()
    found = [(row.at_ms - NOW_MS, body["done"], body["started_ms"]) for row, body in reports_in(store, "work")]
    assert found == [(2_000, 1, NOW_MS), (4_000, 5, NOW_MS)]


def test_two_reports_at_one_moment_are_two(store: Store) -> None:
    reporter = Reporter(store, "work", "one", dict, clock=HandClock())
    reporter.run_once()
    reporter.run_once(ended=True)
    assert [body["ended"] for _, body in reports_in(store, "work")] == [False, True]


def test_reports_of_an_hour_ago_are_forgotten_now_and_then_in_steps(store: Store) -> None:
    old = [ReportRow("run", str(number), NOW_MS - KEPT_MS - 1, "{}") for number in range(AT_ONCE + 1)]
    store.transact(lambda rows: rows.insert_reports([*old, ReportRow("run", "young", NOW_MS - KEPT_MS, "{}")]))
    clock = HandClock()
    reporter = Reporter(store, "work", "one", dict, clock=clock)
    assert reporter.run_once()
    clock.us += 1_000
    store.transact(lambda rows: rows.insert_reports([ReportRow("run", "young", NOW_MS - KEPT_MS + 1, "{}")]))
    assert not reporter.run_once()
    assert [row.at_ms - NOW_MS + KEPT_MS for row, _ in reports_in(store, "run")] == [1]
    clock.us += 2_000
    reporter.run_once()  # a moment later nobody looks
    assert len(reports_in(store, "run")) == 1
    clock.us += 60_000_000
    reporter.run_once()
    assert len(reports_in(store, "run")) == 0


def test_a_store_that_is_away_is_said_once_and_reported_to_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    keeper: Any = Away()
    clock = HandClock()
    reporter = Reporter(keeper, "work", "one", dict, clock=clock, supervisor=Supervisor(clock=clock))
    keeper.away = True
    with caplog.at_level(logging.WARNING, "batchline"):
        reporter.try_once()
        reporter.try_once()
        keeper.away = False
        reporter.try_once()
        clock.us += 60_000_000
        keeper.away = True
        reporter.try_once()
    said, back = (
        f"loop reporting (work one){text}"
        for text in (": it is away; it is tried again until it succeeds", " runs again; failed steps: 2")
    )
    assert [record.message for record in caplog.records] == [said, back, said]
    assert len(reports_in(keeper.store, "work")) == 1


@pytest.mark.parametrize("wrong", [lambda: {"rate": float("inf")}, lambda: {"what": object()}, lambda: 1 / 0])
def test_numbers_that_cannot_be_told_stop_nobody(store: Store, wrong: Callable[[], Any]) -> None:
    Reporter(store, "work", "one", wrong).try_once()
    assert reports_in(store, "work") == []


def test_a_report_that_fails_is_logged_counted_and_shown_and_comes_when_it_can(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    watching, failing = Supervisor(), threading.Event()
    failing.set()

    def numbers() -> dict[str, int]:
        return {"done": 1 // 0 if failing.is_set() else 1}

    with reporting(store, "work", "one", numbers, watching):
        wait_until(watching.troubles)
        assert [(one.loop, one.error) for one in watching.troubles()] == [("reporting", "ZeroDivisionError")]
        assert watching.failures()["reporting"] > 0
        failing.clear()
        wait_until(lambda: not watching.troubles())
        assert reports_in(store, "work")
    assert "loop reporting (work one) failed" in caplog.text
    assert "Traceback" in caplog.text


def test_a_report_names_the_loops_that_fail(store: Store) -> None:
    watching = Supervisor(clock=HandClock())
    watching.loop("prune").failed(ZeroDivisionError("secret"))
    Reporter(store, "serve", "one", dict, supervisor=watching).run_once()
    ((_, body),) = reports_in(store, "serve")
    assert body["degraded"] == [{"loop": "prune", "since_ms": NOW_MS, "error": "ZeroDivisionError"}]


def test_within_it_a_thread_reports_and_once_more_at_the_end(store: Store) -> None:
    asked, counts = threading.Event(), {"done": 0}

    def numbers() -> dict[str, int]:
        asked.set()
        return counts

    with reporting(store, "work", "one", numbers):
        assert asked.wait(30)
        counts = {"done": 7}
    (_, last) = reports_in(store, "work")[-1]
    assert (last["done"], last["ended"]) == (7, True)


def test_what_a_source_that_lands_says_is_what_the_page_says(store: Store) -> None:
    numbers = IngestNumbers("mqtt", "plant")
    assert numbers() == {"source": "mqtt", "series": "plant", "received": 0, "landed": 0, "malformed": 0}
    numbers.look(MqttCounts(received=3, landed=2))
    Reporter(store, "ingest", "host-plant", numbers).run_once()
    ((row, body),) = reports_in(store, "ingest")
    assert keys_of(body) == documented("ingest")
    assert (json.loads(row.body)["received"], body["landed"]) == (3, 2)


def test_reports_go_on_after_a_system_exit_in_their_thread(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    said = 0

    def numbers() -> dict[str, int]:
        nonlocal said
        said += 1
        if said == 1:
            raise SystemExit(3)
        return {"said": said}

    with reporting(store, "work", "one", numbers):
        wait_until(lambda: bool(reports_in(store, "work")))
    assert reports_in(store, "work")[0][1]["said"] == 2
    assert "SystemExit" in caplog.text
