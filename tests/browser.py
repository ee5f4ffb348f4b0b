"""A real browser for tests of pages: the machine's Chromium, without a window, driven by Playwright.

Every page that a test opens is watched. The test fails at its end if a page wrote an error or a warning to its console,
raised an error, or requested anything but its own file: each of our pages is one file and works without a network.
Tests check the content of the pages.

A test that uses `open_page` has the marker ``browser``. Playwright keeps an event loop running in its thread while a
browser is up, and nothing else may run one there. So a browser lives as long as its test module, and a module that
looks at pages does nothing with asyncio.

A window costs the browser half a second of processor time. So a test gets the windows of the tests before it, blank
again; what our pages could leave behind in a browser, such as cookies, none of them uses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urldefrag

import pytest

if TYPE_CHECKING:  # imported when a browser starts
    from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, Request

DESKTOP_WIDTH = 1280
HEIGHT = 844
NAME = "chromium"
MISSING = "there is no Chromium, and pages are looked at in it. On Debian: apt-get install chromium"
BLANK = "about:blank"
INLINE = ("data:", "blob:")


class OpenPage:
    """Opens files in the windows of a browser, and notes what is wrong with them."""

    def __init__(self, windows: BrowserContext) -> None:
        self._windows = windows
        self._watches: dict[Page, Mapping[str, Callable[[Any], None]]] = {}
        self.problems: list[str] = []

    def __call__(
        self, path: Path, *, width: int = DESKTOP_WIDTH, scheme: Literal["light", "dark"] = "light", anchor: str = ""
    ) -> Page:
        """The loaded page, in a window of so many pixels, by somebody who prefers this color scheme.

        ``anchor`` is what stands behind the ``#`` of the address.
        """
        url = path.resolve().as_uri()
        page = next((each for each in self._windows.pages if each not in self._watches), None)
        page = page or self._windows.new_page()
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(media="screen", color_scheme=scheme, reduced_motion="reduce")
        self._watch(page, path.name, url)
        page.goto(f"{url}#{anchor}" if anchor else url)
        return page

    def close(self) -> None:
        """Leave all pages, so that they say nothing more."""
        for page, watches in self._watches.items():
            page.goto(BLANK)
            for event, watch in watches.items():
                page.remove_listener(event, watch)
        self._windows.clear_permissions()

    def _watch(self, page: Page, name: str, url: str) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.problems.append(f"{name} says: {message.text}")

        def on_request(request: Request) -> None:
            if urldefrag(request.url).url != url and not request.url.startswith(INLINE):
                self.problems.append(f"{name} asks for {request.url}")

        def on_error(error: Error) -> None:
            self.problems.append(f"{name} raised: {error}")

        page.on("console", on_console)
        page.on("request", on_request)
        page.on("pageerror", on_error)
        self._watches[page] = {"console": on_console, "request": on_request, "pageerror": on_error}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what opens pages, before -m chooses."""
    for item in items:
        if "open_page" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.fixture(scope="module")
def windows() -> Iterator[BrowserContext]:
    """Those of the machine's Chromium; ``CHROMIUM`` in the environment names another one."""
    from playwright.sync_api import sync_playwright

    found = shutil.which(os.environ.get("CHROMIUM", NAME))
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    with sync_playwright() as playwright:
        # The sandbox wants a user other than root, whom CI does not have; what is opened here was made here.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started.new_context(offline=True)
        started.close()


@pytest.fixture
def open_page(windows: BrowserContext) -> Iterator[OpenPage]:
    """Opens files as pages; see `OpenPage`."""
    opener = OpenPage(windows)
    yield opener
    opener.close()
    assert not opener.problems
