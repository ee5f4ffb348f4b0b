"""Each family with a plan of its own has the kinds named for it, and a world without its kinds stays what it was."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.faults.own_plans import own_plans
from pykraft.sim.run.world import World
from pykraft.sim.scenario.fault_kinds import OF_THEIR_OWN
from pykraft.sim.scenario.file import load
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import calm_world


def test_names_and_acts_are_the_same() -> None:
    harm = harm_to(calm_world())
    plans = own_plans(harm, MembershipFaults(harm))
    assert tuple(tuple(plan.family.kinds) for plan in plans) == OF_THEIR_OWN
    assert all(plan.period_us_min <= plan.period_us_max for plan in plans)


def test_a_world_that_draws_no_such_kind_stays_what_it_was() -> None:
    scenario = load(["default"])
    scenario = replace(scenario, course=replace(scenario.course, faults_us=1_000_000))
    without = World(3, scenario=scenario).run()
    unlikely = replace(scenario, faults={**scenario.faults, "forged frames": 1e-9})
    assert World(3, scenario=unlikely).run().digest == without.digest


def test_a_world_that_draws_one_has_it() -> None:
    plans = World(3, scenario=load(["forged"])).faults._plans
    assert {"forged frames": 1.0} in [plan._kinds for plan in plans]
