"""``pykraft sim replay``: the trace of one seed, its page, and a smaller run that fails in the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.sim.command import sim
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.cli.sim_worlds import live


@pytest.fixture(autouse=True)
def _worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(seed: int, scenario: Any, page: Path, words: Any, *, tell: Any = None) -> Outcome | Failure:
        page.write_text("a page")
        return live(seed, tell=tell)

    monkeypatch.setattr("pykraft.cli.sim.replay.simulate", live)
    monkeypatch.setattr("pykraft.cli.sim.replay.draw", draw)


def replay(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["replay", *arguments])


def test_a_seed_that_passes_is_told_whole() -> None:
    result = replay("--seed", "4")
    assert result.exit_code == 0
    assert result.stdout == "a line of seed 4\nseed 4 passed: 10 records committed in 1.5 s\n"


def test_a_seed_that_fails_is_told_with_its_story() -> None:
    result = replay("--seed", "13", "--faults", "disk")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "a line of seed 13",
        "the traceback",
        "seed 13 failed: ViolationError: OneVote: it broke",
        "replay it: bin/pykraft sim replay --seed 13 --faults disk",
    ]


def test_json_is_one_row_as_of_a_run(tmp_path: Path) -> None:
    passed = replay("--seed", "4", "--json", "--html", str(tmp_path / "page.html"))
    assert passed.exit_code == 0
    assert passed.stderr == f"page: {tmp_path / 'page.html'}\n"
    assert json.loads(passed.stdout)["failed"] is False
    failed = replay("--seed", "13", "--json")
    assert failed.exit_code == 1
    row = json.loads(failed.stdout)
    assert (row["seed"], row["failed"], row["replay"]) == (13, True, "bin/pykraft sim replay --seed 13")


def test_a_page_is_written_with_the_trace_or_without(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = replay("--seed", "4", "--html", str(page), "--quiet")
    assert page.read_text() == "a page"
    assert result.stdout.splitlines()[0] == f"page: {page}"


def test_shrinking_takes_the_place_of_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shrunk: list[tuple[int, Path]] = []
    monkeypatch.setattr(
        "pykraft.cli.sim.replay.shrink_and_draw",
        lambda failure, scenario, page, *, say: shrunk.append((failure.seed, page)),
    )
    result = replay("--seed", "13", "--shrink", "--html", str(tmp_path / "page.html"))
    assert "a line of" not in result.stdout
    assert replay("--seed", "13", "--shrink").exit_code == 1
    assert shrunk == [(13, tmp_path / "page.html"), (13, Path("seed-13.html"))]


def test_it_takes_a_seed() -> None:
    assert replay().exit_code == 2
    assert replay("--seed", "1:2").exception is not None
