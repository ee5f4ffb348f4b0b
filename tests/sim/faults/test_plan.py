"""Each decision of a plan has its number and its random stream, independent of the others."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.faults.plan import NUMBERS_PER_PLAN, FaultPlan
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Pace
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import THREE, run_for, started


def lived(only: tuple[int, ...] | None, *, first: int = 0) -> tuple[list[tuple[int, str]], list[float]]:
    """What was decided within a second, and the first throw of the dice of each that was carried out."""
    world = started(World(3, scenario=replace(THREE, pace=Pace(only=only))))
    dice: list[Random] = []
    thrown: list[float] = []
    done: list[tuple[int, str]] = []

    def act() -> bool:
        thrown.append(dice[-1].random())
        return len(thrown) != 2

    plan = FaultPlan(
        harm_to(world),
        {"kill": act},
        {"kill": 1.0},
        draws=Random(1),
        period_us_max=100_000,
        done=done,
        use_dice=dice.append,
        first_number=first,
    )
    plan.go_on()
    run_for(world, 1_000_000)
    return done, thrown


def test_every_decision_has_a_number_and_what_did_nothing_is_not_kept() -> None:
    done, thrown = lived(None)
    assert [number for number, _ in done][:3] == [0, 2, 3]
    assert len(thrown) == len(done) + 1


def test_some_of_them_are_what_they_were_and_numbers_of_other_plans_are_not_meant() -> None:
    _, whole = lived(None)
    done, part = lived((1, 3, NUMBERS_PER_PLAN + 2))
    assert ([number for number, _ in done], part) == ([1], [whole[1], whole[3]])
    done, part = lived((1, NUMBERS_PER_PLAN + 2), first=NUMBERS_PER_PLAN)
    assert ([number for number, _ in done], part) == ([NUMBERS_PER_PLAN + 2], [whole[2]])
