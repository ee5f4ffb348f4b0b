"""A failure is shrunk, drawn, and kept as a scenario that replays it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.cli.sim.failure import draw, shrink_and_draw, tell_failure
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import DEFAULT
from tests.cli.sim_worlds import failed, passed


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
    monkeypatch.setattr("pykraft.cli.sim.failure.simulate", fails_with_three_voters)
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

    monkeypatch.setattr("pykraft.cli.sim.failure.simulate", live)
    page = tmp_path / "page.html"
    assert draw(3, DEFAULT, page, ("--faults", "a b"), tell=told.append) == result
    assert told == ["a line"]
    assert "sim replay --seed 3 --faults &#x27;a b&#x27;" in page.read_text()


def test_a_long_story_and_a_short_one(capsys: pytest.CaptureFixture[str]) -> None:
    tell_failure(failed(13), (), is_short=False)
    tell_failure(failed(13), (), is_short=True)
    assert capsys.readouterr().out.count("the traceback") == 1
