"""Each world has its own kinds and pace; when the faults stop, all nodes run and all links work."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.faults import Faults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import Pace
from tests.sim.worlds import THREE, calm_world, run_for, run_until, started_world


def test_worlds_draw_kinds_of_their_own() -> None:
    world = calm_world()
    drawn = {tuple(Faults(world, Random(seed))._kinds) for seed in range(50)}
    assert len(drawn) > 40
    assert all("heal" in kinds for kinds in drawn)


def test_kinds_without_weight_are_not_drawn_and_without_any_nothing_happens() -> None:
    quiet = World(1, scenario=replace(THREE, faults={"kill": 0.0, "resign": 1.0}))
    assert set(quiet.faults._kinds) == {"resign"}
    still = World(1, scenario=replace(THREE, faults={}))
    for node in still.nodes.values():
        node.start()
    still.faults.begin()
    run_for(still, 1_000_000)
    assert not still.faults.counts
    assert not still.faults.done


def test_only_the_decisions_that_are_asked_for_are_carried_out() -> None:
    scenario = replace(THREE, pace=Pace(period_us_max=(100_000,)))
    whole = World(3, scenario=scenario)
    part = World(3, scenario=replace(scenario, pace=replace(scenario.pace, only=(1, 4))))
    for world in (whole, part):
        for node in world.nodes.values():
            node.start()
        world.faults.begin()
        run_for(world, 1_000_000)
    assert {number for number, _ in part.faults.done} <= {1, 4}
    assert len(whole.faults.done) > len(part.faults.done)


def test_faults_are_counted_until_they_stop_and_then_all_is_well() -> None:
    world = World(5, scenario=replace(load(["all"]), cluster=THREE.cluster))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    world.faults.begin()
    run_for(world, 3_000_000)
    assert world.faults.counts
    assert world.faults.counts.keys() == world.faults.states.keys()
    world.faults.stop()
    before = world.faults.counts.copy()
    assert world.network.cut_links == 0
    run_until(world, lambda: len(world.facts.hosts()) == 3)
    run_for(world, 1_500_000)
    assert world.faults.counts == before


def test_a_wiped_voter_starts_only_when_it_may() -> None:
    world = started_world()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    node = world.nodes[1]
    world.facts.atlas.wiped(node, 1_000)
    node.kill()
    run_for(world, 2_000_000)
    assert node.process is None
    world.facts.atlas.wiped(node, 0)
    run_until(world, lambda: node.process is not None)
