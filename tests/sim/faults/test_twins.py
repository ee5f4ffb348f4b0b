"""A twin runs for a while beside a static voter, one at a time, and then it is gone."""

from __future__ import annotations

from random import Random

from pykraft.sim.faults.twins import TwinFaults
from pykraft.sim.run.world import World
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, dynamic_world, led, led_world, run_until


def made(world: World, seed: int = 1) -> TwinFaults:
    faults = TwinFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def test_a_twin_comes_and_goes_while_the_followers_stand_still() -> None:
    world, leader = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, faults.kinds["twin"])
    assert told(world, "has a twin from now on")
    assert not faults.kinds["twin"](), "one at a time"
    followers = [node for node in world.facts.voters() if node.node_id != leader.node_id]
    faults._pause_followers(leader.node_id, Random(1))
    faults._pause_followers(leader.node_id, Random(2))  # who stands still already is left alone
    assert all(node.process is not None and node.process.is_paused for node in followers)
    assert told(world, "stands still for")
    run_until(world, lambda: faults._twin is None)
    faults.stop()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_where_nobody_leads_or_voters_have_directory_ids_there_is_no_twin() -> None:
    assert not made(calm_world()).kinds["twin"]()
    world, _ = led(dynamic_world())
    assert not made(world).kinds["twin"]()


def test_where_pre_votes_are_unknown_there_is_no_twin() -> None:
    world, _ = led_world()
    world.facts.members.has_pre_votes = False
    assert not made(world).kinds["twin"]()
