"""Worlds are drawn from the default scenario, apart from the fields that another one changes."""

from __future__ import annotations

from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import DEFAULT, ClusterSettings, Course, QuorumSettings, Scenario


def test_a_world_without_a_scenario_has_the_default_one() -> None:
    assert World(1).scenario == DEFAULT == Scenario()


def test_a_scenario_decides_the_size_and_the_harm() -> None:
    scenario = Scenario(
        cluster=ClusterSettings(voters=(5,), observers=(2,)), course=Course(faults_us=50_000), faults={}
    )
    outcome = World(1, scenario=scenario).run()
    assert (outcome.voters, outcome.observers, outcome.faults) == (5, 2, {})


def test_a_world_without_operators_has_nodes_that_serve_none() -> None:
    quorum = QuorumSettings(without_operators_probability=1)
    for faults, served in (({}, ()), ({"promotion": 0}, ()), ({"promotion": 1}, None)):
        world = World(1, scenario=Scenario(quorum=quorum, faults=faults))
        assert {node.config.operator_listeners for node in world.nodes.values()} == {served}
