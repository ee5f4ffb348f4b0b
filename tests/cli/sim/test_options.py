"""Seeds and scenarios on the command line; a failure is shrunk, drawn, and kept as a scenario that replays it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.cli.sim.options import SEEDS_MAX, choose, draw, parse_seed, parse_seeds, shrink_and_draw, tell_failure
from pykraft.errors import UsageError
from pykraft.sim.machine.recorder import Recorder
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import DEFAULT
from tests.cli.sim_worlds import failed, passed


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:3", range(3)),
        ("1000", range(1_000)),
        ("5:6", range(5, 6)),
        (f"{'9' * 17}8:{'9' * 18}", range(10**18 - 2, 10**18 - 1)),
    ],
)
def test_seeds_are_a_range_or_a_count(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text",
    ["", ":", "a", "0", "1:", ":1", "1:b", "-1:3", "3:3", "4:3", "1:2:3", "1.5", "٣", "1" * 19, f"0:{SEEDS_MAX + 1}"],
)
def test_other_seeds_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_seeds(text)
    assert "\n" not in str(refusal.value)


def test_one_seed_is_one_number() -> None:
    assert parse_seed("0") == 0
    for text in ("", "0:1", "-1", "x", "1" * 19):
        with pytest.raises(UsageError, match="--seed"):
            parse_seed(text)


def test_without_a_word_it_is_the_default_scenario() -> None:
    choice = choose(None, ())
    assert choice.scenario == DEFAULT
    assert choice.words == ()


def test_a_choice_knows_the_words_that_made_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[cluster]\nvoters = [3]\n")
    choice = choose("quiet, disk", (path,))
    assert choice.words == ("--faults", "quiet,disk", "--scenario", str(path))
    assert choice.scenario.cluster.voters == (3,)


@pytest.mark.parametrize("faults", ["", "nothing", "quiet,", "quiet;disk"])
def test_scenarios_that_are_not_there_are_refused(faults: str) -> None:
    with pytest.raises(UsageError, match="there is no scenario"):
        choose(faults, ())


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        choose(None, (tmp_path / "none.toml",))


def fails_with_three_voters(seed: int, *, scenario: Any, recorder: Recorder | None = None, **given: Any) -> Any:
    voters = scenario.cluster.voters[0]
    if recorder is not None:
        recorder.nodes = dict.fromkeys(range(1, voters + 1), True)
        recorder.note(1, 1, "starts")
    if voters < 3:
        return passed(seed)
    harm = tuple((number, "kill") for number in scenario.pace.only)
    return replace(failed(seed), voters=voters, observers=scenario.cluster.observers[0], harm=harm)


def test_the_smaller_run_is_a_page_and_a_scenario(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pykraft.cli.sim.options.simulate", fails_with_three_voters)
    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", fails_with_three_voters)
    page, said = tmp_path / "seed-13.html", list[str]()
    shrink_and_draw(failed(13), DEFAULT, page, say=said.append)
    assert said[0] == "shrinking: 4 nodes, 3 faults of 2 kinds, 2.000 s"
    assert any(line.endswith("tries: 3 nodes, 0 faults of 0 kinds, 2.000 s") for line in said)
    assert f"replay the shrunk run: bin/pykraft sim replay --seed 13 --scenario {page.with_suffix('.toml')}" in said[-1]
    scenario = load((), [page.with_suffix(".toml")])
    assert (scenario.cluster.voters, scenario.cluster.observers, scenario.pace.only) == ((3,), (0,), ())
    assert "OneVote was violated" in page.read_text()


@pytest.mark.parametrize("result", [passed(3), failed(3)])
def test_a_page_is_written_of_what_passes_and_of_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: Outcome | Failure
) -> None:
    told: list[str] = []

    def live(seed: int, *, tell: Callable[[str], None], **given: Any) -> Outcome | Failure:
        tell("a line")
        return result

    monkeypatch.setattr("pykraft.cli.sim.options.simulate", live)
    page = tmp_path / "page.html"
    assert draw(3, DEFAULT, page, ("--faults", "a b"), tell=told.append) == result
    assert told == ["a line"]
    assert "sim replay --seed 3 --faults &#x27;a b&#x27;" in page.read_text()


def test_a_long_story_and_a_short_one(capsys: pytest.CaptureFixture[str]) -> None:
    tell_failure(failed(13), (), is_short=False)
    tell_failure(failed(13), (), is_short=True)
    assert capsys.readouterr().out.count("the traceback") == 1
