"""Simulated worlds notice each bug that is planted in the recipes; without it they pass."""

import pytest

from pykraft.sim.run.world import Outcome
from tests.recipes.worlds.bugs import BUGS
from tests.recipes.worlds.idle_leases import run_idle_leases
from tests.recipes.worlds.search import noticed
from tests.recipes.worlds.workload import run_recipes


@pytest.mark.sim
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    found = noticed(BUGS[name], BUGS[name].seed)
    assert found is not None
    assert found[0] == BUGS[name].noticed_by, found


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(3))
def test_leases_end_in_time_under_any_number_of_leaders(seed: int) -> None:
    outcome = run_idle_leases(seed)
    assert isinstance(outcome, Outcome), outcome


@pytest.mark.sim
@pytest.mark.parametrize(("seed", "check_every"), [(0, None), (1, 5), (2, None), (3, 1)])
def test_without_a_bug_worlds_pass_as_often_as_they_are_played(seed: int, check_every: int | None) -> None:
    outcome = run_recipes(seed, check_every=check_every)
    assert isinstance(outcome, Outcome), outcome
    if seed == 1:
        again = run_recipes(seed, check_every=check_every)
        assert isinstance(again, Outcome)
        assert again.digest == outcome.digest
