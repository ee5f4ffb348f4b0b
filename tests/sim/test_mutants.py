"""The simulator notices bugs: each one planted in production code makes the world of its seed fail.

The same world passes without the bug, so it is the bug that is noticed. When a change of the code moves the worlds,
``python -m tests.sim.mutants NAME`` finds a new seed.
"""

from __future__ import annotations

import pytest

from pykraft.sim.run import Failure, simulate
from pykraft.sim.world import Outcome
from tests.sim.mutants import MUTANTS, planted

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    with planted(mutant):
        failure = simulate(mutant.seed)
    assert isinstance(failure, Failure), f"{name} lives: {failure}"
    assert mutant.noticed_by in failure.reason


@pytest.mark.parametrize("seed", sorted({mutant.seed for mutant in MUTANTS.values()}))
def test_without_the_bug_the_same_world_passes(seed: int) -> None:
    outcome = simulate(seed)
    assert isinstance(outcome, Outcome), outcome
