"""A failed disk stops its node, which restarts when the disk works; a stall only takes time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.sim.faults.disk import PART_SYNC_ERROR, DiskFaults
from pykraft.sim.machine.io_errors import DISK_FULL, READ_ERROR, SYNC_ERROR, WRITE_ERROR, DiskError
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario, SnapshotSettings
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import led_world, run_until


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (READ_ERROR, "cannot read: Input/output error"),
        (WRITE_ERROR, "cannot write: Input/output error"),
        (SYNC_ERROR, "cannot sync: Input/output error"),
        (DISK_FULL, "cannot write: No space left on device"),
    ],
)
def test_a_node_stops_with_the_error_of_its_disk_and_starts_again(kind: str, text: str) -> None:
    world, _ = led_world()
    world.users.begin()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(9):
        family.kinds[kind]()
    if kind == READ_ERROR:
        for node in world.nodes.values():
            node.kill()
    run_until(world, lambda: told(world, text))
    assert harm.counts[kind] >= 1
    family.stop()
    run_until(world, lambda: len(world.facts.hosts()) == 3)


def test_what_is_asked_of_a_disk_that_stalls_is_done_later() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(20):
        assert family.kinds["disk stalled"]()
    node = world.nodes[leader.node_id]
    until_us = node.disk.io_errors.stalled_until_us
    assert until_us > world.clock.now_us
    end_offset = world.facts.platters.end_offset(node)
    leader.host.propose([b"value"], epoch=leader.host.status.epoch, now=node.clock.instant, on_outcome=lambda _: None)
    run_until(world, lambda: world.facts.platters.end_offset(node) > end_offset)
    assert world.clock.now_us >= until_us
    family.stop()
    assert node.disk.io_errors.stalled_until_us == 0


def test_a_node_with_a_stalled_disk_starts_later() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.io_errors.stalled_until_us = until_us = world.clock.now_us + 400_000
    node.kill()
    run_until(world, lambda: node.process is not None)
    assert world.clock.now_us >= until_us


def test_a_sync_of_a_fetched_snapshot_fails_once_and_no_other_sync_does() -> None:
    scenario = Scenario(
        snapshots=SnapshotSettings(records_between=(5,)), cluster=ClusterSettings(voters=(3,), observers=(0,))
    )
    world = World(1, scenario=scenario)
    for node in world.nodes.values():
        node.start()
    harm = harm_to(world)
    family = DiskFaults(harm)
    assert family.kinds[PART_SYNC_ERROR]()
    assert not all(family.kinds[PART_SYNC_ERROR]() for _ in range(20))
    (node,) = [node for node in world.nodes.values() if node.disk.io_errors.is_planned][:1]
    for name in ("quorum-state", f"{5:020}-{1:010}.checkpoint.part", f"{5:020}-{1:010}.checkpoint"):
        node.disk.io_errors.before_sync(Path("/disk") / name)
    with pytest.raises(DiskError):
        node.disk.io_errors.before_sync(Path(f"/disk/{5:020}-{1:010}-{1:010}.checkpoint.part"))
    assert harm.counts[PART_SYNC_ERROR] == 1
    run_until(world, lambda: not node.disk.io_errors.is_planned)


def test_without_snapshots_no_part_is_synced() -> None:
    world, _ = led_world()
    assert not DiskFaults(harm_to(world)).kinds[PART_SYNC_ERROR]()
