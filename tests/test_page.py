"""Templates are filled once, in one frame, and the shared style comes first.

Problems of a page are noticed: errors, warnings, and requests to other places.

Each fault of a page's look is noticed, and a page without one has none.
"""

from pathlib import Path

import pytest

from pykraft.page import HERE, render_page
from tests.browser import OpenPage
from tests.look import WIDTHS, faults_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "body.html").write_text("<h1>@title@</h1><p>@text@</p>\n")
    (tmp_path / "page.css").write_text("h1 { color: var(--good); }\n")
    return tmp_path


def test_every_place_is_filled_and_a_part_is_not_searched(folder: Path) -> None:
    page = render_page(folder, {"title": "t", "text": "a@title@b"})
    assert "<title>t</title>" in page
    assert "<body>\n<h1>t</h1><p>a@title@b</p>\n</body>" in page


def test_a_place_without_a_part_is_a_bug(folder: Path) -> None:
    with pytest.raises(KeyError, match="text"):
        render_page(folder, {"title": "t"})


def test_a_pages_own_rules_come_after_the_shared_ones(folder: Path) -> None:
    style = (HERE / "common.css").read_text() + "h1 { color: var(--good); }\n"
    assert f"<style>\n{style}\n</style>" in render_page(folder, {"title": "t", "text": ""})


@pytest.mark.parametrize("has_script", [False, True])
def test_a_page_asks_no_server_and_runs_scripts_only_if_it_has_some(folder: Path, has_script: bool) -> None:
    page = render_page(folder, {"title": "t", "text": ""}, has_script=has_script)
    assert "default-src 'none'" in page
    assert ("script-src" in page) == has_script


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("<script>console.error('oh')</script>", "page.html says: oh"),
        ("<script>console.warn('well')</script>", "page.html says: well"),
        ("<script>throw Error('no')</script>", "page.html raised: no"),
        ("<img src='https://example.com/a.png'>", "page.html asks for https://example.com/a.png"),
        ("<link rel=stylesheet href='other.css'>", "other.css"),
    ],
)
def test_a_page_that_is_not_sound_is_noticed(open_page: OpenPage, tmp_path: Path, html: str, problem: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(html)
    open_page(path)
    assert any(problem in each for each in open_page.problems)
    open_page.problems.clear()


def test_a_page_is_seen_as_its_reader_sees_it(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<style>@media (prefers-color-scheme: dark) { p { color: red } }</style><p>text</p>")
    page = open_page(path, width=390, scheme="dark", anchor="here")
    assert page.evaluate("[innerWidth, location.hash, getComputedStyle(document.querySelector('p')).color]") == [
        390,
        "#here",
        "rgb(255, 0, 0)",
    ]


SVG = '<svg viewBox="0 0 300 200" width="300" height="200" font-size="12">'


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ("<p style='width: 900px'>wide</p>", "the page is 90"),
        ("<p style='width: 40px; overflow: hidden; white-space: nowrap'>cut off here</p>", "text is cut off"),
        ("<p style='position: relative; left: -20px'>out</p>", "text leaves the window"),
        ("<p>one</p><p style='margin-top: -24px'>two</p>", "texts overlap"),
        ("<p style='color: #999'>pale</p>", "contrast 2.85"),
        ("<p style='opacity: 0.5'>pale</p>", "contrast 3.98"),
        ("<p style='font-size: 9px'>tiny</p>", "text of 9 px"),
        (f"{SVG}<text x='280' y='20'>outside</text></svg>", "a label leaves its drawing"),
        (f"{SVG}<text x='9' y='20'>one</text><text x='9' y='24'>two</text></svg>", "labels overlap"),
        (f"{SVG}<text x='9' y='20' font-size='8'>tiny</text></svg>", "a label of 8.0 px"),
        (f"{SVG}<path d='M0 0H90V30H0Z' fill='#333'/><text x='9' y='20'>dark</text></svg>", "contrast 1.66: label"),
        ("<canvas id='c' width='300' height='20'></canvas>", "the picture #c has 300 x 20 px"),
        ("<canvas id='c' width='300' height='200'></canvas>", "the picture #c is empty"),
        ("<button style='height: 12px'>b</button>", "a control of"),
    ],
)
def test_a_fault_is_noticed(open_page: OpenPage, tmp_path: Path, html: str, fault: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><meta name=viewport content='width=device-width'><body>{html}</body>")
    found = faults_of(open_page(path, width=WIDTHS[0]))
    assert [fault in each for each in found] == [True]


def test_what_a_reader_can_scroll_to_or_cannot_use_is_no_fault(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><style>div { overflow: auto } b { position: relative; display: block; width: 900px }"
        " button { color: #ccc; height: 30px; width: 60px }</style>"
        f"<div><pre><b>wide</b></pre></div><button disabled>off</button>"
        f"{SVG}<text x='9' y='20'>one</text><text x='9' y='44'>two</text></svg>"
    )
    assert faults_of(open_page(path, width=WIDTHS[0])) == []
