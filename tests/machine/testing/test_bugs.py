"""Simulated worlds notice each bug that is planted in a replicated state machine; without it they pass."""

from __future__ import annotations

import pytest

from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.sim.run.outcome import Outcome
from tests.machine.counters import Counters
from tests.machine.testing.bugs import BUGS, draw
from tests.machine.testing.search import noticed


@pytest.mark.sim
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    assert noticed(BUGS[name], BUGS[name].seed) == BUGS[name].noticed_by


@pytest.mark.sim
@pytest.mark.parametrize("seed", sorted({bug.seed for bug in BUGS.values()}))
def test_without_the_bug_the_same_world_passes(seed: int) -> None:
    outcome = run_machines(Counters, draw, seed, scenario=scenario_of("all"))
    assert isinstance(outcome, Outcome), outcome
    again = run_machines(Counters, draw, seed, scenario=scenario_of("all"))
    assert isinstance(again, Outcome)
    assert again.digest == outcome.digest  # a failure can be repeated
