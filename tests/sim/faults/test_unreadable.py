"""Snapshots cannot be read for a while by processes that run, and nothing else fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pykraft.sim.faults.unreadable import UnreadableFaults
from pykraft.sim.machine.io_errors import SNAPSHOT_UNREADABLE, SnapshotDiskError
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import SEED_OF_THREE, THREE, calm_world, started

SNAPSHOT = Path("00000000000000000010-0000000001.checkpoint")


def made(world: World, seed: int = 1) -> UnreadableFaults:
    faults = UnreadableFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def is_unreadable(world: World, node_id: int, path: Path = SNAPSHOT) -> bool:
    try:
        for _ in range(4):
            world.nodes[node_id].disk.io_errors.before_read(path)
    except SnapshotDiskError:
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_whole_snapshots_of_running_nodes_cannot_be_read_until_it_stops(seed: int) -> None:
    world = started(World(SEED_OF_THREE, scenario=replace(THREE, snapshots=SnapshotSettings(records_between=(10,)))))
    faults = made(world, seed)
    assert faults.kinds[SNAPSHOT_UNREADABLE]()
    hit = [node_id for node_id in world.nodes if is_unreadable(world, node_id)]
    assert len(hit) in {1, 3}
    assert world.facts.counts[SNAPSHOT_UNREADABLE] == len(hit), "each is counted once"
    for other in ("00000000000000000010-0000000001.checkpoint.part", "00000000000000000000.log"):
        assert not is_unreadable(world, hit[0], Path(other))
    world.nodes[hit[0]].kill()
    assert not is_unreadable(world, hit[0]), "a node that starts reads its newest snapshot"
    faults.stop()
    assert not any(is_unreadable(world, node_id) for node_id in world.nodes)


def test_without_snapshots_there_is_nothing_to_read() -> None:
    assert not made(started(calm_world())).kinds[SNAPSHOT_UNREADABLE]()
