"""Problems of a page are noticed: errors, warnings, and requests to other places."""

from pathlib import Path

import pytest

from tests.browser import OpenPage


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
