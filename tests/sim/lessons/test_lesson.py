"""The lessons: each finds its world soon, its sentences are true there, and its page is walked with keys alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.sim.lessons import lesson as module
from pykraft.sim.lessons.lesson import FILES, FoundLesson, Lesson, LessonStep, find, load_lessons
from pykraft.sim.machine.trace import Changed, NodeState, Recorder, Sent
from pykraft.sim.page.render import Words, render
from tests.browser import OpenPage
from tests.cli.sim_worlds import failed, passed
from tests.look import SCHEMES, WIDTHS, Scheme, faults_of, violations_of
from tests.tidy.repository import ROOT

SOON = range(40)
LESSONS = load_lessons()


@pytest.fixture(scope="module")
def lessons() -> Mapping[str, FoundLesson]:
    return {name: find(lesson, SOON) for name, lesson in LESSONS.items()}


def state_at(lesson: FoundLesson, letter: str, index: int) -> NodeState:
    """The state of a node right after an event."""
    events = list(lesson.recorder.events)[: index + 1]
    states = [each.state for each in events if isinstance(each, Changed) and each.node_id == lesson.nodes[letter]]
    return states[-1]


def step_with(lesson: FoundLesson, words: str) -> int:
    """The event of the step whose sentence has these words."""
    [event] = [step.event for step in lesson.steps if words in step.text]
    return event


def test_there_are_five_and_each_finds_a_world_soon(lessons: Mapping[str, FoundLesson]) -> None:
    assert list(lessons) == ["first-election", "killed-leader", "partition", "divergent-log", "membership-change"]
    for lesson in lessons.values():
        events = [step.event for step in lesson.steps]
        assert events == sorted(set(events))
        assert len(events) == sum(bool(step.text) for step in lesson.lesson.steps)
        assert not any(re.search(r"[{}]|None|-1\b", step.text) for step in lesson.steps)
        assert lesson.lesson.about.count(". ") == 1, "two sentences"


def test_what_the_lessons_link_to_is_there() -> None:
    for lesson in LESSONS.values():
        kinds = [address.removeprefix(FILES).split("/")[0] for _, address in lesson.links]
        assert {"src", "tests", "https:"} == set(kinds), lesson.name
        for _, address in lesson.links:
            if address.startswith(FILES):
                assert (ROOT / address.removeprefix(FILES)).is_file(), address


def test_no_vote_is_asked_for_before_the_own_one_is_on_disk(lessons: Mapping[str, FoundLesson]) -> None:
    lesson, words = lessons["first-election"], Words()
    events = list(lesson.recorder.events)
    kinds = [words.describe(e.node_id or 0, e.target_id, e.frame).kind if isinstance(e, Sent) else "" for e in events]
    assert kinds.index("Vote") > step_with(lesson, "votes for itself")
    assert state_at(lesson, "a", step_with(lesson, "votes for itself")).vote == lesson.nodes["a"]
    answered = [index for index, kind in enumerate(kinds) if kind == "Vote answer"]
    own = [index for index in answered if events[index].node_id == lesson.nodes["b"]]
    assert own[0] > step_with(lesson, "also writes its vote")
    assert state_at(lesson, "a", lesson.steps[-1].event).role == "leader"


def test_the_killed_node_led_and_comes_back_as_a_follower(lessons: Mapping[str, FoundLesson]) -> None:
    lesson = lessons["killed-leader"]
    killed = step_with(lesson, "is killed")
    before, after = (
        state_at(lesson, "a", killed),
        state_at(lesson, "b", step_with(lesson, "It has everything committed")),
    )
    assert before.role == "leader"
    assert before.epoch < after.epoch
    assert after.high_watermark is None
    committed = state_at(lesson, "b", step_with(lesson, "is on two disks"))
    assert (committed.high_watermark or 0) > (before.high_watermark or 0)
    assert state_at(lesson, "a", step_with(lesson, "It resigns")).role == "resigned"
    last = state_at(lesson, "a", lesson.steps[-1].event)
    assert (last.role, last.leader_id) == ("follower", lesson.nodes["b"])


def test_two_nodes_lead_and_only_one_commits(lessons: Mapping[str, FoundLesson]) -> None:
    lesson = lessons["partition"]
    cut, both = step_with(lesson, "links are cut"), step_with(lesson, "two nodes lead")
    old, new = state_at(lesson, "a", both), state_at(lesson, "b", both)
    assert (old.role, new.role) == ("leader", "leader")
    assert old.epoch < new.epoch
    resigns = step_with(lesson, "check quorum")
    before = state_at(lesson, "a", resigns - 1)
    assert before.high_watermark == state_at(lesson, "a", cut).high_watermark
    assert (before.log_end or 0) > (before.high_watermark or 0)


def test_what_is_cut_is_of_the_old_epoch_and_was_never_committed(lessons: Mapping[str, FoundLesson]) -> None:
    lesson = lessons["divergent-log"]
    cut, elected = step_with(lesson, "cuts its log"), step_with(lesson, "is elected without")
    isolated = state_at(lesson, "a", step_with(lesson, "links are cut"))
    end = state_at(lesson, "a", cut).log_end or 0
    assert (isolated.log_end or 0) <= end < (state_at(lesson, "a", cut - 1).log_end or 0)
    assert end >= (isolated.high_watermark or 0)
    leader = state_at(lesson, "b", elected)
    assert leader.log_end == end + 1
    assert leader.epoch > isolated.epoch, "the same offset in another epoch"


def test_the_new_voter_counts_before_it_is_committed(lessons: Mapping[str, FoundLesson]) -> None:
    lesson = lessons["membership-change"]
    added, follows = step_with(lesson, "with the new voters"), step_with(lesson, "has reached node")
    record_end = state_at(lesson, "a", added).log_end or 0
    assert state_at(lesson, "b", added).role == "observer"
    assert [state_at(lesson, "a", index).voters for index in (added - 1, added)] == [3, 4]
    assert state_at(lesson, "b", follows).log_end == record_end
    assert (state_at(lesson, "a", follows).high_watermark or 0) < record_end
    assert (state_at(lesson, "a", step_with(lesson, "the change is committed")).high_watermark or 0) >= record_end
    assert not lesson.recorder.nodes[lesson.nodes["b"]], "it was no voter at first"


STATE = NodeState(
    role="follower", epoch=1, leader_id=None, vote=None, disk_epoch=1, log_end=3, flushed=3, high_watermark=2
)


def becomes(nodes: str, role: str, text: str = "") -> LessonStep:
    return LessonStep(nodes=nodes, pattern="becomes", value=role, text=text)


def a_lesson(*steps: LessonStep) -> Lesson:
    return replace(LESSONS["first-election"], name="mine", steps=steps)


@pytest.fixture
def write_world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes all worlds one in which these nodes get these roles, one after the other."""

    def write(*roles: tuple[int, str], result: Any = None) -> None:
        def simulate(seed: int, *, recorder: Recorder, **_: object) -> Any:
            for node_id in (1, 2, 3):
                recorder.state(0, node_id, STATE)
            for at_us, (node_id, role) in enumerate(roles, start=1):
                recorder.state(at_us, node_id, replace(STATE, role=role, leader_id=node_id, epoch=at_us))
            return result or passed(seed)

        monkeypatch.setattr(module, "simulate", simulate)

    return write


