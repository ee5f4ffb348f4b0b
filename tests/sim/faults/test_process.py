"""Processes that end, pause, restart repeatedly, or leave: each fault does what its name says."""

from __future__ import annotations

import pytest

from pykraft.sim.faults import Faults
from pykraft.sim.faults.process import ProcessFaults
from pykraft.sim.run.world import World
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, led_world, run_for, run_until, started_world


def faults_of(world: World) -> Faults:
    return world.faults


def running(world: World) -> int:
    return len(world.facts.hosts())


@pytest.mark.parametrize("kind", ["kill", "power loss"])
def test_one_node_goes_down_and_comes_back(kind: str) -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds[kind]()
    assert running(world) == 2
    assert harm.counts == {kind: 1}
    run_until(world, lambda: running(world) == 3)


@pytest.mark.parametrize(
    "kind", ["kill", "power loss", "kill then power loss", "restart storm", "pause", "shutdown", "all down", "resign"]
)
def test_nodes_that_are_down_are_left_alone(kind: str) -> None:
    harm = harm_to(calm_world())
    assert not ProcessFaults(harm).kinds[kind]()
    assert not harm.counts


@pytest.mark.parametrize(
    ("kind", "text"), [("kill while writing", "killed"), ("power loss while writing", "power lost")]
)
def test_a_node_ends_in_the_middle_of_a_write_and_only_that_is_counted(kind: str, text: str) -> None:
    world, _ = led_world()
    world.users.begin()
    assert ProcessFaults(harm_to(world)).kinds[kind]()
    assert not faults_of(world).counts
    run_until(world, lambda: told(world, f"{text} while"))
    assert faults_of(world).counts[kind] == 1


def test_who_ends_before_it_has_recovered_is_recovering() -> None:
    world = calm_world()
    world.nodes[1].disk.interrupt_within(2, loses_power=False)
    world.nodes[1].start()
    assert faults_of(world).states == {"kill while writing": {"recovering": 1}}


def test_power_goes_after_a_kill_before_anything_more_was_synced() -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds["kill then power loss"]()
    run_until(world, lambda: harm.counts["kill then power loss"] == 1)
    run_until(world, lambda: running(world) == 3)


def test_a_storm_starts_a_node_again_and_again() -> None:
    world = started_world()
    assert ProcessFaults(harm_to(world)).kinds["restart storm"]()
    run_for(world, 1_000_000)
    assert sum("starts" in line for line in world.trace.lines) >= 3 + 3
    assert running(world) == 3


def test_a_process_that_stands_still_takes_everything_late() -> None:
    world, _ = led_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds["pause"]()
    (node,) = [node for node in world.nodes.values() if node.process is not None and node.process.is_paused]
    run_until(world, lambda: node.process is not None and not node.process.is_paused)
    assert harm.states["pause"] in ({"leader": 1}, {"follower": 1})


@pytest.mark.parametrize("kind", ["all down", "all killed"])
def test_all_go_down_at_once(kind: str) -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds[kind]()
    assert running(world) == 0
    assert sum(harm.states[kind].values()) == 3
    run_until(world, lambda: running(world) == 3)


def test_all_go_down_right_after_a_commit() -> None:
    world, _ = led_world()
    family = ProcessFaults(harm_to(world))
    assert family.kinds["all down after a commit"]()
    assert not family.kinds["all down after a commit"](), "it is planned already"
    family.committed()
    run_for(world, 1)
    assert running(world) == 0


def test_what_was_prepared_is_taken_back() -> None:
    world, _ = led_world()
    family = ProcessFaults(harm_to(world))
    family.kinds["all down after a commit"]()
    family.kinds["kill while writing"]()
    family.stop()
    family.committed()
    world.users.begin()
    run_for(world, 200_000)
    assert running(world) == 3


def test_the_leader_resigns() -> None:
    world, leader = led_world()
    assert ProcessFaults(harm_to(world)).kinds["resign"]()
    assert leader.host.status.role == "resigned"
    run_until(world, lambda: world.facts.newest_leader() is not None)


def test_a_node_leaves_and_comes_back() -> None:
    world, _ = led_world()
    assert ProcessFaults(harm_to(world)).kinds["shutdown"]()
    run_until(world, lambda: running(world) == 2)
    run_until(world, lambda: running(world) == 3)


def test_the_leadership_is_to_go_to_a_voter_that_was_just_killed() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = ProcessFaults(harm)
    others = [node for node in world.nodes.values() if node.process is not leader]
    assert family.kinds["transfer to the dead"]()
    (dead,) = [node for node in others if node.process is None]
    assert harm.counts["transfer to the dead"] == 1
    for other in others:
        if other is not dead:
            other.kill()
    assert not family.kinds["transfer to the dead"](), "all others are down already"
