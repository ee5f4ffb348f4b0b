"""The simulator notices bugs: each one planted in production code makes the world of its seed fail.

The same world passes without the bug, so it is the bug that is noticed. When a change of the code moves the worlds,
``python -m tests.sim.mutants NAME`` finds a new seed, and ``pytest --rewrite`` draws the table of the documentation.
"""

from __future__ import annotations

import pytest

from pykraft.sim.run import Failure, simulate
from pykraft.sim.world import Outcome
from tests.sim.mutants import MUTANTS, planted
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.sim

BEGIN, END = "<!-- mutants -->\n", "<!-- end -->"


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


def table_of_mutants() -> str:
    rows = [("The bug", "First seed that notices", "By"), ("---", "---", "---")]
    for mutant in MUTANTS.values():
        story = " ".join((mutant.plant.__doc__ or "").split()).replace("``", "`")
        rows.append((story, str(mutant.seed), f"`{mutant.noticed_by}`"))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_page_of_the_simulation_draws_the_table(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "simulation.md"
    page = path.read_text()
    expected = f"{page.partition(BEGIN)[0]}{BEGIN}\n{table_of_mutants()}\n{END}{page.partition(END)[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected
