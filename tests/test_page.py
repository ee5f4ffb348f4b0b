"""Templates are filled once, in one frame, and the shared style comes first."""

from pathlib import Path

import pytest

from pykraft.page import HERE, render_page


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
