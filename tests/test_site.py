"""The site of the documentation, built and seen in a browser: it fits every window and asks no other host."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.tidy.repository import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@in_all_windows
@pytest.mark.parametrize("name", ["index.html", "cli/index.html"])
def test_a_page_looks_right_and_asks_no_other_host(
    open_page: OpenPage, site: Path, name: str, width: int, scheme: Scheme
) -> None:
    page = open_page(site / name, width=width, scheme=scheme)
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.dataset.bsTheme") == scheme
    assert page.locator(".codehilite span").count() > 0
    forget_own_files(open_page)


def test_every_page_looks_right_where_the_list_of_its_sections_stands_beside_it(
    open_page: OpenPage, site: Path
) -> None:
    pages = sorted(site.glob("*/index.html"))
    assert len(pages) > 15
    page = open_page(pages[0], width=800, scheme="light")
    faults: dict[str, list[str]] = {}
    for path in pages:
        page.goto(path.as_uri())
        if found := faults_of(page):
            faults[path.parent.name] = found
    assert faults == {}
    forget_own_files(open_page)


def forget_own_files(open_page: OpenPage) -> None:
    """The site's files lie beside its pages; search needs a server, since a page of a file may not fetch one."""
    open_page.problems[:] = [
        each for each in open_page.problems if "asks for file:" not in each and "file:" not in each
    ]
