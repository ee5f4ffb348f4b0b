"""The page of a report: of one run, of two side by side, on a phone, a tablet and a desk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.page.template import PLACE
from pykraft.spark.pipeline.page import LEADERS_SHOWN_MAX, pipeline_page
from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.spark.pipeline.some_runs import epoch, run

EVIL = "<script>alert(1)</script> @totals@"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; one is long, has an evil name, and was not watched."""
    path = tmp_path_factory.mktemp("pipeline") / "page.html"
    path.write_text(pipeline_page([run("runs/one/tables"), run(EVIL, seconds=5_000, is_watched=False)]))
    return path


@in_all_windows
def test_the_page_looks_right(open_page: OpenPage, written: Path, width: int, scheme: Scheme) -> None:
    assert faults_of(open_page(written, width=width, scheme=scheme)) == []


def test_what_tables_say_is_text(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    assert page.locator("script").count() == 0
    assert EVIL in page.inner_text("h1")
    assert page.locator("figure").count() == 6


def test_one_run_has_its_totals_tables_and_leaders() -> None:
    page = pipeline_page([run()])
    assert not PLACE.findall(page)
    assert "<h1>tables</h1>" in page
    assert '<tr><td>records</td><td class="number">59,000</td></tr>' in page
    assert (
        '<tr><td>silver_records</td><td class="number">10,000</td><td class="number">24</td>'
        '<td class="number">6,800,000</td></tr>'
    ) in page
    assert '<td class="number">1,203</td>' in page
    assert "<h3>" not in page


def test_two_runs_stand_side_by_side() -> None:
    page = pipeline_page([run("one"), run("two", pace=5)])
    assert '<thead><tr><th></th><th class="number">one</th><th class="number">two</th></tr></thead>' in page
    assert page.count("<h3>two</h3>") == 2


def test_of_many_epochs_the_last_ones_are_listed() -> None:
    many = run()
    spells = [epoch(number, 1, number, number + 1) for number in range(1, LEADERS_SHOWN_MAX + 3)]
    page = pipeline_page([replace(many, report=replace(many.report, epochs=spells))])
    assert "These are the last 100 of 102 epochs." in page
