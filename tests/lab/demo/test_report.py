"""Texts and plots become one page; text of a run cannot become markup."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.demo.plots import draw_leadership, slices
from lab.demo.report import checks, render, verdict, write_report
from lab.demo.result import Story
from pykraft.errors import StorageError
from pykraft.page import PLACE
from pykraft.page.plot_theme import drawing, to_svg
from pykraft.text.words import in_ms
from tests.browser import OpenPage
from tests.lab.demo.stories import BEGIN_MS, KILL, RESTARTED_MS, story
from tests.look import WIDTHS, Scheme, faults_of, in_all_windows

pytestmark = pytest.mark.spark
STORY = story()


def test_every_place_of_the_page_is_filled_and_pictures_are_in_it() -> None:
    page = render(STORY, ["<figure>one</figure>", "<figure>two</figure>"])
    assert not PLACE.findall(page)
    assert "<figure>one</figure>\n<figure>two</figure>" in page


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
    path.write_text(render(changed, [f'<figure id="one"><div class="plot narrow">{svg}</div></figure>']))
    page = open_page(path, width=WIDTHS[0])
    assert f"killed with -9 at {killed_s} s" in (page.locator("#one .narrow svg").text_content() or "")
    assert f"After {killed_s} seconds" in page.inner_text("header")
    assert faults_of(page) == []


def changed(**change: Any) -> Story:
    return replace(STORY, result=replace(STORY.result, audit=replace(STORY.result.audit, **change)))


def test_a_clean_run_has_a_clean_verdict() -> None:
    stressed, rest = verdict(STORY)
    assert stressed == "Nothing lost, nothing duplicated:"
    assert rest.startswith("all 142,400 acknowledged records")
    assert rest.endswith("although the leader was killed.")
    assert all(check.is_met for check in checks(STORY))
    assert verdict(changed(missing=1)) == ("The run failed:", "1 problem found.")


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"acknowledged": 0}, "Nothing is lost"),
        ({"missing": 1}, "Nothing is lost"),
        ({"duplicates": 1}, "Nothing is duplicated"),
        ({"out_of_order": 1}, "Everything is in order"),
        ({"strays": 1}, "Nothing is made up"),
        ({"tables_agree": False}, "The tables are complete"),
        ({"spark_rows": 1}, "The tables are complete"),
        ({"leader_epochs": 1}, "Another node took over"),
    ],
)
def test_each_fault_fails_its_check_alone(change: dict[str, Any], claim: str) -> None:
    assert [check.claim for check in checks(changed(**change)) if not check.is_met] == [claim]
    assert verdict(changed(**change))[0] == "The run failed:"


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


def test_the_numbers_beside_the_page_are_those_that_are_drawn(written: Path) -> None:
    found = json.loads((written.parent / "report.json").read_text())
    assert found["result"] == json.loads(json.dumps(STORY.result.as_json()))
    assert sum(each["records"] for each in found["slices"]) == sum(each.records for each in slices(STORY))
    assert [each["node_id"] for each in found["leaders"]] == [2, 3]


def test_a_run_in_which_nothing_happened_has_a_report_still(open_page: OpenPage, tmp_path: Path) -> None:
    nothing: Story = replace(STORY, acknowledged=(), samples=(), batches=(), kills=(), end_wall_ms=BEGIN_MS)
    assert open_page(write_report(nothing, tmp_path)).locator("figure").count() == 4


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="the report cannot be written: Not a directory"):
        write_report(STORY, tmp_path / "file" / "report")
