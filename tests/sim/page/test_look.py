"""The page of a run on a phone, a tablet and a desk, light and dark; and the address of an event."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from pykraft.sim.machine.trace import NodeState, Recorder
from pykraft.sim.page.render import render
from tests.browser import OpenPage
from tests.look import WIDTHS, Scheme, faults_of, in_all_windows, violations_of
from tests.sim.page.test_render import fetch

EVENTS = 60
FAULT_EVERY = 20
LEADER = NodeState(
    role="leader", epoch=1, leader_id=1, vote=1, disk_epoch=1, log_end=9, flushed=8, high_watermark=7, is_damaged=False
)
ROLES = ("leader", "follower", "observer", "candidate", "prospective-voted", "resigned", "unattached", "down")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight nodes, one in each role, and a rule that broke; faults are the events 20, 40 and 60."""
    recorder = Recorder()
    recorder.nodes = {node_id: node_id < 8 for node_id in range(1, 9)}
    for node_id, role in enumerate(ROLES, start=1):
        recorder.state(node_id, node_id, replace(LEADER, role=role, is_damaged=role == "resigned"))
    for at_us in range(len(ROLES) + 1, EVENTS + 1):
        if at_us % FAULT_EVERY == 0:
            recorder.fault(at_us, None, "split 1 2 | 3 4 5 6 7 8")
        else:
            number = recorder.sent(at_us, 1 + at_us % 8, 1 + (at_us + 3) % 8, b"")
            recorder.under_way = frozenset({number})
    path = tmp_path_factory.mktemp("look") / "run.html"
    reason = "ViolationError: OneVote: node 2 votes for 1 and for 3 in epoch 4"
    path.write_text(render(recorder, title="pykraft sim, seed 12", replay="bin/pykraft sim replay", reason=reason))
    return path


def selected(page: Page) -> int:
    """Its number in the address: the first event is 1."""
    return int(page.evaluate("document.body.dataset.selected")) + 1


@in_all_windows
def test_the_page_looks_right(open_page: OpenPage, written: Path, width: int, scheme: Scheme) -> None:
    page = open_page(written, width=width, scheme=scheme)
    picture = page.locator("#diagram").bounding_box()
    assert picture is not None
    assert picture["width"] > 0.5 * width
    assert picture["height"] > 300
    assert faults_of(page) == []
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.locator("aside").evaluate("(aside) => aside.scrollTo(0, aside.scrollHeight)")
    assert faults_of(page) == []
    assert violations_of(page) == []


def test_the_picture_takes_the_colors_of_the_screen_when_they_change(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    drawn = "document.querySelector('#diagram').toDataURL()"
    light = page.evaluate(drawn)
    # The page may hear of the change a few frames after the call has ended: on a busy machine not in the next one.
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"(light) => {drawn} !== light", arg=light)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"(light) => {drawn} === light", arg=light)


def test_an_address_opens_the_page_at_its_event(open_page: OpenPage, written: Path) -> None:
    assert selected(open_page(written)) == EVENTS + 1
    page = open_page(written, anchor="event-33", width=WIDTHS[0])
    assert selected(page) == 33
    assert page.inner_text("#position") == f"event 33 of {EVENTS + 1}"
    for unknown in ("event-0", "event-62", "event-", "event-3x", "node-1"):
        assert selected(open_page(written, anchor=unknown)) == EVENTS + 1


def test_back_and_forward_go_from_jump_to_jump(open_page: OpenPage, written: Path) -> None:
    page = open_page(written, anchor="event-10")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("f")
    assert (selected(page), page.evaluate("location.hash")) == (20, "#event-20")
    page.keyboard.press("End")
    page.keyboard.press("F")
    assert selected(page) == 60
    seen = []
    for go in (page.go_back, page.go_back, page.go_back, page.go_forward):
        go()
        seen.append((selected(page), page.evaluate("location.hash")))
    assert seen == [(61, "#event-61"), (20, "#event-20"), (12, "#event-12"), (20, "#event-20")]


def test_the_address_follows_steps_when_the_reader_rests_and_adds_nothing_to_the_history(
    open_page: OpenPage, written: Path
) -> None:
    page = open_page(written, anchor="event-1")
    entries = page.evaluate("history.length")
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    page.wait_for_url("**#event-31")
    assert page.evaluate("history.length") == entries
    page.reload()
    assert selected(page) == 31


