"""Ranges of seeds on one core or many, failures that can be replayed, and one seed in two processes."""

import json
import os
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.run.simulation import Failure, replay_command, simulate, simulate_all
from pykraft.sim.run.world import Outcome, World

ROOT = Path(__file__).resolve().parents[3]
QUICK_SEED = 2
LIMIT_S = 30.0


def test_a_seed_becomes_an_outcome_and_its_trace_is_told() -> None:
    told: list[str] = []
    outcome = simulate(QUICK_SEED, print_line=told.append)
    assert isinstance(outcome, Outcome)
    assert told


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (AssertionError("no"), "AssertionError"),
        (KeyError("no"), "KeyError"),
        (RecursionError("no"), "RecursionError"),
        (struct.error("no"), "error"),
        (ViolationError("OneVote", "a: b"), "ViolationError: OneVote"),
    ],
)
def test_a_failure_tells_the_reason_the_story_and_the_last_lines(
    monkeypatch: pytest.MonkeyPatch, error: Exception, finding: str
) -> None:
    def run(world: World, **given: Any) -> Outcome:
        world.trace.note(None, "the last line")
        raise error

    monkeypatch.setattr(World, "run", run)
    failure = simulate(3)
    assert isinstance(failure, Failure)
    assert failure.seed == 3
    assert failure.reason.startswith(type(error).__name__)
    assert failure.finding == finding
    assert "Traceback" in failure.story
    assert failure.trace[-1].endswith("the last line")


def test_a_world_that_cannot_be_made_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise TypeError("no world")

    monkeypatch.setattr("pykraft.sim.run.simulation.World", refuse)
    failure = simulate(3)
    assert isinstance(failure, Failure)
    assert failure.trace == ()


def test_what_is_no_failure_of_the_world_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pykraft.sim.run.simulation.World", interrupt)
    with pytest.raises(KeyboardInterrupt):
        simulate(3)


@pytest.mark.sim
def test_processes_give_the_same_outcomes_in_the_same_order() -> None:
    assert list(simulate_all(range(4), workers=2)) == list(simulate_all(range(4), workers=1))


def test_the_replay_command_is_one_line() -> None:
    assert replay_command(12) == "bin/pykraft sim replay --seed 12"
    words = ("--scenario", "my worlds.toml")
    assert replay_command(12, words) == "bin/pykraft sim replay --seed 12 --scenario 'my worlds.toml'"


@pytest.mark.sim
def test_a_seed_is_the_same_to_the_last_byte_whatever_the_hash_seed() -> None:
    runs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "pykraft", "sim", "run", "--seeds", "11:13", "--faults", "all"]
        command += ["--trace", "--json"]
        runs.append(subprocess.run(command, env=environment, capture_output=True, check=True, text=True))
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == runs[1].stderr
    rows = [json.loads(line) for line in runs[0].stdout.splitlines()]
    assert [row["seed"] for row in rows] == [11, 12]
    assert all(row["digest"] and row["faults"] for row in rows)
    assert len(runs[0].stderr.splitlines()) > 100


def test_a_killed_run_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "pykraft", "sim", "run", "--seeds", "1000", "--workers", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert json.loads(run.stdout.readline())["seed"] == 0
        workers = [
            os.pidfd_open(int(pid)) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        ]
        run.kill()
    assert len(workers) >= 2
    for worker in workers:
        assert select.select([worker], [], [], LIMIT_S)[0], "still there"
        os.close(worker)


@pytest.mark.sim
def test_a_range_of_seeds_passes() -> None:
    failures = [result for result in simulate_all(range(10_000, 10_030), workers=2) if isinstance(result, Failure)]
    assert not failures, "\n".join(f"{failure.reason}: {replay_command(failure.seed)}" for failure in failures)
