"""The page of a run: one file without links, stepped through in a real browser, fast with ten thousand events."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.sim.machine.recorder import NodeState, Recorder
from pykraft.sim.page.render import render
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from tests.browser import OpenPage
from tests.sim.mutants import MUTANTS, planted

SEEDS = range(40)
THREE = Scenario(cluster=ClusterSettings(voters=(3,), observers=(0,)))
BUG = "leader_counts_what_it_has_not_flushed"
EVENTS = 10_000


def follower(*, log_end: int) -> NodeState:
    return NodeState(
        role="follower",
        epoch=1,
        leader_id=2,
        vote=2,
        disk_epoch=1,
        log_end=log_end,
        flushed=log_end,
        high_watermark=None,
    )


def small_run() -> Recorder:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True, 3: False}
    recorder.state(1, 1, follower(log_end=1))
    arrives, is_lost, is_under_way = (recorder.sent(at_us, 1, 2, b"") for at_us in (2, 3, 4))
    recorder.arrived(5, 2, arrives)
    recorder.fault(6, None, "split <b>")
    recorder.note(7, 2, "</script>")
    recorder.under_way = frozenset({is_under_way})
    assert is_lost not in recorder.under_way
    return recorder


def recording_in(page: str) -> dict[str, list[list[object]]]:
    found = re.search(r'<script type="application/json" id="recording">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    recording: dict[str, list[list[object]]] = json.loads(found[1])
    return recording


def test_messages_have_both_ends_or_a_fate() -> None:
    recording = recording_in(render(small_run(), title="t", replay="r", reason=None))
    assert [event[:3] for event in recording["events"]] == [
        [1, 1, "c"],
        [2, 1, "s"],
        [3, 1, "s"],
        [4, 1, "s"],
        [5, 2, "a"],
        [6, 0, "f"],
        [7, 2, "n"],
    ]
    assert [message[4:] for message in recording["messages"]] == [[1, 4], [2, -2], [3, -1]]


def test_what_a_world_says_cannot_end_the_script() -> None:
    page = render(small_run(), title="<i>", replay="<u>", reason="ValueError: <script>")
    assert page.count("</script>") == 2
    assert "<i>" not in page
    assert "<u>" not in page


def test_the_page_names_no_address() -> None:
    page = render(small_run(), title="t", replay="r", reason="ViolationError: OneVote: node 2 votes for 1")
    assert not re.search(r"https?:|src=|@import|url\(", page)
    assert "default-src 'none'" in page


def test_an_arrival_of_what_is_not_kept_any_more_is_left_out() -> None:
    recorder = Recorder(events_max=1)
    recorder.arrived(2, 2, recorder.sent(1, 1, 2, b""))
    page = render(recorder, title="t", replay="r", reason=None)
    assert recording_in(page)["events"] == []
    assert "t (the last 1 of 2 events)" in page


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which a planted bug is noticed after more than a few steps."""
    path = tmp_path_factory.mktemp("page") / "mutant.html"
    with planted(MUTANTS[BUG]):
        for seed in SEEDS:
            recorder = Recorder()
            failure = simulate(seed, scenario=THREE, recorder=recorder)
            if isinstance(failure, Failure) and len(recorder.events) > 200:
                path.write_text(render(recorder, title="a mutant", replay="again", reason=failure.reason))
                return path
    raise AssertionError(f"no seed of {SEEDS} notices {BUG}")


@pytest.mark.sim
def test_the_page_of_a_caught_bug_is_stepped_through(open_page: OpenPage, caught: Path) -> None:
    page = open_page(caught)

    def selected() -> int:
        return int(page.evaluate("document.body.dataset.selected"))

    last = selected()
    assert "was violated" in page.inner_text("#violation-title")
    assert "majority" in page.inner_text("#violation-rule").lower()
    assert "high watermark" in page.inner_text("#violation-before")
    assert page.inner_text("#selected-lines").startswith("broken:")
    assert page.locator("#nodes .card").count() == 3
    assert page.locator(".card .role", has_text="leader").count() == 1
    page.keyboard.press("ArrowUp")
    assert selected() == last - 1
    page.keyboard.press("Home")
    assert selected() == 0
    assert page.inner_text("#position") == f"event 1 of {last + 1}"
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert selected() == 30
    page.keyboard.press("n")
    assert selected() > 30
    page.click("#jump")
    assert selected() == last


@pytest.mark.sim
def test_filters_leave_what_was_asked_for(open_page: OpenPage, caught: Path) -> None:
    page = open_page(caught)
    before = page.inner_text("#position")
    page.uncheck("#show-fetches")
    page.uncheck("#show-node-1")
    assert page.inner_text("#position") != before
    for _ in range(10):
        page.keyboard.press("ArrowUp")
        assert "Fetch" not in page.inner_text("#selected-lines")
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.keyboard.press("Space")


def test_a_node_in_quarantine_is_shown_as_such(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True}
    for at_us, is_damaged in enumerate((False, True, False)):
        recorder.state(at_us, 1, replace(follower(log_end=9), is_damaged=is_damaged))
    path = tmp_path / "damaged.html"
    path.write_text(render(recorder, title="damaged", replay="again", reason=None))
    page = open_page(path)
    seen = []
    for _ in range(3):
        seen.append((page.locator(".card .damaged").is_visible(), page.inner_text("#selected-lines")))
        page.keyboard.press("ArrowDown")
    assert [is_shown for is_shown, _ in seen] == [False, True, False]
    assert (seen[1][1], seen[2][1]) == ("in quarantine", "out of quarantine")


def test_the_last_step_before_is_one_of_the_node_that_is_blamed(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True}
    recorder.state(1_000, 1, follower(log_end=7))
    recorder.state(2_000, 2, follower(log_end=8))
    path = tmp_path / "blamed.html"
    reason = "ViolationError: OneVote: node 1 did it"
    path.write_text(render(recorder, title="blamed", replay="again", reason=reason))
    assert open_page(path).inner_text("#violation-before").startswith("at 1.000 ms, node 1 (follower)")


def test_ten_thousand_events_are_stepped_through(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True, 3: True}
    for at_us in range(0, EVENTS, 4):
        source_id, target_id = 1 + at_us % 3, 1 + (at_us + 1) % 3
        number = recorder.sent(at_us, source_id, target_id, b"")
        recorder.note(at_us + 1, source_id, "a note")
        recorder.arrived(at_us + 2, target_id, number)
        recorder.state(at_us + 3, target_id, follower(log_end=at_us))
    path = tmp_path / "long.html"
    path.write_text(render(recorder, title="long", replay="again", reason=None))
    page = open_page(path)
    assert page.inner_text("#position") == f"event 1 of {EVENTS}"
    page.keyboard.press("End")
    assert page.inner_text("#position") == f"event {EVENTS} of {EVENTS}"
    assert page.evaluate("document.querySelectorAll('*').length") < 300
    page.mouse.click(400, 400)
    assert page.inner_text("#position") != f"event {EVENTS} of {EVENTS}"
