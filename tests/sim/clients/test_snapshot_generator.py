"""Snapshots are taken about as often as the world says, of an unchanged state, and some are abandoned."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from tests.sim.worlds import THREE, run_for


def lived(snapshots: SnapshotSettings, duration_us: int = 1_500_000) -> World:
    world = World(8, scenario=replace(THREE, snapshots=snapshots))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_for(world, duration_us)
    return world


def test_snapshots_are_taken_and_the_log_is_cleaned_below_them() -> None:
    snapshots = SnapshotSettings(records_between=(20,), given_up_probability=0, retention_size_bytes_max=(0,))
    world = lived(replace(snapshots, clean_interval_ms=(50,)))
    assert world.faults.counts["snapshot taken"] > 6
    assert world.faults.counts["log cleaned"] > 2
    for node in world.nodes.values():
        assert node.host is not None
        assert node.host.status.log_start_offset > 0
        assert world.facts.platters.snapshots(node)[-1].offset >= node.host.status.log_start_offset


def test_what_is_given_up_leaves_nothing() -> None:
    world = lived(SnapshotSettings(records_between=(20,), given_up_probability=1))
    assert not world.faults.counts["snapshot taken"]
    assert not any(world.facts.platters.snapshots(node) for node in world.nodes.values())


def test_a_world_without_snapshots_takes_none() -> None:
    assert lived(SnapshotSettings(), 500_000).faults.counts["snapshot taken"] == 0


def test_a_record_that_cannot_be_written_leaves_nothing_whatever_its_application_does() -> None:
    world = lived(SnapshotSettings(records_between=(20,), given_up_probability=0, careless_probability=1))
    assert not world.faults.counts["snapshot taken"]
    assert not any(world.facts.platters.snapshots(node) for node in world.nodes.values())


def test_a_snapshot_that_ends_within_a_batch_is_refused() -> None:
    world = lived(SnapshotSettings(records_between=(20,), within_batch_probability=1))
    refused = [line for line in world.trace.lines if "takes no snapshot within a batch: no batch ends at" in line]
    assert len(refused) > 2
    ends = {entry.end_offset for entry in world.facts.committed.entries}
    for node in world.nodes.values():
        assert ends.issuperset(each.offset for each in world.facts.platters.snapshots(node))
