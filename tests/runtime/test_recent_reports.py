"""What processes have reported lately."""

import json
from datetime import timedelta

from batchline.runtime.recent_reports import RecentReports, counts_of, latest
from batchline.stores.opening import open_store
from batchline.stores.report_rows import ReportRow
from batchline.stores.store import Store
from tests.doubles import HandClock


def say(store: Store, at_ms: int, name: str = "a", **numbers: object) -> None:
    row = ReportRow("work", name, at_ms, json.dumps(numbers))
    store.transact(lambda rows: rows.insert_reports([row]))


def test_reports_are_read_once_and_forgotten_when_they_are_old() -> None:
    clock = HandClock()
    clock.us = 100_000_000
    with open_store("memory://") as store:
        store.migrate()
        recent = RecentReports(store, keep=timedelta(seconds=60), clock=clock)
        say(store, 30_000, started_ms=1)
        say(store, 90_000, started_ms=1, parcels={"delivered": 5})
        assert [one.at_ms for one in recent.read()] == [90_000]
        say(store, 85_000, "b")  # came late
        say(store, 110_000)
        clock.us = 110_000_000
        assert [one.at_ms for one in recent.read()] == [85_000, 90_000, 110_000]
        clock.us = 200_000_000
        assert recent.read() == []


def test_a_process_is_live_until_it_says_that_it_ended_or_says_nothing() -> None:
    clock = HandClock()
    clock.us = 100_000_000
    with open_store("memory://") as store:
        store.migrate()
        say(store, 95_000, started_ms=1, parcels={"delivered": 5})
        say(store, 99_000, "b", ended=True)
        say(store, 80_000, "c")
        reports = RecentReports(store, clock=clock).read()
        assert {one.name: one.is_live(100_000) for one in latest(reports)} == {"a": True, "b": False, "c": False}
        assert [tuple(one) for one in counts_of(reports, "work", "parcels.delivered")][1] == ("a", 1, 95_000, 5.0)
        assert reports[0].number("no.such.number") == 0
