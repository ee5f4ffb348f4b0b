"""An older directory is put back only where nothing depends on what it forgets, and the voter catches up."""

from __future__ import annotations

from random import Random

from pykraft.sim.faults.backups import BackupFaults
from pykraft.sim.run.world import World
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, led_world, run_until

KIND = "older directory"


def made(world: World, seed: int = 1) -> BackupFaults:
    faults = BackupFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def test_a_voter_with_an_older_directory_catches_up_and_the_leader_says_so() -> None:
    world, leader = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, lambda: world.users.acknowledged > 20)
    run_until(world, faults.kinds[KIND])
    assert faults._copies
    goal = world.users.acknowledged + 200
    run_until(world, lambda: world.users.acknowledged > goal)
    follower = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    run_until(world, lambda: int(follower.node_id) in faults._copies and faults._put_back(follower))
    assert int(follower.node_id) in world.facts.claims.older_ids
    assert follower.process is None
    run_until(world, lambda: told(world, f"voter {follower.node_id} fetches from offset"))
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal)
    faults.stop()


def test_decisions_copy_and_put_back() -> None:
    world, _ = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, lambda: faults.kinds[KIND]() and bool(world.facts.claims.older_ids), limit_us=20_000_000)
    assert told(world, "is given an older copy of its directory")


def test_without_a_copy_or_a_running_node_nothing_is_put_back() -> None:
    world, _ = led_world()
    faults = made(world)
    node = world.nodes[1]
    assert not faults._put_back(node)
    assert not made(calm_world()).kinds[KIND]()
