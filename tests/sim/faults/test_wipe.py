"""A node with an empty disk stays down until its former votes and copies no longer count, and then is like new."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pykraft.core.on import epoch_raise
from pykraft.errors import CorruptionError, StorageError
from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.wipe import WipeFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Pace, Scenario
from pykraft.types import Epoch, NodeId, ReplicaKey
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import THREE, calm_world, led, led_world, run_until


def test_a_wiped_voter_comes_back_after_an_election_without_it_and_gets_everything() -> None:
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    (node,) = [node for node in world.nodes.values() if int(node.node_id) in world.facts.atlas.waiting]
    epoch = world.facts.atlas.waiting[int(node.node_id)]
    assert epoch >= leader.host.status.epoch
    assert world.facts.platters.end_offset(node) == 0
    assert told(world, "is given an empty disk")
    run_until(world, lambda: node.process is not None)
    assert world.facts.committed.last_epoch > epoch
    goal = world.facts.committed.end_offset
    run_until(world, lambda: world.facts.platters.end_offset(node) >= goal)


def test_nobody_waits_for_an_epoch_that_only_a_stranger_told_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # As a node that has lost its leader.
    monkeypatch.setattr(epoch_raise, "_hears_leader", lambda _: False)
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    strangers = StrangerFaults(harm_to(world))
    strangers.use_dice(Random(1))
    far = Epoch(leader.host.status.epoch + 500)
    misled = world.nodes[leader.node_id % 3 + 1]
    key = ReplicaKey(NodeId(STRANGER_ID))
    strangers._present.ask(misled.node_id, strangers._vote(misled, key, far, pre_vote=False))
    run_until(world, lambda: misled.status is not None and misled.status.epoch >= far)
    WipeFaults(harm_to(world))._exchange(misled)
    assert leader.host.status.epoch <= world.facts.atlas.waiting[int(misled.node_id)] < far
    run_until(world, lambda: misled.process is not None)


def test_one_at_a_time_and_never_without_a_majority_beside() -> None:
    world, _ = led_world()
    family = WipeFaults(harm_to(world))
    assert family.kinds["wiped disk"]()
    assert not family.kinds["wiped disk"]()
    for voters in (1, 2):
        small = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(voters,), observers=(0,))))
        assert not WipeFaults(harm_to(small)).kinds["wiped disk"]()


def test_a_node_that_never_ran_is_wiped_as_well() -> None:
    world = calm_world()
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    assert harm.states["wiped disk"] == {"down": 1}


def test_whose_snapshot_is_damaged_gets_an_empty_disk_and_nobody_else_does() -> None:
    world, leader = led_world()
    faults, node = WipeFaults(harm_to(world)), world.nodes[leader.node_id % 3 + 1]
    run_until(world, lambda: world.facts.platters.end_offset(node) > 0)
    directory = node.config.partition_directory
    for name, is_damage in (("recovery-point", True), (f"{5:020}-{1:010}.checkpoint", False)):
        error = StorageError(directory / name, "cannot be read")
        if is_damage:
            error = CorruptionError(directory / name, position=0, expected="one thing", found="another")
        faults.failed(node, error)
        assert world.facts.platters.end_offset(node) > 0
    node.kill()
    snapshot = directory / f"{5:020}-{1:010}.checkpoint"
    faults.failed(node, CorruptionError(snapshot, position=0, expected="one thing", found="another"))
    assert world.facts.platters.end_offset(node) == 0
    assert not world.facts.atlas.may_return(node)


def test_the_start_after_a_disk_was_emptied_may_be_killed_and_the_power_goes_later() -> None:
    world, _ = led(World(8, scenario=replace(THREE, pace=Pace(emptied_kill_probability=1.0))))
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["emptied disk"]()
    run_until(world, lambda: told(world, "loses power after it was killed in its first start"))
    assert told(world, "killed while")
    run_until(world, lambda: all(node.process is not None for node in world.nodes.values()))
