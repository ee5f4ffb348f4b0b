"""Texts and plots become one page; text of a run cannot become markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo.report.page import Picture, render
from lab.demo.report.plots import draw_leadership
from pykraft.page.plot_theme import drawing, to_svg
from pykraft.page.template import PLACE
from tests.browser import OpenPage
from tests.lab.demo.stories import BEGIN_MS, KILL, RESTARTED_MS, story
from tests.look import WIDTHS, faults_of

pytestmark = pytest.mark.spark
STORY = story()


def test_every_place_of_the_page_is_filled_and_pictures_are_in_it() -> None:
    picture = Picture(name="one", title="One & only", reading="Look", wide="<svg>w</svg>", narrow="<svg>n</svg>")
    page = render(STORY, [picture])
    assert not PLACE.findall(page)
    assert '<div class="plot wide"><svg>w</svg></div>' in page
    assert "<h2>One &amp; only</h2>" in page


def test_what_a_run_says_cannot_become_part_of_the_page(open_page: OpenPage, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> @tiles@"
    comparison = replace(STORY.result.comparison, are_identical=False, problems=(evil,))
    path = tmp_path / "index.html"
    path.write_text(render(replace(STORY, result=replace(STORY.result, comparison=comparison)), []))
    page = open_page(path)
    assert evil in page.inner_text("header")
    assert page.locator("script").count() == 0


@pytest.mark.parametrize(("killed_s", "nodes"), [(0.5, 3), (18.0, 3), (27.5, 9)])
def test_labels_fit_a_phone_whenever_the_leader_was_killed(
    open_page: OpenPage, tmp_path: Path, killed_s: float, nodes: int
) -> None:
    later_ms = round(killed_s * 1_000) - (KILL.killed_wall_ms - BEGIN_MS)
    kill = replace(KILL, killed_wall_ms=KILL.killed_wall_ms + later_ms, restarted_wall_ms=RESTARTED_MS + later_ms)
    changed = replace(STORY, kills=(kill,), options=replace(STORY.options, nodes=nodes))
    with drawing("one", height_inches=0.75 + 0.46 * nodes, is_narrow=True) as figure:
        draw_leadership(figure, changed)
        svg = to_svg(figure, label="who led")
    path = tmp_path / "index.html"
    path.write_text(render(changed, [Picture(name="one", title="Who led", reading="Look", wide="", narrow=svg)]))
    page = open_page(path, width=WIDTHS[0])
    assert f"killed with -9 at {killed_s} s" in (page.locator("#one .narrow svg").text_content() or "")
    assert f"After {killed_s} seconds" in page.inner_text("header")
    assert faults_of(page) == []