def test_a_letter_is_one_node_and_two_letters_are_two(write_world: Callable[..., None]) -> None:
    write_world((1, "candidate"), (2, "leader"), (1, "leader"), (3, "leader"))
    same = find(a_lesson(becomes("a", "candidate"), becomes("a", "leader", "{a} in {before.epoch}, {now.epoch}")))
    assert [(step.event, step.text) for step in same.steps] == [(5, "1 in 1, 3")]
    other = find(a_lesson(becomes("a", "leader"), becomes("b", "leader", "{b}, not {a}")))
    assert [(step.event, step.text) for step in other.steps] == [(5, "1, not 2")]
    known = find(a_lesson(becomes("aa", "leader", "{a}")))
    assert [(step.event, step.text) for step in known.steps] == [(4, "2")]


def test_steps_are_found_in_their_order_or_not_at_all(write_world: Callable[..., None]) -> None:
    write_world((1, "leader"), (1, "candidate-voted"))
    assert find(a_lesson(becomes("a", "leader", "x"), becomes("a", "candidate", "y"))).seed == 0
    with pytest.raises(AssertionError, match="no world shows the lesson mine"):
        find(a_lesson(becomes("a", "candidate", "x"), becomes("a", "leader", "y")), range(3))


def test_a_world_that_fails_shows_nothing(write_world: Callable[..., None]) -> None:
    write_world((1, "leader"), result=failed(0))
    with pytest.raises(AssertionError, match="no world shows"):
        find(a_lesson(becomes("a", "leader", "x")), range(3))


@pytest.fixture(scope="module")
def pages(lessons: Mapping[str, FoundLesson], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lessons")
    for name, lesson in lessons.items():
        (folder / f"{name}.html").write_text(lesson.page())
    return folder


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [WIDTHS[0], WIDTHS[-1]])
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_walked_with_keys_alone(
    open_page: OpenPage, pages: Path, lessons: Mapping[str, FoundLesson], name: str, width: int, scheme: Scheme
) -> None:
    page, steps = open_page(pages / f"{name}.html", width=width, scheme=scheme), lessons[name].steps
    for number, step in enumerate(steps, start=1):
        assert page.inner_text("#lesson-text") == step.text
        assert page.inner_text("#lesson-place") == f"{number} of {len(steps)}"
        assert page.evaluate("document.body.dataset.selected") == str(step.event)
        page.keyboard.press("l")
    assert page.evaluate("document.body.dataset.selected") == str(steps[-1].event), "there is no step behind the last"
    assert page.is_disabled("#next-lesson")
    assert faults_of(page) == []
    assert violations_of(page) == []
    page.focus("#previous-lesson")
    page.keyboard.press("Enter")
    assert page.inner_text("#lesson-text") == steps[-2].text
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#lesson-text") == steps[-2].text, "it stays until the next step"
    page.keyboard.press("Home")
    assert page.inner_text("#lesson-text") == "The first step is still to come."
    page.keyboard.press("L")
    assert page.is_disabled("#previous-lesson")
    assert page.locator("#lesson-links a").count() == len(LESSONS[name].links)


def test_a_step_that_is_hidden_is_shown_when_it_comes(open_page: OpenPage, pages: Path) -> None:
    page = open_page(pages / "divergent-log.html")
    assert not page.is_checked("#show-fetches")
    while page.inner_text("#lesson-text").find("fetches from node") < 0:
        page.keyboard.press("l")
    assert page.is_checked("#show-fetches")
    assert "Fetch from node" in page.inner_text("#selected-lines")


def test_a_page_without_a_lesson_has_no_panel(open_page: OpenPage, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.nodes = {1: True}
    recorder.state(1, 1, STATE)
    path = tmp_path / "plain.html"
    path.write_text(render(recorder, title="t", replay="r", reason=None))
    page = open_page(path)
    page.keyboard.press("l")
    assert page.locator("#lesson").is_hidden()
