"""The frame of all pages, in a real browser."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from batchline.runtime.tokens import Tokens
from batchline.service.in_thread import serve_in_thread
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.browser.conftest import PHONE, Reader

PAGES = ("Overview", "Timeline", "Fanouts", "Capacity", "Pipeline")
ADDRESSES = ("/", "/timeline", "/fanouts", "/capacity", "/pipeline")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        store.migrate()
        yield store


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with serve_in_thread(store) as url:
        yield url


def test_every_page_has_an_address_and_is_reached_by_keys(reader: Reader, url: str) -> None:
    page = reader.open(url)
    for title, address in zip(PAGES, ADDRESSES, strict=True):
        page.keyboard.press("g")
        page.keyboard.press(title[0].lower())
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.locator("nav a[aria-current=page]")).to_have_text(title)
        assert page.url == f"{url}{address}"
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Capacity")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Capacity")


def test_the_keys_are_told_and_the_frame_is_used_without_a_mouse(reader: Reader, url: str) -> None:
    page = reader.open(url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_page_that_nobody_sees_asks_nothing(reader: Reader, url: str) -> None:
    page = reader.open(url)
    hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
    tell = " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide + tell, True)
    expect(page.locator("#live")).to_have_text("paused")
    page.evaluate(hide + tell, False)
    expect(page.locator("#live")).to_have_text("live")


def test_light_and_dark_follow_the_system_until_the_reader_chooses(browser: Browser, url: str) -> None:
    reader = Reader(browser, color_scheme="dark")
    page = reader.open(url)
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Colours: as the system").click()
    light = page.evaluate(paper)
    assert light != dark
    page.reload()
    page.get_by_role("button", name="Colours: light").wait_for()
    assert page.evaluate(paper) == light
    reader.context.close()
    reader.check()


def test_the_frame_fits_a_phone(browser: Browser, url: str) -> None:
    reader = Reader(browser, **PHONE)
    reader.open(url)
    assert not reader.is_too_wide()
    reader.context.close()


def test_a_service_that_is_gone_is_told_and_the_page_goes_on_when_it_is_back(reader: Reader, store: Store) -> None:
    reader.expected = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    with ExitStack() as first:
        url = first.enter_context(serve_in_thread(store))
        page = reader.open(url)
        first.close()
    page.keyboard.press("r")
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(page.get_by_role("alert")).to_contain_text("Last seen")
    with serve_in_thread(store, url.removeprefix("http://")):
        page.keyboard.press("r")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#said")).to_have_text("The service is back.")


def test_where_there_are_tokens_a_page_asks_for_one_and_keeps_it_to_its_tab(reader: Reader) -> None:
    reader.expected = ("401",)
    with open_store("memory://") as store, serve_in_thread(store) as url:
        store.migrate()
        _, text = Tokens(store).create("Ada", producer_group="orders", topics=["*"])
        page = reader.page
        page.goto(url)
        page.get_by_label("Token").fill("bl_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not know this token")
        page.get_by_label("Token").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator("#who")).to_have_text("Ada · sign out")
        assert text not in page.content()
        assert page.url == f"{url}/"
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        page.reload()
        page.locator("#who").click()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()


def test_files_have_a_strict_policy_and_are_kept_as_long_as_they_are_the_same(url: str) -> None:
    for address in ("/", "/pages/shell.js", "/pages/style.css"):
        first = httpx2.get(url + address)
        assert "script-src 'self'" in first.headers["content-security-policy"]
        assert first.headers["x-content-type-options"] == "nosniff"
        again = httpx2.get(url + address, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert httpx2.get(f"{url}/pages/..%2Fapp.py").status_code == 404
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as raw:
        raw.sendall(b"GET /pages/../app.py HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert b" 404 " in raw.recv(100)