def test_an_address_typed_by_hand_shows_what_a_filter_hides(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    page.uncheck("#show-elections")
    page.evaluate("location.hash = '#event-33'")
    expect(page.locator("body")).to_have_attribute("data-selected", "32")
    assert page.is_checked("#show-elections")


def test_the_address_is_copied_with_the_keyboard(open_page: OpenPage, written: Path) -> None:
    page = open_page(written, anchor="event-5")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("c")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{written.resolve().as_uri()}#event-6"


def test_space_presses_the_button_that_has_the_focus(open_page: OpenPage, written: Path) -> None:
    page = open_page(written, anchor="event-5")
    page.focus("#next")
    page.keyboard.press("Space")
    assert (selected(page), page.inner_text("#play")) == (6, "Play")
    page.focus("aside summary")
    page.keyboard.press("Space")
    assert page.inner_text("#play") == "Play"
    assert page.locator("aside details").get_attribute("open") is not None


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node that campaigns and leads, while its log grows, and a Fetch; the comment of an event is its number."""
    recorder = Recorder()
    recorder.nodes = {1: True, 2: True}
    state = replace(LEADER, role="follower", leader_id=None)
    changes: tuple[dict[str, Any], ...] = (
        {},  # 1
        {"log_end": 10},  # 2
        {"role": "prospective"},  # 3
        {"role": "prospective-voted", "vote": 2},  # 4: a decision, but no election
        {"role": "candidate", "epoch": 2},  # 5
        {"flushed": 10},  # 6
        {"role": "leader", "leader_id": 1, "log_end": 11},  # 7
        {"high_watermark": 11},  # 8
        {"log_end": 12},  # 9
    )
    for at_us, changed in enumerate(changes, start=1):
        state = replace(state, **changed)
        recorder.state(at_us, 1, state)
    recorder.arrived(12, 1, recorder.sent(11, 2, 1, fetch()))  # 10, 11
    path = tmp_path_factory.mktemp("campaign") / "run.html"
    path.write_text(render(recorder, title="a campaign", replay="again", reason=None))
    broken = "ViolationError: OneVote: node 1 votes twice"
    path.with_name("broken.html").write_text(render(recorder, title="broken", replay="again", reason=broken))
    return path


def test_keys_and_buttons_go_from_election_to_election_and_from_decision_to_decision(
    open_page: OpenPage, campaign: Path
) -> None:
    page = open_page(campaign)

    def places(press: Callable[[], None]) -> list[int]:
        seen: list[int] = []
        while selected(page) not in seen[-1:]:
            seen.append(selected(page))
            press()
        return seen

    assert places(lambda: page.keyboard.press("e")) == [1, 3, 5, 7]
    assert places(lambda: page.click("#previous-election")) == [7, 5, 3]
    assert places(lambda: page.keyboard.press("d")) == [3, 4, 5, 7, 8]
    assert places(lambda: page.click("#previous-decision")) == [8, 7, 5, 4, 3]
    assert places(lambda: page.click("#next-election")) == [3, 5, 7]
    assert places(lambda: page.keyboard.press("E")) == [7, 5, 3]
    assert places(lambda: page.click("#next-decision")) == [3, 4, 5, 7, 8]
    assert places(lambda: page.keyboard.press("D")) == [8, 7, 5, 4, 3]


def test_fetches_are_hidden_until_a_box_or_an_address_shows_them(open_page: OpenPage, campaign: Path) -> None:
    page = open_page(campaign)
    assert (page.is_checked("#show-fetches"), page.inner_text("#position")) == (False, "event 1 of 9")
    page.keyboard.press("End")
    assert selected(page) == 9
    page.check("#show-fetches")
    assert page.inner_text("#position") == "event 9 of 11"
    linked = open_page(campaign, anchor="event-10")
    assert (selected(linked), linked.is_checked("#show-fetches")) == (10, True)


def test_what_broke_with_a_fetch_is_shown_with_fetches(open_page: OpenPage, campaign: Path) -> None:
    page = open_page(campaign.with_name("broken.html"))
    assert page.is_checked("#show-fetches")
    assert page.inner_text("#violation-before").endswith("← 2 Fetch")


def test_play_steps_at_the_speed_that_is_chosen_until_the_end(open_page: OpenPage, campaign: Path) -> None:
    page = open_page(campaign)
    page.evaluate("window.setTimeout = (act, ms) => { window.waiting = [act, ms]; return 1; }")
    page.click("#play")
    waits_ms = []
    for speed in ("0.5", "1", "2", "5", "5", "5", "5", "5"):
        page.select_option("#speed", speed)
        page.evaluate("waiting[0]()")
        waits_ms.append(round(page.evaluate("waiting[1]")))
    assert waits_ms == [360, 180, 90, 36, 36, 36, 36, 36]
    assert (selected(page), page.inner_text("#play")) == (9, "Pause")
    page.evaluate("waiting[0]()")
    assert (selected(page), page.inner_text("#play")) == (9, "Play")


def test_keys_in_the_list_of_speeds_are_those_of_the_list(open_page: OpenPage, campaign: Path) -> None:
    page = open_page(campaign)
    page.focus("#speed")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")
    assert (page.input_value("#speed"), selected(page)) == ("2", 1)
