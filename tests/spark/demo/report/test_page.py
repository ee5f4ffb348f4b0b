"""Texts and plots become one page; text of a run cannot become markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.spark.demo.report.page import PLACE, Picture, render
from tests.browser import OpenPage
from tests.spark.demo.stories import story

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
