"""Nodes that are killed during their first start lose power later, and come back."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Course
from tests.sim.worlds import THREE


def lived(seed: int, probability: float) -> World:
    course = Course(faults_us=2_000_000, first_kill_probability=probability)
    world = World(seed, scenario=replace(THREE, course=course, faults={"heal": 1.0}))
    world.run()
    return world


def test_it_happens_to_each_node_that_it_is_drawn_for() -> None:
    world = lived(3, 1.0)
    assert world.faults.counts["kill then power loss"] == 3
    assert world.faults.counts["kill while writing"] > 0


def test_it_happens_to_nobody_by_default() -> None:
    assert not lived(3, 0.0).faults.counts["kill then power loss"]
