"""A process is killed within a snapshot operation, as soon as there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.sim.faults.snapshot import SnapshotFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.fault_kinds import SNAPSHOT
from pykraft.sim.scenario.scenario import SnapshotSettings
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import THREE, calm_world, run_until

OFTEN = SnapshotSettings(
    records_between=(20,), retention_size_bytes_max=(0,), clean_interval_ms=(50,), slice_size_bytes_max=(500,)
)


def busy_world() -> World:
    world = World(8, scenario=replace(THREE, snapshots=OFTEN))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_until(world, lambda: world.faults.counts["log cleaned"] > 0)
    return world


def fall_behind(world: World, node_id: int) -> None:
    """The others clean their logs beyond the end of this one, which hears of nothing meanwhile."""
    others = [other for other in world.nodes if other != node_id]
    for other in others:
        world.network.cut(node_id, other)
        world.network.cut(other, node_id)
    host = world.nodes[node_id].host
    assert host is not None
    end_offset = host.status.log_end_offset
    run_until(world, lambda: all(world.nodes[other].ledger.begin.offset > end_offset + 50 for other in others))
    world.network.heal()


@pytest.mark.parametrize("kind", SNAPSHOT)
def test_a_process_ends_in_it(kind: str) -> None:
    world = busy_world()
    faults, tries = world.faults.snapshot, 0
    while not world.faults.counts[kind]:
        tries += 1
        for _ in range(6):
            assert faults.kinds[kind]()
        if kind in SNAPSHOT[1:3]:
            fall_behind(world, 1)
        wait_us = world.clock.now_us + 500_000
        while world.clock.now_us < wait_us and not world.faults.counts[kind]:
            world.turn()
        run_until(world, lambda: all(node.host is not None for node in world.nodes.values()))
    assert tries < 10


def test_in_a_world_without_snapshots_there_is_nothing_to_end() -> None:
    faults = SnapshotFaults(harm_to(calm_world()))
    assert not any(act() for act in faults.kinds.values())


def test_what_was_prepared_is_taken_back() -> None:
    world = busy_world()
    faults = world.faults.snapshot
    for act in faults.kinds.values():
        assert act()
    faults.stop()
    assert all(node.disk.on_operation is None for node in world.nodes.values())
