"""A node with an empty disk stays away until its former votes and copies count for nothing, and then is like new."""

from __future__ import annotations

from pykraft.sim.faults.wipe import WipeFaults
from pykraft.sim.scenario import Cluster, Scenario
from pykraft.sim.world import World
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, led_world, run_until


def test_a_wiped_voter_comes_back_after_an_election_without_it_and_gets_everything() -> None:
    world, leader = led_world()
    world.workload.begin()
    run_until(world, lambda: world.workload.acknowledged > 20)
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    (node,) = [node for node in world.nodes.values() if int(node.node_id) in world.atlas.waiting]
    epoch = world.atlas.waiting[int(node.node_id)]
    assert epoch >= leader.host.epoch
    assert world.durable_end_offset(node) == 0
    assert told(world, "is given an empty disk")
    run_until(world, lambda: node.process is not None)
    assert world.committed.last_epoch > epoch
    goal = world.committed.end_offset
    run_until(world, lambda: world.durable_end_offset(node) >= goal)


def test_one_at_a_time_and_never_without_a_majority_beside() -> None:
    world, _ = led_world()
    family = WipeFaults(harm_to(world))
    assert family.kinds["wiped disk"]()
    assert not family.kinds["wiped disk"]()
    for voters in (1, 2):
        small = World(1, scenario=Scenario(cluster=Cluster(voters=(voters,), observers=(0,))))
        assert not WipeFaults(harm_to(small)).kinds["wiped disk"]()


def test_a_node_that_never_ran_is_wiped_as_well() -> None:
    world = calm_world()
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    assert harm.states["wiped disk"] == {"down": 1}
