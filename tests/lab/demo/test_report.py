"""Texts and plots become one page; text of a run cannot become markup.

The texts of a report: the verdict, a check for each claim, and the command that repeats the run.

A report in a real browser: it needs no other file, everything is visible, and its numbers are the story's.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.demo.plots import draw_leadership, slices
from lab.demo.report import Picture, checks, command, numbers, render, setting, verdict, write_report
from lab.demo.result import DemoOptions, Story
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


def test_the_setting_says_what_was_run_and_when_the_leader_was_killed() -> None:
    assert setting(STORY) == (
        "3 nodes, each a process; 5,000 records of 256 bytes per second for 30 seconds. After 15.2 seconds, the "
        "leader, node 2, was killed with kill -9; 1.5 seconds later it was restarted. Spark read the log while it grew."
    )
    assert "kill" not in setting(story(is_leader_killed=False))


def test_a_kill_that_waited_for_spark_was_not_half_way() -> None:
    kill = replace(STORY.kills[0], killed_wall_ms=BEGIN_MS + 40_400, restarted_wall_ms=None)
    late = replace(STORY, kills=(kill,), end_wall_ms=BEGIN_MS + 55_400)
    assert (
        "After 40.4 seconds, once Spark had the first rows in the tables, the leader, node 2, was killed with kill -9."
    ) in setting(late)


def test_a_spark_that_starts_after_the_load_is_told() -> None:
    kill = replace(STORY.kills[0], killed_wall_ms=BEGIN_MS + 40_400, restarted_wall_ms=None)
    batches = (replace(STORY.batches[-1], ended_wall_ms=BEGIN_MS + 90_000),)
    result = replace(STORY.result, batch_latency_ms=None)
    late = replace(STORY, kills=(kill,), end_wall_ms=BEGIN_MS + 55_400, batches=batches, result=result)
    assert ", while Spark still started, the leader, node 2, was killed" in setting(late)
    assert setting(late).endswith("Spark began to read when the load was over.")
    assert not [number for number in numbers(late) if "table" in number.meaning]


def test_numbers_have_units_and_a_fail_over_only_when_there_was_one() -> None:
    assert ("1,515", "ms") in [(number.value, number.unit) for number in numbers(STORY)]
    assert len(list(numbers(story(is_leader_killed=False)))) == len(list(numbers(STORY))) - 1


def test_the_command_runs_the_same_again() -> None:
    options = DemoOptions(seconds=2.5, nodes=5, throughput=9, record_size_bytes=99, kill_leader=True)
    assert shlex.split(command(options)) == [
        *("bin/demo", "--nodes", "5", "--seconds", "2.5", "--throughput", "9", "--record-size", "99"),
        *("--kill-leader", "--report", "report"),
    ]


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
