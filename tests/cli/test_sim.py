"""``pykraft sim run``: ranges, workers, what a failure prints, and one line for wrong input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.errors import exit_code
from pykraft.cli.sim import SEEDS_MAX, parse_seeds, sim
from pykraft.errors import UsageError
from pykraft.sim.run import Failure
from pykraft.sim.world import Outcome


def outcome(seed: int) -> Outcome:
    return Outcome(
        seed=seed,
        voters=3,
        observers=0,
        committed=10,
        acknowledged=9,
        epochs=2,
        faults={"kill": 1},
        digest="d",
        virtual_ms=1_500,
    )


def failure(seed: int) -> Failure:
    return Failure(seed=seed, reason="ViolationError: it broke", story="the traceback", trace=("the last line",))


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Worlds that are over at once: seed 13 fails. Returns how they were asked for."""
    asked: list[dict[str, Any]] = []

    def live(seed: int, tell: Any = None) -> Outcome | Failure:
        if tell is not None:
            tell(f"a line of seed {seed}")
        return failure(seed) if seed == 13 else outcome(seed)

    def live_all(seeds: range, *, workers: int) -> list[Outcome | Failure]:
        asked.append({"seeds": seeds, "workers": workers})
        return [live(seed) for seed in seeds]

    monkeypatch.setattr("pykraft.cli.sim.simulate", live)
    monkeypatch.setattr("pykraft.cli.sim.simulate_all", live_all)
    return asked


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["run", *arguments])


def test_a_range_that_passes_is_summed_up() -> None:
    result = run("--seeds", "0:3")
    assert result.exit_code == 0
    assert result.stdout == (
        "3 seeds, 0 failed; 4 s of virtual time, 30 records committed, 27 acknowledged\nfaults: kill 3\n"
    )


def test_a_failing_seed_prints_what_replays_it() -> None:
    result = run("--seeds", "12:15")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "the last line",
        "the traceback",
        "seed 13 failed: ViolationError: it broke",
        "replay it: bin/pykraft sim run --seeds 13 --trace",
    ]
    assert lines[4].startswith("3 seeds, 1 failed")


def test_a_trace_is_told_as_it_comes_and_not_again() -> None:
    result = run("--seeds", "13", "--trace")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "a line of seed 13"
    assert "the last line" not in result.stdout


def test_json_is_one_object_a_seed_and_nothing_else() -> None:
    result = run("--seeds", "12:14", "--json")
    assert result.exit_code == 1
    passed, failed = map(json.loads, result.stdout.splitlines())
    assert (passed["seed"], passed["faults"]) == (12, {"kill": 1})
    assert failed == {
        "seed": 13,
        "failure": "ViolationError: it broke",
        "replay": "bin/pykraft sim run --seeds 13 --trace",
    }


def test_with_json_the_trace_goes_elsewhere() -> None:
    result = run("--seeds", "12", "--json", "--trace")
    assert result.stderr == "a line of seed 12\n"
    assert json.loads(result.stdout)["seed"] == 12


def test_there_are_no_more_processes_than_seeds(worlds: list[dict[str, Any]]) -> None:
    run("--seeds", "0:2", "--workers", "8")
    run("--seeds", "0:9", "--workers", "3")
    assert [asked["workers"] for asked in worlds] == [2, 3]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0:3", range(3)), ("7", range(7, 8)), ("5:6", range(5, 6)), ("9" * 18, range(10**18 - 1, 10**18))],
)
def test_seeds_are_a_range_or_one(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["", ":", "a", "1:", ":1", "1:b", "-1:3", "3:3", "4:3", "1:2:3", "1.5", "٣", "1" * 19, f"0:{SEEDS_MAX + 1}"]
)
def test_other_seeds_are_refused_in_one_line(text: str) -> None:
    result = run("--seeds", text)
    assert isinstance(result.exception, UsageError)
    assert "\n" not in str(result.exception)
    assert exit_code(result.exception) == 2


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_it_takes_a_worker_to_work(workers: str) -> None:
    result = run("--workers", workers)
    assert isinstance(result.exception, UsageError)
    assert exit_code(result.exception) == 2
