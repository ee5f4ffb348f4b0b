"""``pykraft sim run``: ranges, workers, rows, the output of a failure, and one line for wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.errors import exit_code
from pykraft.cli.sim.command import sim
from pykraft.errors import UsageError
from pykraft.sim.invariants import ALL
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.cli.sim_worlds import FAILING, live


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Worlds that are over at once; returns how they were asked for."""
    calls: list[dict[str, Any]] = []

    def live_all(seeds: list[int] | range, **given: Any) -> list[Outcome | Failure]:
        calls.append({"seeds": list(seeds), **given})
        return [live(seed) for seed in seeds]

    monkeypatch.setattr("pykraft.cli.sim.run.simulate", live)
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", live_all)
    return calls


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["run", *arguments])


def test_a_range_that_passes_is_summed_up_and_the_verdict_is_last() -> None:
    result = run("--seeds", "0:3")
    assert result.exit_code == 0
    counts, verdict = result.stdout.splitlines()
    watched = f"watched by {len(ALL)} oracles"
    assert counts == f"30 records committed, 27 acknowledged; 3 faults of 1 kind, {watched} (--coverage lists them)"
    assert verdict.startswith("PASSED: 3 seeds; 4 s of virtual time in ")


def test_coverage_names_oracles_and_faults_before_the_verdict() -> None:
    lines = run("--seeds", "0:3", "--coverage").stdout.splitlines()
    assert lines[0] == f"{len(ALL)} oracles watched each world:"
    assert all(kind.__name__ in "".join(lines) for kind in ALL)
    at = lines.index("")
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["fault", "times", "worlds", "happened", "to"],
        ["kill", "3", "3"],
    ]
    assert lines[-1].startswith("PASSED: 3 seeds; ")


def test_a_number_of_seeds_is_as_many_from_0_on_and_one_seed_is_one(asked: list[dict[str, Any]]) -> None:
    run("--seeds", "4")
    run("--seed", "4")
    assert [call["seeds"] for call in asked] == [[0, 1, 2, 3], [4]]


def test_a_failing_seed_prints_what_replays_it() -> None:
    result = run("--seeds", "12:15", "--faults", "disk,network")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "the last line",
        "the traceback",
        "seed 13 failed: ViolationError: OneVote: it broke",
        "replay it: bin/pykraft sim replay --seed 13 --faults disk,network",
    ]
    assert lines[-1].startswith("FAILED: 1 of 3 seeds (13); ")


def test_of_many_failures_the_first_are_told_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", lambda seeds, **given: [live(FAILING) for _ in seeds])
    result = run("--seeds", "9")
    assert result.stdout.count("the traceback") == 3
    assert result.stdout.count("replay it:") == 9


def test_a_trace_is_told_as_it_comes_and_not_again() -> None:
    result = run("--seed", "13", "--trace")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "a line of seed 13"
    assert "the last line" not in result.stdout


def test_json_is_one_object_a_seed_and_nothing_else() -> None:
    result = run("--seeds", "12:14", "--json")
    assert result.exit_code == 1
    passed, failed = map(json.loads, result.stdout.splitlines())
    assert (passed["seed"], passed["failed"], passed["faults"]) == (12, False, {"kill": 1})
    assert passed["oracles"] == failed["oracles"] == [kind.__name__ for kind in ALL]
    assert (failed["seed"], failed["failed"], failed["faults"]) == (13, True, {"kill": 2, "split": 1})
    assert failed["replay"] == "bin/pykraft sim replay --seed 13"


def test_with_json_the_trace_goes_elsewhere() -> None:
    result = run("--seed", "12", "--json", "--trace")
    assert result.stderr == "a line of seed 12\n"
    assert json.loads(result.stdout)["seed"] == 12


def test_there_are_no_more_processes_than_seeds(asked: list[dict[str, Any]]) -> None:
    run("--seeds", "0:2", "--workers", "8")
    run("--seeds", "0:9", "--workers", "3")
    assert [call["workers"] for call in asked] == [2, 3]


def test_a_failure_is_shrunk_and_drawn_into_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(
        "pykraft.cli.sim.run.shrink_and_draw", lambda failure, scenario, page, *, say: drawn.append(page)
    )
    run("--seeds", "12:15", "--html", str(tmp_path / "pages"))
    assert drawn == [tmp_path / "pages" / "seed-13.html"]


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_it_takes_a_worker_to_work(workers: str) -> None:
    result = run("--workers", workers)
    assert isinstance(result.exception, UsageError)
    assert exit_code(result.exception) == 2
