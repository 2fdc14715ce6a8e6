"""One browser for all tests in a row, a fresh context for each; what a page must not do fails its test."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

IN_CI = os.environ.get("CI") == "true"
SCREENSHOTS = Path("build/screenshots")
#: Chromium draws without a graphics card, and runs as whoever runs the tests.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
DESK = {"width": 1280, "height": 900}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
#: Other tests run at the same time; it costs nothing where all is well.
PATIENCE_MS = 30_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The Chromium of Debian; without it the test is skipped, but never in CI.

    As long as it is there an event loop runs in this thread: so it ends before tests of other rooms.
    """
    program = shutil.which("chromium")
    if program is None:
        said = "chromium is not installed: run scripts/servers.sh"
        pytest.fail(said, pytrace=False) if IN_CI else pytest.skip(said)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


class Reader:
    """Somebody with a browser, who notes what a page must not do: errors, and requests to other hosts."""

    def __init__(self, browser: Browser, **settings: Any) -> None:
        self.context: BrowserContext = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce"} | settings)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.hosts: set[str] = set()
        self.expected: tuple[str, ...] = ()
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(words in text for words in self.expected):
            self.wrong.append(text)

    def open(self, url: str) -> Page:
        """Open an address, and wait until the page shows what it was told."""
        self.page.goto(url)
        self.page.wait_for_selector("#live[data-state=fresh]")
        return self.page

    def check(self) -> None:
        """Nothing went wrong."""
        assert self.wrong == []
        assert len(self.hosts) <= 1

    def shoot(self, name: str) -> None:
        """Keep a picture of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def is_too_wide(self) -> bool:
        """Whether one would have to scroll sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """Somebody at a desk."""
    reader = Reader(browser)
    yield reader
    reader.context.close()
    reader.check()
