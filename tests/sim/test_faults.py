"""Each kind of fault does what its name says; when they stop, all nodes run and all links work."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.sim.faults import Faults
from pykraft.sim.world import World
from tests.sim.worlds import calm_world, led_world, run_for, run_until, started_world


def faults_of(world: World, seed: int = 1) -> Faults:
    world.faults = Faults(world, Random(seed))
    return world.faults


def running(world: World) -> int:
    return len(world.hosts())


@pytest.mark.parametrize("name", ["_kill", "_lose_power"])
def test_one_node_goes_down_and_comes_back(name: str) -> None:
    world = started_world()
    faults = faults_of(world)
    assert getattr(faults, name)()
    assert running(world) == 2
    run_until(world, lambda: running(world) == 3)


@pytest.mark.parametrize("name", ["_kill", "_lose_power", "_shut_down"])
def test_a_node_that_is_down_is_left_alone(name: str) -> None:
    assert not getattr(faults_of(calm_world()), name)()


def test_a_node_goes_down_in_the_middle_of_a_write() -> None:
    world, _ = led_world()
    world.workload.begin()
    assert faults_of(world)._interrupt(loses_power=True)
    run_until(world, lambda: any("power lost while" in line for line in world.trace.lines))


def test_all_go_down_at_once() -> None:
    world = started_world()
    assert faults_of(world)._all_down()
    assert running(world) == 0
    run_until(world, lambda: running(world) == 3)


def test_all_go_down_right_after_a_commit() -> None:
    world, _ = led_world()
    world.workload.begin()
    faults = faults_of(world)
    assert faults._await_commit()
    assert not faults._await_commit()
    run_until(world, lambda: running(world) == 0)


def test_links_are_cut_and_heal() -> None:
    world = started_world()
    faults = faults_of(world)
    assert not faults._heal()
    for cut in (faults._isolate, faults._cut_one_way, faults._split):
        while world.network.cut_links == 0:
            cut()
        assert faults._heal()
        assert world.network.cut_links == 0


def test_an_isolated_node_hears_and_is_heard_by_nobody() -> None:
    world = started_world()
    faults_of(world)._isolate()
    assert world.network.cut_links == 2 * len(world.nodes) - 1, "its link to itself counts once"


def test_the_leader_resigns() -> None:
    world, leader = led_world()
    assert faults_of(world)._resign()
    assert leader.host.role == "resigned"
    run_until(world, lambda: world.newest_leader() is not None)


def test_without_a_leader_nobody_resigns() -> None:
    assert not faults_of(started_world())._resign()


def test_a_node_leaves_and_comes_back() -> None:
    world, _ = led_world()
    assert faults_of(world)._shut_down()
    run_until(world, lambda: running(world) == 2)
    run_until(world, lambda: running(world) == 3)


def test_worlds_draw_kinds_of_their_own() -> None:
    world = calm_world()
    drawn = {tuple(name for name, _ in Faults(world, Random(seed))._kinds) for seed in range(50)}
    assert len(drawn) > 40


def test_faults_are_counted_until_they_stop_and_then_all_is_well() -> None:
    world = started_world()
    faults = faults_of(world)
    faults.begin()
    run_for(world, 3_000_000)
    assert faults.counts
    faults.stop()
    before = faults.counts.copy()
    assert running(world) == 3
    assert world.network.cut_links == 0
    run_for(world, 1_500_000)
    assert faults.counts == before
    assert running(world) == 3
