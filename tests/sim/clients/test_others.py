"""The other clients of a world begin together, and a world waits until its producers are served."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Course, ProducerSettings
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_until


def test_producers_are_served_when_each_was_acknowledged_after_the_faults() -> None:
    scenario = replace(THREE, producers=ProducerSettings(count=(2,)), course=Course(faults_us=1_000_000))
    world, _ = led(World(SEED_OF_THREE, scenario=scenario))
    world.others.begin()
    assert len(world.others.producers) == 2
    run_until(world, lambda: all(each.acknowledged_us > 0 for each in world.others.producers))
    assert not world.others.are_served
    run_until(world, lambda: world.others.are_served)
    assert all(each.acknowledged_us > 1_000_000 for each in world.others.producers)


def test_a_world_without_producers_waits_for_none() -> None:
    assert World(SEED_OF_THREE, scenario=THREE).others.are_served
