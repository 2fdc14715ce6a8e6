"""The pages, in a real browser, over the store of a fleet: open, act, see the change arrive."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from batchline.core.message import NewMessage
from batchline.errors import UnknownMessage
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service.in_thread import serve_in_thread
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.browser import fleet
from tests.browser.conftest import PHONE, Reader

SHOWN = {
    "overview": "/",
    "timeline": "/timeline?topic=orders&range=month&message=order-4711",
    "fanouts": "/fanouts",
    "fanout": "/fanouts/import%2F3",
}
LOOKS = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        fleet.fill(store)
        with fleet.reporting(store):
            yield store


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with serve_in_thread(store) as url:
        yield url


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_and_is_kept_as_a_picture(browser: Browser, url: str, look: str) -> None:
    reader = Reader(browser, **LOOKS[look])
    for name, address in SHOWN.items():
        page = reader.open(url + address)
        expect(page.locator(".card").first).to_be_visible()
        assert not reader.is_too_wide(), name
        reader.shoot(f"{name}-{look}")
    reader.context.close()
    reader.check()


# --- overview ---


def test_the_overview_shows_rates_backlogs_and_what_needs_attention(reader: Reader, url: str) -> None:
    page = reader.open(url)
    stages = page.locator(".stage")
    expect(stages).to_have_count(8)
    expect(page.locator("[data-stage=batcher]")).to_contain_text("open")
    attention = page.locator(".attention")
    for text in (
        "import/3 failed",
        "3 dead letters on orders-dead",
        "backfill-2026-10 is stuck",
        "worker-2 reports no more",
    ):
        expect(attention).to_contain_text(text)
    expect(page.locator(".rejections")).to_contain_text("duplicate")
    page.locator("[data-stage=timeline]").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Timeline")


def test_what_happens_arrives_on_the_overview_without_reloading(reader: Reader) -> None:
    with open_store("memory://") as store, serve_in_thread(store) as url:
        store.migrate()
        page = reader.open(url)
        expect(page.locator(".attention")).to_contain_text("All is well")
        expect(page.locator(".topics")).to_contain_text("batchline topic create")
        timeline = Timeline(store)
        timeline.create_topic("invoices")
        timeline.create("invoices", [b"due at once"], producer_group="local")
        expect(page.locator(".topics")).to_contain_text("invoices")
        expect(page.locator(".attention")).to_contain_text("nobody consumes invoices")
        expect(page.locator("#said")).to_contain_text("needs attention")


# --- timeline ---


def test_the_load_is_drawn_for_each_range_and_read_by_keys(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/timeline?topic=orders")
    for name in ("minute", "day", "month", "hour"):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("img", name=f"due in the next {name}")).to_be_visible()
        assert f"range={name}" in page.url
    page.locator("svg.plot").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("messages")
    page.get_by_text("As a table").click()
    expect(page.locator(".as-table tbody tr")).to_have_count(60)
    page.get_by_label("Topic").select_option("reminders")
    expect(page.get_by_role("img", name="Messages on reminders")).to_be_visible()


def test_a_message_is_looked_up_moved_and_moved_back(reader: Reader, url: str, store: Store) -> None:
    timeline = Timeline(store)
    at_ms = timeline.now_ms() // 1_000 * 1_000 + 3_600_000
    moved = datetime.fromtimestamp(at_ms / 1_000, UTC) + timedelta(days=40)
    told = f"{moved.day} {moved:%b}"
    timeline.create("reminders", [NewMessage(b"call <b>Ada</b>", at_ms, "call/1")], producer_group="sales")
    page = reader.open(f"{url}/timeline?topic=reminders")
    page.keyboard.press("/")
    page.keyboard.type("call/1")
    page.keyboard.press("Enter")
    found = page.locator(".found")
    expect(found).to_contain_text("call <b>Ada</b>")
    expect(found).to_contain_text("sales")
    page.get_by_role("button", name="Move…").click()
    page.get_by_label("New moment").fill(f"{moved:%Y-%m-%dT18:00:00}")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(found).to_contain_text(told)
    page.get_by_role("button", name="Undo").click()
    expect(found).not_to_contain_text(told)
    assert timeline.read_any("reminders", "call/1").at.timestamp() * 1_000 == at_ms


def test_a_message_is_cancelled_after_a_question_unless_that_is_taken_back(
    reader: Reader, url: str, store: Store
) -> None:
    reader.expected = ("404",)
    timeline = Timeline(store)
    ahead = NewMessage(b"later", timeline.now_ms() + 3_600_000, "call-2")
    timeline.create("reminders", [ahead], producer_group="sales")
    page = reader.open(f"{url}/timeline?topic=reminders&message=call-2")
    page.get_by_role("button", name="Cancel it…").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Cancel it…").click()
    page.get_by_role("button", name="Cancel the message").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("call-2 stays.")).to_be_visible()
    assert timeline.read_any("reminders", "call-2").state == "waiting"
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Cancel it…").click()
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_text("about to be cancelled")).to_be_visible()
    page.get_by_role("button", name="Close").click()  # or wait for five seconds
    expect(page.locator(".found")).to_contain_text("It is gone")
    with pytest.raises(UnknownMessage):
        timeline.read_any("reminders", "call-2")


# --- fanouts ---


def test_stuck_fanouts_stand_on_top_and_filters_are_in_the_address(reader: Reader, url: str) -> None:
    page = reader.open(f"{url}/fanouts")
    rows = page.locator(".fanout")
    expect(rows.first).to_contain_text("backfill-2026-10")
    expect(rows.first).to_contain_text("nothing happened for 47 min")
    page.get_by_role("button", name="Complete").click()
    expect(rows).to_have_count(fleet.ENDED_FANOUTS)
    expect(rows.first).to_contain_text("nightly-12")
    page.get_by_label("Label").fill("job=import")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_contain_text("None is as you ask")
    page.get_by_role("button", name="All").click()
    expect(rows).to_have_count(2)
    assert page.url == f"{url}/fanouts?state=all&label=job%3Dimport"


def test_an_ack_arrives_on_the_page_of_a_fanout(reader: Reader, url: str, store: Store) -> None:
    tracker = Tracker(store)
    items = fleet.opened(tracker, "live/1", 200)
    page = reader.open(f"{url}/fanouts/live%2F1")
    expect(page.locator(".items li")).to_have_count(50)
    tracker.ack(items[:190])
    tracker.fail(items[190:191], "out of range")
    expect(page.locator("dl.facts")).to_contain_text("190 · 95 %")
    expect(page.locator(".items")).to_have_count(2)
    expect(page.get_by_text("out of range")).to_be_visible()


def test_a_fanout_is_given_up_after_a_question(reader: Reader, url: str, store: Store) -> None:
    tracker = Tracker(store)
    fleet.opened(tracker, "idle-1", 3)
    page = reader.open(f"{url}/fanouts")
    page.get_by_label("Id of a fanout").fill("idle-1")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Give up…").click()
    page.get_by_role("button", name="Give it up").click()
    expect(page.locator(".badge")).to_have_text("expired")
    expect(page.get_by_role("button", name="Give up…")).to_have_count(0)
    assert tracker.status("idle-1").state == "expired"


# --- rights ---


def test_what_a_token_may_not_do_is_not_offered(reader: Reader) -> None:
    reader.expected = ("401", "403", "404")
    with open_store("memory://") as store, serve_in_thread(store) as url:
        store.migrate()
        timeline = Timeline(store)
        for name in ("orders", "secret"):
            timeline.create_topic(name)
            timeline.create(name, [NewMessage(b"x", timeline.now_ms() + 60_000_000, "m")], producer_group="sales")
        Tracker(store).open("foreign", labels={"producer_group": "sales"})
        tokens = Tokens(store)
        _, reading = tokens.create("reader", producer_group="others", topics=["orders"])
        _, owning = tokens.create("owner", producer_group="sales", topics=["orders"])
        page = signed_in(reader, url, reading)
        expect(page.locator(".topics")).to_contain_text("orders")
        expect(page.locator(".topics")).not_to_contain_text("secret")
        page.goto(f"{url}/fanouts/foreign")
        expect(page.locator(".empty").first).to_contain_text("not yours")
        page.goto(f"{url}/timeline?topic=orders&message=m")
        expect(page.locator(".found")).to_contain_text("cannot be shown")
        page.locator("#who").click()
        page = signed_in(reader, f"{url}/timeline?topic=orders&message=m", owning)
        expect(page.get_by_role("button", name="Move…")).to_be_visible()


def signed_in(reader: Reader, url: str, text: str) -> Page:
    reader.page.goto(url)
    reader.page.get_by_label("Token").fill(text)
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_selector("#live[data-state=fresh]")
    return reader.page
