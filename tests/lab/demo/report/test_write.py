"""A report in a real browser: it needs no other file, everything is visible, and its numbers are the story's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo.report.series import slices
from lab.demo.report.write import write_report
from lab.demo.story import Story
from pykraft.errors import StorageError
from pykraft.text.words import in_ms
from tests.browser import OpenPage
from tests.lab.demo.stories import BEGIN_MS, story
from tests.look import WIDTHS, Scheme, faults_of, in_all_windows

pytestmark = pytest.mark.spark
STORY = story()
PICTURES = {"leadership", "gap-0", "throughput", "latency", "tables", "lag"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(STORY, tmp_path_factory.mktemp("demo") / "report")


@in_all_windows
def test_every_picture_is_visible_and_the_page_looks_right(
    open_page: OpenPage, written: Path, width: int, scheme: Scheme
) -> None:
    page = open_page(written, width=width, scheme=scheme)
    for name in PICTURES:
        shown = page.locator(f"#{name} svg >> visible=true")
        assert shown.count() == 1
        box = shown.bounding_box()
        assert box is not None
        assert box["width"] > 0.75 * min(width, 980)
        assert box["height"] > 80
    assert page.locator("figure").count() == len(PICTURES)
    assert faults_of(page) == []


def test_paper_is_always_light(open_page: OpenPage, written: Path) -> None:
    page = open_page(written, scheme="dark")
    look = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(look) != "rgb(255, 255, 255)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(look) == "rgb(255, 255, 255)"
    assert faults_of(page) == []


def test_the_numbers_on_the_page_are_the_storys(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    text = page.inner_text("body")
    result = STORY.result
    for number in (
        f"all {result.audit.acknowledged:,} acknowledged records",
        f"{result.audit.spark_rows:,} rows for {result.audit.committed_records:,} committed records",
        f"{result.failover_ms:,} ms without a leader",
        in_ms(result.commit_latency_ms["p50"]),
        in_ms(result.commit_latency_ms["p99"]),
        "bin/demo --nodes 3 --seconds 30 --throughput 5000 --record-size 256 --kill-leader --report report",
    ):
        assert number in text
    assert page.locator("header.passed").count() == 1
    assert page.locator(".checks .passed").count() == page.locator(".checks li").count() == 7
    in_gap = page.locator("#gap-0 .wide svg").text_content() or ""
    for number in ("1,480 ms", "35 ms", "1,515 ms", "milliseconds since the kill"):
        assert number in in_gap


def test_colors_follow_the_screen(open_page: OpenPage, written: Path) -> None:
    look = "[getComputedStyle(document.querySelector('#lag .wide text')).fill, getComputedStyle(document.body).color]"
    assert open_page(written).evaluate(look) != open_page(written, scheme="dark").evaluate(look)


def test_the_numbers_beside_the_page_are_those_that_are_drawn(written: Path) -> None:
    found = json.loads((written.parent / "report.json").read_text())
    assert found["result"] == json.loads(json.dumps(STORY.result.as_json()))
    assert sum(each["records"] for each in found["slices"]) == sum(each.records for each in slices(STORY))
    assert [each["node_id"] for each in found["leaders"]] == [2, 3]


def test_a_story_with_problems_is_red_and_tells_them(open_page: OpenPage, tmp_path: Path) -> None:
    bad = story(missing=3)
    page = open_page(write_report(bad, tmp_path), width=WIDTHS[0], scheme="dark")
    assert faults_of(page) == []
    header = page.inner_text("header.failed")
    for problem in bad.result.problems:
        assert problem in header
    assert page.locator(".checks .failed strong").all_inner_texts() == [
        "Nothing is lost",
        "The tables are complete",
        "All nodes have the same log, with every acknowledged record",
    ]
    assert page.locator("header.passed").count() == 0


def test_a_run_without_a_kill_has_no_gap(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(write_report(story(is_leader_killed=False), tmp_path))
    assert {figure.get_attribute("id") for figure in page.locator("figure").all()} == PICTURES - {"gap-0"}
    assert "kill" not in page.inner_text("main pre")


def test_a_run_in_which_nothing_happened_has_a_report_still(open_page: OpenPage, tmp_path: Path) -> None:
    nothing: Story = replace(STORY, acknowledged=(), samples=(), batches=(), kills=(), end_wall_ms=BEGIN_MS)
    assert open_page(write_report(nothing, tmp_path)).locator("figure").count() == 4


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="the report cannot be written: Not a directory"):
        write_report(STORY, tmp_path / "file" / "report")
