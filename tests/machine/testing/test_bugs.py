"""Simulated worlds notice each bug that is planted in a replicated state machine; without it they pass."""

from __future__ import annotations

from functools import partial

import pytest

from pykraft.machine.testing import users
from pykraft.machine.testing.reference import Reference
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.machine.counters import Counters
from tests.machine.testing.bugs import BUGS, DiceCounters, draw
from tests.machine.testing.search import noticed

COMMANDS = partial(DrawnCommands, draw)


@pytest.mark.sim
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    found = noticed(BUGS[name], BUGS[name].seed)
    assert found is not None
    assert found[0] == BUGS[name].noticed_by, found


@pytest.mark.sim
@pytest.mark.parametrize("seed", sorted({bug.seed for bug in BUGS.values()}))
def test_without_the_bug_the_same_world_passes(seed: int) -> None:
    outcome = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(outcome, Outcome), outcome
    again = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(again, Outcome)
    assert again.digest == outcome.digest  # a failure can be repeated


@pytest.mark.sim
def test_a_disk_error_while_a_snapshot_is_loaded_ends_the_process_and_not_the_world() -> None:
    outcome = run_machines(Counters, COMMANDS, 23, scenario=scenario_of("all"), check_every=20)
    assert isinstance(outcome, Outcome), outcome


@pytest.mark.sim
@pytest.mark.parametrize("check_every", [1, 7])
def test_nodes_notice_by_themselves_that_they_have_parted(monkeypatch: pytest.MonkeyPatch, check_every: int) -> None:
    # The oracle of the simulator, which compares all replicas after each command, looks away.
    monkeypatch.setattr(Reference, "met", lambda *_: None)
    monkeypatch.setattr(users, "judge", lambda *_: None)
    failure = run_machines(DiceCounters, COMMANDS, 0, scenario=scenario_of("all"), check_every=check_every)
    assert isinstance(failure, Failure)
    assert "ReplicasPartedError: the replicas have parted: the command at offset" in failure.reason
