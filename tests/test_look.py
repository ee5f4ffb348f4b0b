"""Each fault of a page's look is noticed, and a page without one has none."""

from pathlib import Path

import pytest

from tests.browser import OpenPage
from tests.look import WIDTHS, faults_of

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
