"""A real browser for tests of pages: the machine's Chromium, without a window, driven by Playwright.

Every page that a test opens is watched. The test fails at its end if a page wrote an error or a warning to its console,
raised an error, or requested anything but its own file: each of our pages is one file and works without a network.
Tests check the content of the pages.

A test that uses `open_page` has the marker ``browser``. Playwright keeps an event loop running in its thread while a
browser is up, and nothing else may run one there. So a browser lives as long as its test module, and a module that
looks at pages does nothing with asyncio.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urldefrag

import pytest

if TYPE_CHECKING:  # imported when a browser starts
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

DESKTOP_WIDTH = 1280
PHONE_WIDTH = 390
HEIGHT = 844
NAME = "chromium"
MISSING = "there is no Chromium, and pages are looked at in it. On Debian: apt-get install chromium"
INLINE = ("data:", "blob:")


class OpenPage:
    """Opens files in a browser, and notes what is wrong with them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.problems: list[str] = []

    def __call__(
        self, path: Path, *, width: int = DESKTOP_WIDTH, scheme: Literal["light", "dark"] = "light", anchor: str = ""
    ) -> Page:
        """The loaded page, in a window of so many pixels, by somebody who prefers this color scheme.

        ``anchor`` is what stands behind the ``#`` of the address.
        """
        url = path.resolve().as_uri()
        context = self._browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        page = context.new_page()

        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.problems.append(f"{path.name} says: {message.text}")

        def on_request(request: Request) -> None:
            if urldefrag(request.url).url != url and not request.url.startswith(INLINE):
                self.problems.append(f"{path.name} asks for {request.url}")

        page.on("console", on_console)
        page.on("request", on_request)
        page.on("pageerror", lambda error: self.problems.append(f"{path.name} raised: {error}"))
        page.goto(f"{url}#{anchor}" if anchor else url)
        return page

    def close(self) -> None:
        """Close all pages."""
        for context in self._browser.contexts:
            context.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what opens pages, before -m chooses."""
    for item in items:
        if "open_page" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's Chromium; ``CHROMIUM`` in the environment names another one."""
    from playwright.sync_api import sync_playwright

    found = shutil.which(os.environ.get("CHROMIUM", NAME))
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    with sync_playwright() as playwright:
        # The sandbox wants a user other than root, whom CI does not have; what is opened here was made here.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens files as pages; see `OpenPage`."""
    opener = OpenPage(browser)
    yield opener
    opener.close()
    assert not opener.problems
