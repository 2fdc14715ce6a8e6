"""The pages of capacity and of the pipeline, in a real browser: open, act, see the change arrive."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from batchline.cli.live_tables import LiveTables
from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batcher import EventTimeBatcher
from batchline.core.measurement import Measurement
from batchline.core.moment import moment_of
from batchline.core.partitions import Asking
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.clock import now_us
from batchline.runtime.tokens import Tokens
from batchline.stores.opening import open_store
from batchline.stores.report_rows import ReportRow
from batchline.stores.store import Store
from tests.browser import fleet
from tests.browser.conftest import PHONE, Reader
from tests.service.serving import serving

SHOWN = {"capacity": "/capacity", "pipeline": "/pipeline?key=pump-0004"}
LOOKS = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}
MINUTES = 4
SECOND_US = 1_000_000
TYPES = ("flow", "pressure", "temperature")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        store.migrate()
        share(store)
        store.transact(lambda rows: rows.insert_reports(list(reported())))
        yield store


@pytest.fixture(scope="module")
def url(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tables = tmp_path_factory.mktemp("tables")
    write_windows(LiveTables(tables))
    with serving(store, tables=tables) as url:
        yield url


# --- what is shown ---


def share(store: Store) -> None:
    """A capacity of 24 partitions in the hands of three workers; one partition is free."""
    leases = StoreLeases(store, "receiver-api")
    leases.provision(24, "shared=240.0 factor=10.0", now_us())
    for name, numbers in (("worker-1", range(10)), ("worker-2", range(10, 18)), ("worker-3", range(19, 24))):
        leases.acquire(name, numbers, 24, 600_000, now_us())
        leases.ask(Asking(name, 12, tuple(numbers)), 600_000, now_us())


def reported() -> Iterator[ReportRow]:
    """What four processes said in the last minutes; for a while the workers were paused."""
    now_ms = now_us() // 1_000
    began_ms = now_ms - MINUTES * 60_000
    for at_ms in range(began_ms, now_ms, 2_000):
        done = (at_ms - began_ms) / 1_000
        pause = 60 <= done < 76
        for number, partitions in enumerate((10, 8, 5), 1):
            held = partitions if number < 3 or done > 40 else 0
            used = partitions * 8 * (worked(done) if number < 3 else max(worked(done) - 40, 0))
            yield work_row(f"worker-{number}", at_ms, began_ms, held, used=used, paused=pause)
        numbers = fleet.run_numbers(done * 400 + 900 * math.sin(done / 20), done) | {
            "epochs": [epoch(int(done), at_ms)],
            "open_batches": 12,
        }
        yield row("run", "plant", at_ms, began_ms, numbers)


def worked(done: float) -> float:
    """For how many seconds was worked, now faster, now slower, and not at all in the pause."""
    busy = done - min(max(done - 60, 0), 16)
    return busy + 1.5 * math.sin(busy / 9)  # it never falls: a counter that does has begun anew


def work_row(name: str, at_ms: int, began_ms: int, held: int, *, used: float, paused: bool) -> ReportRow:
    capacity = {
        "name": "receiver-api", "shared": True, "cost": "measurement", "limit": 240, "granted": held * 10,
        "wanted": 120, "instance": name, "partitions": held, "errors": 0,
    }  # fmt: skip
    numbers = fleet.work_numbers(used) | {"used": used, "paused": paused, "waiting": 6, "capacity": capacity}
    return row("work", name, at_ms, began_ms, numbers)


def epoch(number: int, at_ms: int) -> dict[str, Any]:
    took_ms = 240 + 30 * (number % 7)
    return {"epoch": number, "at_ms": at_ms, "rows": 400, "duration_ms": took_ms, "rows_per_second": 400_000 / took_ms}


def row(kind: str, name: str, at_ms: int, began_ms: int, numbers: dict[str, Any]) -> ReportRow:
    return ReportRow(kind, name, at_ms, json.dumps({"started_ms": began_ms, "ended": False} | numbers))


def write_windows(tables: LiveTables, keys: int = 9, seconds: int = 20) -> None:
    """Windows of some keys, of one with a late, an early and a repeated message; and of one nothing but late ones."""
    began_us = (now_us() // SECOND_US - 60) * SECOND_US
    batcher, rejected = EventTimeBatcher(), []
    for message in sorted(messages(began_us, keys, seconds), key=lambda one: one.receive_us):
        verdict = batcher.add(message)
        if not verdict.accepted:
            rejected.append((plain(message), verdict))
    batcher.advance(moment_of(now_us()))
    tables.write(batcher.closed(), rejected, now_us())


def messages(began_us: int, keys: int, seconds: int) -> Iterator[Measurement]:
    for second in range(seconds):
        at_us = began_us + second * SECOND_US
        for number in range(keys):
            for place, type_ in enumerate(TYPES):
                event_us = at_us + 20_000 * place + 1_000 * number
                yield Measurement.from_us(f"pump-{number:04}", type_, event_us, event_us + 40_000 + 30_000 * place)
        yield Measurement.from_us("slow-0001", "flow", at_us - 30 * SECOND_US, at_us)
    last_us = began_us + (seconds - 2) * SECOND_US
    yield Measurement.from_us("pump-0004", "flow", last_us - 2_000_000, last_us)
    yield Measurement.from_us("pump-0004", "flow", last_us + 1_500_000, last_us + 100_000)
    yield Measurement.from_us("pump-0004", "flow", last_us + 4_000, last_us + 200_000)


def plain(message: Measurement) -> dict[str, Any]:
    return {
        "key": message.key,
        "type": message.type,
        "event_time": message.event_us,
        "receive_time": message.receive_us,
    }


@pytest.mark.parametrize("look", LOOKS)
def test_both_pages_fit_and_are_kept_as_pictures(browser: Browser, url: str, look: str) -> None:
    reader = Reader(browser, **LOOKS[look])
    for name, address in SHOWN.items():
        page = reader.open(url + address)
        expect(page.locator(".card").first).to_be_visible()
        expect(page.locator(".windows-plot circle" if name == "pipeline" else ".partition").first).to_be_visible()
        assert not reader.is_too_wide(), name
        reader.shoot(f"{name}-{look}")
    reader.context.close()
    reader.check()


# --- capacity ---


def test_capacity_shows_who_holds_what_and_what_is_used(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/capacity")
    card = page.get_by_role("region", name="Capacity receiver-api")
    expect(card).to_contain_text("shared by 3")
    expect(card).to_contain_text("23 of 24")
    expect(card.locator(".partition.free")).to_have_count(1)
    expect(card.get_by_role("row", name="worker-2")).to_contain_text("8: 10–17")
    expect(card.get_by_role("img", name="Who holds what of receiver-api")).to_be_visible()
    expect(card.locator(".span.warn").first).to_be_attached()
    expect(card).to_contain_text("shaded: paused")
    chart = card.get_by_role("img", name="Rate used of receiver-api")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(card.locator(".readout").nth(1)).to_contain_text("together")


def test_the_values_at_the_cursor_stay_when_another_range_has_fewer_columns(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/capacity")
    card = page.get_by_role("region", name="Capacity receiver-api")
    readout = card.locator(".readout").nth(1)
    card.get_by_role("img", name="Rate used of receiver-api").focus()
    page.keyboard.press("End")
    expect(readout).to_contain_text("together")
    before = readout.inner_text()
    button = page.get_by_role("button", name="15 min")
    button.evaluate("button => button.click()")  # the chart keeps the focus
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(readout).not_to_have_text(before)
    expect(readout).to_contain_text("together")


def test_an_instance_that_comes_is_seen_without_reloading(reader: Reader) -> None:
    with open_store("memory://") as store, serving(store) as url:
        store.migrate()
        page = reader.open(f"{url}/capacity")
        expect(page.locator(".empty")).to_contain_text("batchline work --capacity")
        share(store)
        page.keyboard.press("r")
        expect(page.get_by_role("row", name="worker-3")).to_contain_text("5: 19–23")
        expect(page.get_by_role("row", name="worker-3")).to_contain_text("not reporting")
        StoreLeases(store, "receiver-api").release("worker-3", range(19, 24), now_us())
        page.keyboard.press("r")
        expect(page.get_by_role("row", name="worker-3")).to_contain_text("none")
        expect(page.locator(".partition.free")).to_have_count(6)


def test_who_has_gone_is_still_seen_and_one_looks_as_far_back_as_need_be(reader: Reader) -> None:
    with open_store("memory://") as store, serving(store) as url:
        store.migrate()
        ago_ms = now_us() // 1_000 - 600_000
        rows = [
            work_row("worker-1", ago_ms + at, ago_ms, 5, used=at / 10, paused=False) for at in range(0, 20_000, 2_000)
        ]
        store.transact(lambda given: given.insert_reports(rows))
        page = reader.open(f"{url}/capacity")
        expect(page.get_by_role("row", name="worker-1")).to_contain_text("gone, seen 9 min")
        expect(page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("img", name="Rate used of receiver-api")).to_be_visible()


def test_bands_above_the_limit_are_explained_for_reports_are_made_at_different_moments(reader: Reader) -> None:
    with open_store("memory://") as store, serving(store) as url:
        store.migrate()
        now_ms = now_us() // 1_000
        rows = [
            work_row(name, now_ms - ago_ms, now_ms - 60_000, held, used=0, paused=False)
            for name, ago_ms, held in (("worker-1", 3_000, 20), ("worker-2", 2_000, 4), ("worker-2", 1_000, 14))
        ]
        store.transact(lambda given: given.insert_reports(rows))
        page = reader.open(f"{url}/capacity")
        expect(page.get_by_role("region", name="Capacity receiver-api")).to_contain_text("up to 2 s apart")


# --- pipeline ---


def test_a_run_and_its_epochs_are_shown_and_go_on(reader: Reader, url: str, store: Store) -> None:
    page = reader.open(f"{url}/pipeline")
    for name in ("Rows per second", "Micro-batches: how long each took", "State", "Rejected, by reason"):
        expect(page.get_by_role("region", name=name, exact=True).locator(".marks > *").first).to_be_attached()
    page.get_by_text("The last micro-batches").click()
    now_ms = now_us() // 1_000
    numbers = fleet.run_numbers(200_000, 500) | {"epochs": [epoch(4_711, now_ms)]}
    store.transact(lambda rows: rows.insert_reports([row("run", "plant", now_ms, now_ms - 240_000, numbers)]))
    page.keyboard.press("r")
    expect(page.get_by_role("row", name="4,711")).to_contain_text("400")
    expect(page.locator(".card").first).to_contain_text("running")


def test_a_key_is_searched_and_its_windows_are_paged_and_filtered(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/pipeline?key=pump-0004")
    windows, dots = page.locator(".window-group"), page.locator(".window-group circle")
    expect(windows).to_have_count(8)
    expect(dots).to_have_count(24)
    for reason in ("late", "future", "duplicate"):
        expect(page.locator(".windows-plot text.lane", has_text=reason)).to_have_count(1)
    page.get_by_role("button", name="flow", exact=True).click()
    expect(dots).to_have_count(16)
    page.get_by_role("button", name="← Earlier").click()
    expect(page.get_by_role("button", name="Later →")).to_be_enabled()
    page.get_by_role("button", name="Newest").click()
    page.keyboard.press("/")
    page.keyboard.type("SLOW")
    page.get_by_role("button", name="slow-0001").click()
    expect(page.locator(".windows-card")).to_contain_text("0 batches of 0 messages · rejected: 20 late")
    assert page.url == f"{url}/pipeline?key=slow-0001"
    page.reload()
    expect(page.locator(".windows-card")).to_contain_text("20 late")


def test_windows_are_read_by_keys_and_as_a_table(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/pipeline?key=pump-0004")
    page.get_by_role("img", name="8 windows of pump-0004").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".windows-card .readout")).to_contain_text("closed 400 ms after its end · 3 messages · timeout")
    page.locator(".windows-card summary").click()
    expect(page.locator(".windows-card tbody").first.locator("tr")).to_have_count(8)


def test_a_window_that_closes_is_seen_without_reloading(reader: Reader, tmp_path: Path) -> None:
    with open_store("memory://") as store, serving(store, tables=tmp_path) as url:
        page = reader.open(f"{url}/pipeline")
        expect(page.locator(".empty").first).to_contain_text("batchline run")
        expect(page.locator(".windows-card")).to_contain_text("There is no batch yet")
        batch = Batch("pump-1", 0, 500_000, 900_000, 900_000, CloseReason.TIMEOUT, 0, ())
        late = {"key": "pump-1", "type": "flow", "event_time": 1, "receive_time": 400_000}
        LiveTables(tmp_path).write([batch], [(late, Verdict.LATE)], 0)
        page.keyboard.press("r")
        expect(page.locator(".window-group")).to_have_count(1)
        expect(page.locator(".windows-plot text.lane")).to_have_text("late")


def test_without_tables_the_page_says_how(reader: Reader) -> None:
    with open_store("memory://") as store, serving(store) as url:
        page = reader.open(f"{url}/pipeline")
        expect(page.locator(".windows-card")).to_contain_text("batchline serve --tables DIR")


def test_who_may_not_read_the_tables_sees_the_rest_of_the_page(reader: Reader, tmp_path: Path) -> None:
    reader.expected = ("401", "403")
    with open_store("memory://") as store, serving(store, tables=tmp_path) as url:
        _, text = Tokens(store).create("reader", topics=["orders"])
        page = reader.page
        page.goto(f"{url}/pipeline")
        page.get_by_label("Token").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".windows-card")).to_contain_text("not for all topics")
        expect(page.locator(".empty").first).to_contain_text("batchline run")


# --- the demo ---


def test_serve_demo_starts_and_every_page_is_alive(reader: Reader) -> None:
    with ExitStack() as stack:
        words = [sys.executable, "-m", "batchline", "serve", "--demo", "--listen", "127.0.0.1:0"]
        serving_it = stack.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ))
        stack.callback(serving_it.kill)
        assert serving_it.stderr is not None
        url = serving_it.stderr.readline().split()[-1]
        page = reader.open(f"{url}/capacity")
        expect(page.get_by_role("row", name="worker-a")).to_contain_text("running")
        page.goto(f"{url}/pipeline")
        expect(page.locator(".window-group circle").first).to_be_visible()
        page.goto(f"{url}/timeline")
        expect(page.locator(".plot .bar").first).to_be_attached()
        page.goto(f"{url}/fanouts")
        expect(page.locator(".fanout").first).to_contain_text("nothing happened for 47 min")
        page.goto(url)
        expect(page.locator("[data-stage=sink]")).to_contain_text("/s")
        serving_it.send_signal(signal.SIGINT)
        assert serving_it.wait(20) == 0
        reader.expected = ("ERR_", "Failed to load")
