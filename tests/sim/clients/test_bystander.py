"""A plain listener of each process: it is held now and then, falls behind the log start, and continues there."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from tests.sim.worlds import THREE, run_until

SNAPSHOTS = SnapshotSettings(
    records_between=(10,),
    bystander_probability=1,
    given_up_probability=0,
    retention_size_bytes_max=(0,),
    clean_interval_ms=(50,),
)


def test_it_falls_behind_and_goes_on() -> None:
    world = World(8, scenario=replace(THREE, snapshots=SNAPSHOTS))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_until(world, lambda: world.faults.counts["listener fell behind"] > 2)
    goal = world.users.acknowledged_end_offset
    run_until(world, lambda: all(each.end_offset >= goal for each in world.bystanders.values()))
    assert len(world.bystanders) == 3


def test_a_world_without_snapshots_has_none() -> None:
    snapshots = replace(SNAPSHOTS, records_between=(0,))
    world = World(8, scenario=replace(THREE, snapshots=snapshots))
    for node in world.nodes.values():
        node.start()
    assert not world.bystanders
