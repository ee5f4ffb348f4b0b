"""Histories of the key-value store with every fault are linearizable, and both checkers refuse those that are not."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from random import SystemRandom

import pytest

from tests.machine.histories.__main__ import main
from tests.machine.histories.cases import LINEARIZABLE, NOT_LINEARIZABLE, history, read
from tests.machine.histories.events import calls_of, merged, written
from tests.machine.histories.independent import checked
from tests.machine.histories.judge import is_smallest
from tests.machine.histories.nemesis import FAULTS
from tests.machine.histories.run import Plan, run_history, story

pytestmark = [pytest.mark.processes]

KINDS = (
    ("kill", "isolate", "clock", "change"),
    ("kill-all", "freeze", "one-way", "change"),
    ("kill", "partition", "clock", "change"),
    ("freeze", "isolate", "partition", "change"),
)
"""Of each of the quorums that run at the same time."""
SECONDS = 45
"""Of each: three minutes in all."""
TRIES = 10
TOLD = {"kill -9", "kill -9 of all", "SIGSTOP", "isolated leader", "partition", "one-way cut", "clock jump"}
CHANGES = {"join", "replace", "replace a dead one", "remove"}


@pytest.mark.long
@pytest.mark.timeout(360)
def test_three_minutes_of_histories_are_linearizable(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seeds from {seed} on")
    plans = [
        Plan(seed=seed + at, seconds=SECONDS, folder=tmp_path / str(at), clients=2, nodes=3 + at % 2, kinds=kinds)
        for at, kinds in enumerate(KINDS)
    ]
    with ThreadPoolExecutor(len(plans)) as pool:
        outcomes = list(pool.map(run_history, plans))
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        print(json.dumps(asdict(outcome)))
        for part in sorted(tmp_path.glob("*/refused-*.jsonl")):
            print(part, story(merged([part])), sep="\n")
        assert outcome.has_passed
        faults.update(outcome.faults)
    assert set(faults) >= TOLD, faults
    assert set(faults) & CHANGES
    assert all(outcome.follower_reads for outcome in outcomes)


def test_the_short_form_has_every_fault() -> None:
    assert {kind for kinds in KINDS for kind in kinds} == set(FAULTS)


@pytest.mark.long
@pytest.mark.timeout(360)
def test_a_read_index_without_a_confirmed_round_is_found(tmp_path: Path) -> None:
    """A leader that is cut off answers with its old state. Each try is a history of its own."""
    plans = (
        Plan(seed=seed, seconds=6, folder=tmp_path / str(seed), nodes=3, kinds=["isolate"], plant="reads-not-confirmed")
        for seed in range(TRIES)
    )
    outcomes = ((plan, run_history(plan)) for plan in plans)
    plan, outcome = next((plan, outcome) for plan, outcome in outcomes if outcome.refused["ours"] or outcome.error)
    assert not outcome.error
    assert outcome.refused["ours"] == outcome.refused["porcupine"]
    assert not any(outcome.undecided.values())
    parts = sorted(plan.folder.glob("refused-*.jsonl"))
    # A chain of compare-and-set stays whole, so there is no limit of their number.
    assert [is_smallest(calls_of(merged([part]))) for part in parts] == [True] * len(outcome.refused["ours"])
    assert all(checked(part).refused for part in parts)
    assert all(part.with_suffix(".html").exists() for part in parts)


def test_porcupine_tells_histories_apart(tmp_path: Path) -> None:
    names = [*LINEARIZABLE, *NOT_LINEARIZABLE]
    found = {}
    for name in names:
        verdict = checked(written(history({**LINEARIZABLE, **NOT_LINEARIZABLE}[name]), tmp_path / "history"))
        assert not verdict.undecided
        found[name] = not verdict.refused
    assert found == {name: name in LINEARIZABLE for name in names}


def test_the_command_shows_the_smallest_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(history([*NOT_LINEARIZABLE["a stale read on a follower"], read(1, 2, 10, 11)]), tmp_path / "history")
    monkeypatch.setattr("sys.argv", ["histories", "check", str(file)])
    assert main() == 1
    told = capsys.readouterr().out.splitlines()
    assert told[:4] == [
        "6 calls in 12 events, 1 group of keys",
        "ours: refused ['r1-0'], undecided []",
        "porcupine: refused ['r1-0'], undecided []",
        "r1-0:",
    ]
    assert [line.split()[6] for line in told[4:]] == ["write", "write", "read"]
    monkeypatch.setattr("sys.argv", ["histories", "check", str(tmp_path / "nothing")])
    assert main() == 2
    assert "No such file" in capsys.readouterr().err
